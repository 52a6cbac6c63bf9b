"""Speculative decoding behind transformers' `generate`, as a custom generation method.

`python -m moa_core export --format custom-generate` writes a folder with a drafter's weights
and a file that imports `generate` from here. Then, with transformers:

    model.generate(**inputs, custom_generate=FOLDER, trust_remote_code=True)

transformers prepares all but the loop: generation config, logits processors, stopping criteria.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import torch
from huggingface_hub import snapshot_download
from torch import Tensor
from transformers import (
    GenerationConfig,
    LogitNormalization,
    LogitsProcessorList,
    PreTrainedModel,
    StoppingCriteriaList,
    StopStringCriteria,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)
from transformers.generation.streamers import BaseStreamer
from transformers.generation.utils import GenerateDecoderOnlyOutput

from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Prefilled, Verified
from moa_core.decoding.verify import Sampling
from moa_core.drafters.base import Drafter
from moa_core.errors import UserError, first_line
from moa_core.loading.drafter_files import build_drafter
from moa_core.loading.hub import split
from moa_core.loading.untrusted import read_config, read_tensors
from moa_core.model.target import Target

# Arguments of `generate` that say where a repository is; transformers uses them, too.
HUB = ("revision", "token", "cache_dir", "local_files_only", "force_download")
NOT_WITH_DRAFTS = {
    "assistant_model": "an assistant model", "inputs_embeds": "embeddings for a prompt",
    "past_key_values": "a cache that was filled before", "position_ids": "positions of your own",
}  # fmt: skip
EXTRAS = ("output_scores", "output_logits", "output_attentions", "output_hidden_states")
FILES = ["config.json", "model.safetensors", "pytorch_model.bin"]
KEPT = "_moa_kept"  # the attribute of a model under which its newest drafter waits


@dataclass
class DraftedOutput(GenerateDecoderOnlyOutput):
    """What `return_dict_in_generate=True` gives.

    target_calls      forwards of the model, the prefill included
    accepted_lengths  tokens gained by each forward after it, bonus included, before any cut
    """

    target_calls: int | None = None
    accepted_lengths: list[int] | None = None


def generate(
    model: PreTrainedModel,
    inputs: Tensor | None = None,
    generation_config: GenerationConfig | None = None,
    streamer: BaseStreamer | None = None,
    drafter: str | None = None,
    seed: int | None = None,
    tree: dict[str, int] | None = None,
    **options: Any,
) -> Tensor | DraftedOutput:
    """As `model.generate`, with a drafter: greedy text is the model's own, a sample its own draw.

    drafter  folder or Hub id; default: where `custom_generate` pointed
    seed     of sampling; default: drawn from torch's generator, so that `set_seed` decides
    tree     depth, breadth and budget, instead of the drafter's own

    UserError, a ValueError, for what cannot be drafted: batches, beams, processors of the logits
    beyond temperature, top-k and top-p.
    """
    for name, what in NOT_WITH_DRAFTS.items():
        if options.get(name) is not None:
            raise UserError(f"Drafting does not work with {what}: leave out {name}.")
    # transformers calls this with its own `custom_generate`, and does not pass it on.
    place = drafter or sys._getframe(1).f_locals.get("custom_generate")  # so no decorator here
    if not isinstance(place, str):
        raise UserError("Say where the drafter's weights are: drafter=FOLDER, or a Hub id.")
    hub = {name: options.pop(name) for name in HUB if name in options}
    tokenizer, strings = options.pop("tokenizer", None), options.get("stop_strings")
    if tokenizer is not None and strings is not None:  # transformers keeps the tokenizer from us
        ours = StopStringCriteria(tokenizer, options.pop("stop_strings"))
        given = options.get("stopping_criteria") or ()
        options["stopping_criteria"] = StoppingCriteriaList([*given, ours])
    loop = partial(_loop, place=place, hub=hub, streamer=streamer, seed=seed, tree=tree)
    # The class's method: a model from a folder like ours has `generate` replaced by this one.
    plain: Callable[..., Tensor | DraftedOutput] = cast(Any, type(model)).generate
    return plain(
        model,
        inputs,
        generation_config=generation_config,
        streamer=streamer,
        custom_generate=lambda model, input_ids, **prepared: loop(model, input_ids, **prepared),
        **options,
    )


def _loop(
    model: PreTrainedModel,
    input_ids: Tensor,
    *,
    place: str,
    hub: dict[str, Any],
    streamer: BaseStreamer | None,
    seed: int | None,
    tree: dict[str, int] | None,
    logits_processor: LogitsProcessorList,
    stopping_criteria: StoppingCriteriaList,
    generation_config: GenerationConfig,
    attention_mask: Tensor | None = None,
    **_: Any,
) -> Tensor | DraftedOutput:
    """Decode one prompt, token by token to the streamer and the stopping criteria."""
    _check(input_ids, attention_mask, generation_config)
    sampling = sampling_of(generation_config, logits_processor, seed)
    with _prepared(model):
        target, drafter = _loaded(model, place, hub)
        shape = replace(drafter.tree, **cast(dict[str, Any], tree or {}))
        wanted = int(generation_config.max_length) - input_ids.shape[1]
        ids, calls, lengths = input_ids, 0, []
        run = decode(target, drafter, input_ids[0].tolist(), Settings(wanted, shape, sampling))
        for event in run:
            if not isinstance(event, Prefilled | Verified):
                continue
            calls += 1
            tokens = (event.token,) if isinstance(event, Prefilled) else event.emitted
            lengths += [event.gained] if isinstance(event, Verified) else []
            ids, done = _write(ids, tokens, streamer, stopping_criteria)
            if done:
                break
    if streamer is not None:
        streamer.end()
    if not generation_config.return_dict_in_generate:
        return ids
    whole = cast(torch.LongTensor, ids)
    return DraftedOutput(sequences=whole, target_calls=calls, accepted_lengths=lengths)


def _write(
    ids: Tensor,
    tokens: tuple[int, ...],
    streamer: BaseStreamer | None,
    stopping_criteria: StoppingCriteriaList,
) -> tuple[Tensor, bool]:
    for token in tokens:
        ids = torch.cat([ids, ids.new_tensor([[token]])], 1)
        if streamer is not None:
            streamer.put(torch.tensor([token]))
        if bool(stopping_criteria(ids, None).all()):
            return ids, True
    return ids, False


def _check(input_ids: Tensor, mask: Tensor | None, config: GenerationConfig) -> None:
    mode = config.get_generation_mode().value
    if mode not in ("greedy_search", "sample"):
        raise UserError(f"Drafting is for greedy decoding and sampling, not for {mode}.")
    if input_ids.shape[0] != 1:
        raise UserError(
            f"Drafting takes one sequence at a time, and there are {input_ids.shape[0]}: call "
            "generate once for each."
        )
    if mask is not None and not bool(mask.all()):
        raise UserError("The prompt has padding: pass it without.")
    for name in EXTRAS:
        if getattr(config, name, False):
            raise UserError(f"Drafting does not keep what {name} asks for: leave it out.")


def sampling_of(
    config: GenerationConfig, processors: LogitsProcessorList, seed: int | None
) -> Sampling:
    """How to choose tokens, read off the processors transformers made of a generation config."""
    found: dict[str, Any] = {}
    for processor in processors:
        match processor:
            case TemperatureLogitsWarper():
                found["temperature"] = processor.temperature
            case TopKLogitsWarper():
                found["top_k"] = processor.top_k
            case TopPLogitsWarper():
                found["top_p"] = processor.top_p
            case LogitNormalization():
                pass  # changes no choice
            case _:
                name = type(processor).__name__
                raise UserError(
                    f"Drafting does not work with {name}: unset the option that asks for it."
                )
    if not config.do_sample:
        return Sampling()
    drawn = int(torch.randint(2**62, ()).item()) if seed is None else seed
    return Sampling(**{"temperature": 1.0, **found, "seed": drawn})


@contextmanager
def _prepared(model: PreTrainedModel) -> Iterator[None]:
    """The model as tree verification needs it, and afterwards as it was."""
    attention, training = model.config._attn_implementation, model.training
    model.eval()
    if attention != "sdpa":
        model.set_attn_implementation("sdpa")
    try:
        yield
    finally:
        model.train(training)
        if attention != "sdpa":
            model.set_attn_implementation(attention)


def _loaded(model: PreTrainedModel, place: str, hub: dict[str, Any]) -> tuple[Target, Drafter]:
    """The model as a target, and its drafter: kept on the model for the next call."""
    local = Path(place) if Path(place).is_dir() else None
    written = local and max(path.stat().st_mtime_ns for path in local.glob("*.*"))
    key = (place, hub.get("revision"), written, model.device, model.dtype)
    kept = getattr(model, KEPT, None)
    if kept is None or kept[0] != key:
        folder = local or _fetched(place, hub)
        target = Target(model, name=model.name_or_path or "")
        drafter = build_drafter(read_config(folder), read_tensors(folder), target, None, place)
        kept = (key, target, drafter)
        setattr(model, KEPT, kept)
    return kept[1], kept[2]


def _fetched(place: str, hub: dict[str, Any]) -> Path:
    """The folder of a Hub id, or id@revision. hub: arguments of `generate` that say how."""
    name, revision = split(place)
    options = {"revision": revision, **hub}
    try:
        return Path(snapshot_download(name, allow_patterns=FILES, **options))
    except Exception as error:
        raise UserError(
            f"{place} is no folder, and the Hub did not give it: {first_line(error)}"
        ) from error
