"""Measures of trained targets (right tasks, held-out loss, samples) and drafters (acceptance)."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Trace
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.base import Drafter
from moa_core.model.target import Target
from moa_core.text import prompt_ids, tokenizer_of
from moa_core.train import corpus
from moa_core.train.bundle import tasks
from moa_core.train.own_text import prompts_in
from moa_core.train.tokenizer import Encoded, encode_many

PLAIN_START = 48  # tokens of a plain text, as a prompt
LONGEST = 256  # tokens of a prompt that acceptance is measured on
TREE = TreeSettings(5, 4, 11)  # the same for all methods, to compare the methods alone


def task_accuracy(target: Target, per_kind: int = 100) -> dict[str, float]:
    """Share of held-out tasks answered right, greedy, by kind and over all."""
    rng = random.Random(0)
    scores = {}
    for kind in tasks.KINDS:
        posed = [tasks.generate(kind, rng, held_out=True) for _ in range(per_kind)]
        prompts = [prompt_ids(tokenizer_of(target), task.prompt) for task in posed]
        replies = answers(target, prompts, 120)
        texts = tokenizer_of(target).batch_decode(replies, skip_special_tokens=True)
        right = [tasks.check(task, text) for task, text in zip(posed, texts, strict=True)]
        scores[kind] = sum(right) / per_kind
    return {**scores, "all": sum(scores.values()) / len(scores)}


@torch.inference_mode()
def answers(
    target: Target, prompts: list[list[int]], longest: int, sample: bool = False
) -> list[list[int]]:
    """Replies to prompts in one batch, cut after the end-of-turn token."""
    tokenizer = tokenizer_of(target)
    end, pad = tokenizer.eos_token_id, tokenizer.pad_token_id
    pad = end if pad is None else pad
    width = max(map(len, prompts))
    ids = torch.full((len(prompts), width), pad)
    for row, prompt in enumerate(prompts):
        ids[row, width - len(prompt) :] = torch.tensor(prompt)
    seen = torch.arange(width) >= width - torch.tensor([len(p) for p in prompts])[:, None]
    sampling = {"temperature": 1.0, "top_k": 0, "top_p": 1.0} if sample else {}
    output = target.model.generate(
        ids.to(target.device),
        attention_mask=seen.long().to(target.device),
        max_new_tokens=min(longest, target.context - width),
        do_sample=sample,
        eos_token_id=end,
        pad_token_id=pad,
        **{"temperature": None, "top_k": None, "top_p": None, **sampling},
    )[:, width:].tolist()
    return [reply[: reply.index(end) + 1] if end in reply else reply for reply in output]


@torch.inference_mode()
def reply_loss(target: Target, encoded: Encoded) -> tuple[float, int]:
    """Total loss in nats over a document's reply tokens, and their count."""
    ids = torch.tensor([encoded.ids[: target.context]], device=target.device)
    reply = torch.tensor(encoded.mask[1 : target.context], device=target.device)
    logits = target.model(input_ids=ids).logits[0, :-1].float()
    losses = F.cross_entropy(logits, ids[0, 1:], reduction="none")
    return float(losses[reply].sum()), int(reply.sum())


def heldout_loss(target: Target, data: Path, most: int = 100) -> dict[str, float]:
    """Nats per reply token on held-out documents, by kind; at most `most` of each."""
    by_kind: dict[str, list[corpus.Document]] = defaultdict(list)
    for document in _held_out(data):
        by_kind[document.kind].append(document)
    losses = {}
    for kind, documents in sorted(by_kind.items()):
        encoded = encode_many(islice(documents, most), tokenizer_of(target))
        found = [reply_loss(target, each) for each in encoded]
        total, count = sum(nats for nats, _ in found), sum(tokens for _, tokens in found)
        losses[kind] = round(total / max(1, count), 4)
    return losses


def samples(
    target: Target, prompts: list[list[int]], sample: bool = False
) -> list[tuple[str, str]]:
    """Prompts and the target's replies."""
    tokenizer = tokenizer_of(target)
    replies = answers(target, prompts, 160, sample)
    asked, said = (tokenizer.batch_decode(x, skip_special_tokens=True) for x in (prompts, replies))
    return list(zip(asked, said, strict=True))


def _held_out(data: Path) -> list[corpus.Document]:
    return corpus.shuffled(corpus.load(data, "heldout"), 0, 0, "heldout")


def heldout_prompts(target: Target, data: Path, each: int) -> dict[str, list[list[int]]]:
    """Held-out prompts by kind: chats up to their last reply, openings of texts."""
    found: dict[str, list[list[int]]] = defaultdict(list)
    for document in _held_out(data):
        if len(found.get(document.kind, ())) == each:
            continue
        # Nothing if the template refuses the chat.
        for ids, mask in encode_many([document], tokenizer_of(target)):
            starts = [n for n in range(1, len(mask)) if mask[n] and not mask[n - 1]]
            if mask[0]:
                starts = [min(PLAIN_START, len(ids) // 2)]
            if starts and 0 < starts[-1] < target.context - 128:
                found[document.kind].append(ids[: starts[-1]])
    return dict(found)


def heldout_chats(target: Target, path: Path, count: int) -> dict[str, list[list[int]]]:
    """The first few held-out prompts of a file of prompts."""
    turns = [turns[0] for _, turns in prompts_in(path, kept=True)]
    ids = [prompt_ids(tokenizer_of(target), turn) for turn in turns[: 4 * count]]
    return {"chat": [one for one in ids if len(one) < LONGEST][:count]}


def acceptance(
    target: Target, drafter: Drafter, prompts: dict[str, list[list[int]]], tokens: int = 128
) -> float:
    """τ of greedy decoding: tokens gained per target forward after the prefill, bonus included."""
    settings = Settings(tokens, TREE, eos_ids=target.eos_ids)
    lengths: list[int] = []
    for ids in chain.from_iterable(prompts.values()):
        lengths += Trace(events=list(decode(target, drafter, ids, settings))).accepted_lengths
    return round(sum(lengths) / max(1, len(lengths)), 3)


class Progress:
    """Measures each drafter's acceptance a few times in a run, and keeps its best weights.

    Acceptance decides, because a loss says little about it.

    prompts  token ids by kind, not used for training or reports
    times    measurements in a run, evenly spaced
    tokens   for each prompt, greedy
    """

    def __init__(
        self,
        target: Target,
        drafters: Mapping[str, Drafter],
        prompts: dict[str, list[list[int]]],
        times: int = 8,
        tokens: int = 64,
    ) -> None:
        self._target, self._drafters, self._prompts = target, drafters, prompts
        self._times, self._tokens = times, tokens
        self.metrics: dict[str, list[dict[str, Any]]] = {name: [] for name in drafters}
        self._best: dict[str, dict[str, Tensor]] = {}

    def due(self, update: int, updates: int | None) -> bool:
        """Whether to measure after this update."""
        times = self._times
        return updates is not None and update * times // updates > (update - 1) * times // updates

    def measure(self, update: int, seconds: Mapping[str, float]) -> dict[str, float]:
        """Every drafter's τ; `seconds` is each one's training time."""
        for name, drafter in self._drafters.items():
            found = acceptance(self._target, drafter, self._prompts, self._tokens)
            before = max((one["tau"] for one in self.metrics[name]), default=0.0)
            entry = {"updates": update, "seconds": round(seconds[name], 3), "tau": found}
            self.metrics[name].append(entry)
            if found >= before:
                state = drafter.net.state_dict()
                self._best[name] = {key: value.detach().clone() for key, value in state.items()}
        return {name: of[-1]["tau"] for name, of in self.metrics.items()}

    def restore_best(self) -> None:
        for name, state in self._best.items():
            self._drafters[name].net.load_state_dict(state)

    def state_dict(self) -> dict[str, Any]:
        return {"metrics": self.metrics, "best": self._best}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.metrics, self._best = state["metrics"], state["best"]
