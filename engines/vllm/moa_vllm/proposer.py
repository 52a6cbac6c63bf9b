"""The class that vLLM asks for drafts: `--speculative-config` names it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoTokenizer
from vllm.config import VllmConfig, get_layers_from_vllm_config
from vllm.logger import init_logger
from vllm.model_executor.layers.attention import Attention
from vllm.model_executor.models.utils import extract_layer_index
from vllm.utils.torch_utils import set_default_torch_dtype

from moa_core.drafters.moa import MoADrafter, Sizes
from moa_core.errors import UserError, first_line, saying
from moa_core.loading.catalog import default_drafter, files_of, locate, with_files
from moa_core.loading.drafter_files import build_drafter
from moa_core.loading.presets import pinned
from moa_core.model.target import Target
from moa_core.untrusted import read_config, read_tensors
from moa_vllm.drafter import PagedDrafter
from moa_vllm.kv import Pages
from moa_vllm.plugin import problem

logger = init_logger("vllm.moa")  # vLLM shows the loggers below its own name
POSITIONS = 2**16  # of all texts whose K and V are copied out of the pages at a time


class MoAProposer:
    """Chains of drafts by MoA with N = 0."""

    def __init__(self, vllm_config: VllmConfig) -> None:
        self._config = vllm_config
        self._count = int(vllm_config.speculative_config.num_speculative_tokens)
        self._known: dict[str, int] = {}  # verified tokens that were observed, by request
        self._batch: tuple[Any, Any] | None = None
        self._said = ""

    def load_model(self, model: nn.Module) -> None:
        """Load the drafter beside the target. UserError for what it cannot draft for."""
        try:
            self._load(model)
        except UserError as error:
            logger.error("MoA: %s", error)  # the engine ends, and its own words are many
            raise

    def begin(self, runner: Any, scheduled: Any) -> None:
        """The batch of the next `propose`: the runner and the scheduler's output."""
        self._batch = runner, scheduled

    def propose(
        self,
        sampled_token_ids: list[list[int]],
        num_tokens_no_spec: NDArray[np.int32],
        token_ids_cpu: NDArray[np.int32],
        slot_mappings: Any = None,
    ) -> list[list[int]]:
        """Drafts after each request's newest token; none for a prompt that is not yet read.

        sampled_token_ids   new tokens of each request
        num_tokens_no_spec  [requests] tokens of each, new ones included
        token_ids_cpu       [requests, longest] all tokens
        """
        try:
            return self._propose(sampled_token_ids, num_tokens_no_spec, token_ids_cpu)
        except Exception as error:  # an exception would end the engine, and every request in it
            said = f"{type(error).__name__}: {first_line(error)}"
            if said != self._said:
                logger.error("MoA drafts nothing in this step: %s", said)
            self._said = said
            return [[] for _ in sampled_token_ids]

    def _load(self, model: nn.Module) -> None:
        config = self._config
        layers = get_layers_from_vllm_config(config, Attention)
        refuse(config, layers)
        target = hosted(config, model)
        drafter = load(config, target)
        theirs = [layers[name] for name in sorted(layers, key=extract_layer_index)]
        sizes = drafter.net.config

        def pages(name: str, place: int, size: Sizes) -> Pages:
            """A layer that vLLM allocates and pages as one of the target's."""
            return Pages(
                Attention(
                    size.heads, size.head_dim, size.head_dim**-0.5, num_kv_heads=size.kv_heads,
                    cache_config=config.cache_config, attn_backend=theirs[0].attn_backend,
                    prefix=f"moa.layers.{len(theirs) + place}.{name}.attn",
                )
            )  # fmt: skip

        with set_default_torch_dtype(target.dtype), torch.device(target.device):
            text, memory = pages("self", 0, sizes.sa), pages("cross", 1, sizes.ca)
        self._drafter = PagedDrafter(drafter, target, [*map(Pages, theirs)], text, memory)
        self._longest = int(config.model_config.max_model_len)
        self._drafter.reserve(self._longest + self._count)
        self._pages = text
        logger.info("MoA drafts %d tokens at a time with %s.", self._count, drafter.name)

    def _propose(
        self, new: list[list[int]], counts: NDArray[np.int32], tokens: NDArray[np.int32]
    ) -> list[list[int]]:
        assert self._batch is not None, "the plug-in is not loaded"
        runner, scheduled = self._batch
        # Else vLLM skips the whole batch if one text is nearly full; drafts are cut below instead.
        runner.effective_drafter_max_model_len = self._longest + self._count
        batch = runner.input_batch
        table = batch.block_table[0].get_device_tensor(len(new))
        before = batch.num_computed_tokens_cpu[: len(new)].tolist()
        ends = [
            int(counts[row]) - 1  # the newest token is not read yet
            if new[row]
            else before[row] + scheduled.num_scheduled_tokens[name]
            for row, name in enumerate(batch.req_ids)
        ]
        # A step that failed is made up for; a prefix that vLLM found in its cache was observed.
        starts = [
            min(self._known.get(name, done), done)
            for name, done in zip(batch.req_ids, before, strict=True)
        ]
        self._observe(tokens, table, starts, ends)
        self._known = dict(zip(batch.req_ids, ends, strict=True))

        count = min(self._count, scheduled.num_spec_tokens_to_schedule)
        room = [self._longest - 1 - int(one) for one in counts[: len(new)]]
        # The sampler of vLLM for processors gives other texts where it verifies drafts, n-gram's
        # too, if any text of the batch is sampled: there, only greedy batches are drafted for.
        if batch.random_reqs and table.device.type == "cpu":
            count = 0
        rows = [row for row, ids in enumerate(new) if ids and room[row] > 0 and count]
        drafts: list[list[int]] = [[] for _ in new]
        for some in _groups(rows, ends):
            lengths = torch.tensor([ends[row] for row in some], device=table.device)
            places = torch.arange(max(ends[row] for row in some), device=table.device)
            places = places.minimum(lengths[:, None] - 1)  # [B, T]
            slots = self._slots(table[some], places)
            found = self._drafter.draft([new[row][-1] for row in some], slots, lengths, count)
            for row, chain in zip(some, found.tolist(), strict=True):
                drafts[row] = chain[: room[row]]
        return drafts

    def _observe(
        self, tokens: NDArray[np.int32], table: Tensor, starts: list[int], ends: list[int]
    ) -> None:
        """Observe tokens start..end of each request."""
        spans = [*zip(starts, ends, strict=True)]
        words = np.concatenate([tokens[row, slice(*span)] for row, span in enumerate(spans)])
        if not len(words):
            return
        places = np.concatenate([np.arange(*span) for span in spans])
        rows = np.repeat(np.arange(len(spans)), [end - start for start, end in spans])
        ids, positions, of = (
            torch.from_numpy(one.astype(np.int64)).to(table.device) for one in (words, places, rows)
        )
        slots = self._slots(table[of], positions[:, None])[:, 0]
        self._drafter.observe(ids, positions, slots)

    def _slots(self, table: Tensor, positions: Tensor) -> Tensor:
        """Slots of positions [B, n] in blocks [B, most]: [B, n]."""
        block = self._pages.block
        return table.long().gather(1, positions // block) * block + positions % block


def refuse(config: VllmConfig, layers: dict[str, Attention]) -> None:
    """UserError, in a sentence, for what MoA cannot do in vLLM."""
    if said := problem():
        raise UserError(said)
    parallel, model, cache = config.parallel_config, config.model_config, config.cache_config
    windows = any(layer.sliding_window for layer in layers.values())
    shared = any(layer.kv_sharing_target_layer_name for layer in layers.values())
    for found, what in (
        (parallel.tensor_parallel_size > 1, "tensor parallelism, which splits K and V by heads"),
        (parallel.pipeline_parallel_size > 1, "pipeline parallelism"),
        (parallel.decode_context_parallel_size > 1, "context parallelism"),
        (parallel.prefill_context_parallel_size > 1, "context parallelism"),
        (model.use_mla, "MLA, which caches no K and V"),
        (windows, "sliding windows"),
        (shared, "layers that share K and V"),
        (len(layers) != model.get_total_num_hidden_layers(), "layers other than full attention"),
        (model.is_multimodal_model or model.enable_prompt_embeds, "inputs that are no tokens"),
        (config.kv_transfer_config is not None, "KV connectors"),
        (config.lora_config is not None, "LoRA adapters"),
        (cache.cache_dtype not in ("auto", _name(model.dtype)), "K and V in fewer bits"),
    ):
        if found:
            raise UserError(f"MoA in vLLM does not work with {what}.")


def hosted(config: VllmConfig, model: Any) -> Target:
    """vLLM's model as the target of a drafter: its shape, embeddings and head. UserError if it is
    no target."""
    shape = config.model_config
    with saying(f"{shape.model} cannot be a target"), torch.device("meta"):
        empty = AutoModelForCausalLM.from_config(shape.hf_text_config, dtype=shape.dtype)
        tokenizer = None
        if not shape.skip_tokenizer_init:
            tokenizer = AutoTokenizer.from_pretrained(
                shape.tokenizer, revision=shape.tokenizer_revision, trust_remote_code=False
            )
        embeddings, head = model.model.embed_tokens.weight, model.lm_head.weight
    target = Target(empty, tokenizer, shape.model)
    words = target.config.vocab_size
    if not embeddings.dtype == head.dtype == shape.dtype:
        raise UserError("MoA in vLLM does not work with a head in fewer bits.")
    with torch.device("meta"):
        target.head = nn.Linear(target.config.hidden_size, words, bias=False)
        target.embed = nn.Embedding(words, target.config.hidden_size)
    # vLLM pads the vocabulary.
    target.head.weight = nn.Parameter(head[:words], requires_grad=False)
    target.embed.weight = nn.Parameter(embeddings[:words], requires_grad=False)
    return target


def load(config: VllmConfig, target: Target) -> MoADrafter:
    """The drafter that `--additional-config` names, else the default target's. UserError if it
    does not fit, or is no MoA drafter with N = 0."""
    options = dict(config.additional_config.get("moa") or {})
    spec = options.pop("drafter", None) or default_drafter()
    if options:
        raise UserError(
            f"moa_vllm takes no option {next(iter(options))}, only drafter: its drafts are chains "
            "of num_speculative_tokens."
        )
    place = locate(with_files(str(spec)))
    folder = files_of(place)
    stored = read_config(folder)
    tensors = read_tensors(folder, pinned(place))
    drafter = build_drafter(stored, tensors, target, None, str(spec))
    if not isinstance(drafter, MoADrafter):
        raise UserError(f"{spec} is no MoA drafter: vLLM has methods of its own for others.")
    if drafter.tli:
        raise UserError(
            f"{spec} reuses the target's last {drafter.tli} layers (N = {drafter.tli}): vLLM runs "
            "no part of a target, so only N = 0 works there."
        )
    return drafter


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _groups(rows: Sequence[int], ends: Sequence[int]) -> Iterator[list[int]]:
    """Rows in groups that need no more than POSITIONS, or of one row."""
    some: list[int] = []
    for row in rows:
        longest = max(ends[one] for one in (*some, row))
        if some and longest * (len(some) + 1) > POSITIONS:
            yield some
            some = []
        some.append(row)
    if some:
        yield some
