"""What a drafter writes once its link was cut for ever, and what the target makes of it.

Verified text is the target's own, whatever was drafted, so a run begins at its cut: the target
reads the prompt with so many tokens of its own answer, and is never heard of again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from moa_core.bench.methods import written
from moa_core.bench.suites import Prompt, readable
from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Trace
from moa_core.decoding.tree import DraftTree
from moa_core.decoding.verifier import Beside, Learnt, LinkLost
from moa_core.decoding.verify import Choices, Sampling
from moa_core.drafters.base import Drafter, Stepwise, Vanilla
from moa_core.errors import UserError
from moa_core.model.target import Target
from moa_core.text import prompt_ids, tokenizer_of
from moa_core.train.bundle import tasks

STOPS = "stream"  # plain API streaming: nothing comes after the cut
TARGET = "target"  # its own text, had the link held
Record = dict[str, Any]


class Severed(Beside):
    """The target in this process, at the end of a link that is lost for ever.

    after  new tokens of which the target is heard, at least 1: the first comes with the prompt
    """

    def __init__(self, target: Target, drafter: Drafter, after: int = 1) -> None:
        super().__init__(target.fork(), drafter.fork())
        self._left = max(after, 1)

    def prefill(self, ids: Sequence[int], capacity: int, sampling: Sampling) -> Choices:
        self._drafter.serve(self._target, capacity)
        return super().prefill(ids, capacity, sampling)

    def verify(self, tree: DraftTree, position: int) -> Choices:
        if self._left <= 0:
            raise LinkLost(0.0)
        return super().verify(tree, position)

    def keep(self, path: Sequence[int]) -> Learnt:
        first = self._prompt is not None
        learnt = super().keep(path)
        self._left -= 1 if first else len(learnt.ids)
        return learnt

    def back(self, seconds: float) -> bool:
        return False


@dataclass(frozen=True)
class Item:
    """A prompt to answer, and how to tell whether an answer to it is right; None: it is a text."""

    number: int
    kind: str
    ids: list[int]
    judge: Callable[[str], bool] | None = None


def task_items(target: Target, each: int, seed: int = 0) -> list[Item]:
    """Held-out tasks, so many of each kind."""
    rng, found = random.Random(f"offline/{seed}"), list[Item]()
    for _ in range(each):
        for kind in tasks.KINDS:
            task = tasks.generate(kind, rng, held_out=True)
            ids = prompt_ids(tokenizer_of(target), task.prompt)
            found.append(Item(len(found), kind, ids, _judge(task)))
    return found


def _judge(task: tasks.Task) -> Callable[[str], bool]:
    return lambda reply: tasks.check(task, reply)


def text_items(target: Target, prompts: Sequence[Prompt]) -> list[Item]:
    """Stories and dialogues of a suite, which nothing can tell right from wrong."""
    kept = [prompt for prompt in prompts if prompt.kind in ("story", "dialogue")]
    if not kept:
        return []
    known, ids = readable(kept, target)
    return [Item(one.number, one.kind, one_ids) for one, one_ids in zip(known, ids, strict=True)]


@dataclass(frozen=True)
class Reference:
    """The target's own answer to an item, and the log-probability that it gave each token of it."""

    answer: list[int]
    log_probs: list[float]


def reference(target: Target, item: Item, most: int) -> Reference:
    """Let the target answer. most: new tokens."""
    settings = Settings(most, eos_ids=target.eos_ids)
    answer = Trace(events=list(decode(target, Vanilla(), item.ids, settings))).output_ids
    return Reference(answer, log_probs(target, item.ids, answer))


def kept_tokens(answer: Sequence[int], share: float) -> int:
    """Tokens of an answer that were verified before a cut after this share of it; at least one."""
    return max(1, round(share * len(answer)))


def after_cut(
    target: Target, drafter: Drafter, item: Item, own: Reference, share: float, most: int
) -> Record:
    """One run: what the drafter writes from the cut on, judged.

    right    whether the whole answer is; None for a text
    same     whether it is the target's own to the last token
    agreed   offline tokens before the first that is not the target's own
    log_prob their sum, by the target, given all before them; tokens: how many
    """
    known = kept_tokens(own.answer, share)
    offline = alone(target, drafter, [*item.ids, *own.answer[: known - 1]], most - known + 1)
    return _judged(target, item, own, known, offline, drafter.name)


def alone(target: Target, drafter: Drafter, ids: Sequence[int], most: int) -> list[int]:
    """What a drafter writes after the target's first token after these ids, greedily."""
    settings = Settings(most, drafter.tree, eos_ids=target.eos_ids)
    severed = Severed(target, drafter)
    trace = Trace(events=list(decode(target, drafter, ids, settings, remote=severed)))
    return trace.offline_ids


def stopped(target: Target, item: Item, own: Reference, share: float) -> Record:
    """The same where nothing comes after the cut."""
    return _judged(target, item, own, kept_tokens(own.answer, share), [], STOPS)


def unbroken(target: Target, item: Item, own: Reference, share: float) -> Record:
    """The same for the target itself, had the link held."""
    known = kept_tokens(own.answer, share)
    return _judged(target, item, own, known, own.answer[known:], TARGET)


def _judged(
    target: Target, item: Item, own: Reference, known: int, offline: list[int], method: str
) -> Record:
    text = [*own.answer[:known], *offline]
    rest = own.answer[known:]
    agreed = next(
        (at for at, (a, b) in enumerate(zip(offline, rest, strict=False)) if a != b),
        min(len(offline), len(rest)),
    )
    same = text == own.answer
    values = own.log_probs if same else log_probs(target, item.ids, text) if offline else []
    right = None
    if item.judge:
        right = item.judge(str(tokenizer_of(target).decode(text, skip_special_tokens=True)))
    return {
        "method": method, "kind": item.kind, "item": item.number, "known": known, "right": right,
        "same": same, "agreed": agreed, "tokens": len(offline),
        "log_prob": round(sum(values[known:]), 4), "grams": written(offline, 0)["grams"],
    }  # fmt: skip


@torch.inference_mode()
def log_probs(target: Target, ids: Sequence[int], answer: Sequence[int]) -> list[float]:
    """The target's log-probability of each token of an answer, given all that stands before."""
    whole = torch.tensor([[*ids, *answer]], device=target.device)
    logits = target.model(input_ids=whole, use_cache=False).logits[0, len(ids) - 1 : -1].float()
    found: list[float] = (
        logits.log_softmax(-1).gather(-1, whole[0, len(ids) :, None])[:, 0].tolist()
    )
    return found


def check_able(drafters: Sequence[Drafter]) -> None:
    """UserError, naming it, for a drafter that cannot go on without its target."""
    for drafter in drafters:
        if not isinstance(drafter, Stepwise):
            raise UserError(f"{drafter.name} cannot write without its target: leave it out.")


def fitting(items: Sequence[Item], target: Target, most: int) -> list[Item]:
    """The items that leave room for an answer of so many tokens."""
    return [item for item in items if len(item.ids) + most < target.context]
