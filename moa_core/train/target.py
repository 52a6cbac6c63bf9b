"""Training a small target from text, tokenizer included."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from moa_core.errors import UserError
from moa_core.loading.catalog import locate
from moa_core.loading.load import files_of, model_in, tokenizer_in
from moa_core.loading.memory import config_of, parameters, size
from moa_core.model.target import moved
from moa_core.runtime import free_bytes
from moa_core.train import attention, corpus
from moa_core.train.batches import Batch, Batches, Recipe, same_document
from moa_core.train.loop import Machine, Run, Schedule
from moa_core.train.tokenizer import PADDING, train_tokenizer

PROMPT_WEIGHT = 0.2  # of users' words, which teach language but not how to answer
NAMED_WEIGHT = 3.0  # of a reply's first use of what the user wrote: given words are used more
HEAD = 64  # width of an attention head
TRAINED = 16  # bytes for each weight, with its gradient and AdamW's two averages
CPU = Machine()


@dataclass(frozen=True)
class TargetSizes:
    """A deep and narrow Llama, next to which a drafter of one or two layers is fast."""

    layers: int = 12
    width: int = 256
    heads: int = 4
    kv_heads: int = 2
    inner: int = 512
    vocabulary: int = 4096
    context: int = 1024

    @classmethod
    def of_width(cls, width: int, heads: int | None = None, **more: int) -> TargetSizes:
        """Sizes that follow the width. UserError if the heads do not divide it evenly.

        heads  by default of size 64; half as many for K and V
        """
        heads = heads or max(1, width // HEAD)
        kv_heads = max(1, heads // 2)
        if width % (2 * heads) or heads % kv_heads:
            raise UserError(
                f"--heads {heads} does not suit --width {width}: give an even number of heads, or "
                "1, and a width that is a multiple of twice as many."
            )
        return cls(width=width, heads=heads, kv_heads=kv_heads, inner=2 * width, **more)


class NextToken(nn.Module):
    """Next-token loss over packed rows. Attention crosses the documents of a row."""

    def __init__(self, model: LlamaForCausalLM) -> None:
        super().__init__()
        self.model = model

    def forward(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Weighted mean loss over all tokens but the first of each document."""
        hidden = self.model.model(input_ids=batch.ids, use_cache=False).last_hidden_state
        logits = self.model.lm_head(hidden[:, :-1])
        losses = F.cross_entropy(
            logits.flatten(0, 1).float(), batch.ids[:, 1:].flatten(), reduction="none"
        ).unflatten(0, (len(batch.ids), -1))  # [B, T - 1]
        inside, reply = _inside(batch), batch.response[:, 1:]
        weights = self.weights(batch)
        loss = (losses * weights).sum() / weights.sum().clamp(min=1)
        replies = (losses * (reply & inside)).sum() / (reply & inside).sum().clamp(min=1)
        return loss, {"reply": replies.detach()}

    def weights(self, batch: Batch) -> Tensor:
        """[B, T - 1] weight in the loss of each token but the first."""
        said = torch.where(batch.response, 1.0, PROMPT_WEIGHT)
        named = first_named(batch) & (batch.ids != self.model.config.eos_token_id)
        return torch.where(named, NAMED_WEIGHT, said)[:, 1:] * _inside(batch)


def first_named(batch: Batch) -> Tensor:
    """[B, T] bool: tokens of a reply that the user wrote before and that no reply used so far."""
    same = (batch.ids[:, :, None] == batch.ids[:, None, :]) & same_document(batch.segment)[:, 0]
    before = same.tril(-1)  # [B, T, T]
    replied = batch.response[:, None]
    asked, repeated = (before & ~replied).any(-1), (before & replied).any(-1)
    return batch.response & asked & ~repeated


def _inside(batch: Batch) -> Tensor:
    """[B, T - 1] bool: tokens that follow another token of their document."""
    return (batch.segment[:, 1:] == batch.segment[:, :-1]) & (batch.segment[:, 1:] != PADDING)


def make_tokenizer(data: Path, folder: Path, seed: int, size: int) -> PreTrainedTokenizerFast:
    """The tokenizer in `folder`; if there is none, train it on one epoch of the training split."""
    if not (folder / "tokenizer.json").exists():
        documents = corpus.shuffled(corpus.load(data), seed, 0)
        texts = (text for document in documents for text in document.contents)
        part = folder / "tokenizer.part"
        train_tokenizer(texts, size).save_pretrained(part)
        for file in sorted(part.iterdir(), key=lambda file: file.name == "tokenizer.json"):
            os.replace(file, folder / file.name)  # tokenizer.json last: it marks a whole one
        part.rmdir()
    return cast(PreTrainedTokenizerFast, AutoTokenizer.from_pretrained(folder))


def make_model(
    sizes: TargetSizes, tokenizer: PreTrainedTokenizerFast, seed: int
) -> LlamaForCausalLM:
    """A fresh Llama, embeddings and head tied. UserError if it does not fit into memory."""
    sdpa: dict[str, Any] = {"attn_implementation": "sdpa"}
    config = LlamaConfig(
        vocab_size=sizes.vocabulary,
        hidden_size=sizes.width,
        intermediate_size=sizes.inner,
        num_hidden_layers=sizes.layers,
        num_attention_heads=sizes.heads,
        num_key_value_heads=sizes.kv_heads,
        head_dim=sizes.width // sizes.heads,
        max_position_embeddings=sizes.context,
        tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        **sdpa,
    )
    with torch.device("meta"):
        needed = TRAINED * parameters(LlamaForCausalLM(config))
    if needed > (free := free_bytes(torch.device("cpu"))):
        raise UserError(
            f"Training such a target takes {size(needed)}, and this machine has {size(free)} free: "
            "give a smaller --width, --vocabulary or number of --layers."
        )
    torch.manual_seed(seed)
    return LlamaForCausalLM(config)


def _begun(start: str) -> tuple[LlamaForCausalLM, PreTrainedTokenizerFast]:
    """A target to continue from, and its tokenizer. UserError for anything but a Llama."""
    folder = files_of(locate(start))
    config, tokenizer = config_of(folder), tokenizer_in(folder)
    if config.model_type != "llama" or tokenizer is None:
        raise UserError(f"{start} is no Llama with a tokenizer: --start takes no other.")
    return cast(LlamaForCausalLM, model_in(folder, start, dtype=torch.float32)), tokenizer


def give_new_tokens(
    model: Any, old: PreTrainedTokenizerFast, tokenizer: PreTrainedTokenizerFast
) -> None:
    """Give a target another tokenizer's vocabulary.

    A token of both tokenizers keeps its embedding. Any other token starts as the mean of the old
    tokens that spell it.
    """
    known, spell = old.get_vocab(), old.backend_tokenizer.model.tokenize
    tokens = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    before = [[known[t]] if t in known else [piece.id for piece in spell(t)] for t in tokens]
    tables = [model.get_input_embeddings().weight, model.get_output_embeddings().weight]
    rows = [torch.stack([table[ids].mean(0) for ids in before]).detach() for table in tables]
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    model.get_input_embeddings().weight.data.copy_(rows[0])
    model.get_output_embeddings().weight.data.copy_(rows[1])  # the same table where both are tied
    for name in ("bos_token_id", "eos_token_id", "pad_token_id"):
        setattr(model.config, name, getattr(tokenizer, name))
        setattr(model.generation_config, name, getattr(tokenizer, name))


def train_target(
    data: Path,
    out: Path,
    schedule: Schedule,
    *,
    sizes: TargetSizes | None = None,
    rows: int = 32,
    start: str | None = None,
    new_tokenizer: bool = False,
    row_length: int | None = None,
    seed: int = 0,
    machine: Machine = CPU,
) -> None:
    """Train a target into `out`, a Hugging Face folder; log and checkpoint are in `out/run`.

    rows           packed rows per update
    row_length     tokens in a row, by default the whole context
    start          a target to continue from with a new schedule: name, folder or Hub id
    new_tokenizer  learn a new tokenizer from the data, even with `start`
    """
    sizes = sizes or TargetSizes()
    begun = None if start is None else _begun(start)
    if begun and not new_tokenizer:
        begun[1].save_pretrained(out)
    tokenizer = make_tokenizer(data, out, seed, sizes.vocabulary)
    model = begun[0] if begun else make_model(sizes, tokenizer, seed)
    if begun and new_tokenizer:
        give_new_tokens(model, begun[1], tokenizer)
    if machine.device == "cpu":
        model.set_attn_implementation(attention.NAME)
    recipe = Recipe(data, out, seed, row_length or sizes.context)
    batches = Batches(recipe, rows)
    trainee = NextToken(model)
    settings = {
        "sizes": asdict(sizes),
        "rows": rows,
        "row_length": recipe.row_length,
        "start": start and Path(start).name,
        "seed": seed,
        **({"new_tokenizer": True} if new_tokenizer else {}),
    }
    models: dict[str, nn.Module] = {"target": trainee}
    run = Run(out / "run", models, batches, schedule, machine, settings)
    if machine.compiled:
        trainee.compile()
    run.train(
        lambda batch, update: None,
        lambda model, batch, shared, update: model(batch),
        count=lambda batch: trainee.weights(batch).sum(),
    )
    done = {"updates": run.update, "of": run.updates, "seconds": round(run.seconds)}
    about = {**run.recipe, **done}
    if begun:
        del about["sizes"]  # not those of the options: its config has them
    save_target(model, out, about)


def save_target(model: LlamaForCausalLM, out: Path, about: dict[str, Any]) -> None:
    """Write the weights in bf16, in shards that any git host accepts, and the run's settings."""
    moved(model, torch.bfloat16).save_pretrained(out, max_shard_size="9MB")
    (out / "training.json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
