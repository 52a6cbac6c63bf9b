"""`bench --offline`: the quality of a drafter's text after the link is cut for good.

Verified text is the target's own, whatever was drafted, so a run starts at its cut: the target
reads the prompt and the first tokens of its own answer, and then stops answering.
"""

import argparse
import re
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import torch

from moa_core.arguments import target_of
from moa_core.bench.methods import Ours, Record
from moa_core.bench.records import ALL, Row, check_out, head, select, write
from moa_core.bench.results import aligned, grouped, shown, spread
from moa_core.bench.run import measure
from moa_core.bench.suites import Prompt, load_suite, suite_ids
from moa_core.decoding.cuttable import Cuttable
from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Trace
from moa_core.decoding.verify import first_difference
from moa_core.drafters.base import Drafter, Stepwise, Vanilla
from moa_core.drafters.names import listed
from moa_core.errors import UserError
from moa_core.loading.catalog import bundled_drafters, known_drafters
from moa_core.loading.load import load_drafter
from moa_core.model.target import Target
from moa_core.text import tokenizer_of

CUTS = (0.0, 0.1, 0.25, 0.5, 0.75)  # shares of the answer after which the link is cut
CUTS_OF_ANSWERS = (0.0, 0.5)  # where a suite knows the right answers
TABLES = ("same", 100, "% the target's own"), ("log_prob", 1, "nats a token")
TABLES_OF_ANSWERS = (("right", 100, "% still right"),)
EACH = 10  # prompts of each kind
TARGET = "target"  # its own text, without a cut
Answer = Callable[[tuple[int, ...], int], list[int]]  # to a prompt; the number is the most tokens


def prepared(
    options: argparse.Namespace,
) -> tuple[Path, Target, dict[str, Stepwise], list[Prompt]]:
    """The output file, the target, drafters that can write alone, and prompts with room for an
    answer."""
    path, target = check_out(options.out), target_of(options)
    names = [info.name for info in bundled_drafters()]
    if options.methods is not None:
        names = listed(options.methods, known_drafters())
    drafters = dict[str, Stepwise]()
    for name in names:
        if isinstance(drafter := load_drafter(name, target), Stepwise):
            drafters[name] = drafter
        elif options.methods is not None:
            raise UserError(f"{name} cannot write without its target: leave it out.")
    options.limit, options.repeat = options.limit or EACH, 1  # greedy texts do not vary
    prompts = load_suite(options.suite, options.limit)
    texts, room = suite_ids(prompts, target), target.context - options.max_new_tokens
    prompts = [one for one, ids in zip(prompts, texts, strict=True) if len(ids) < room]
    if not prompts:
        raise UserError(f"{target.name} has no room for so long an answer: ask for fewer tokens.")
    return path, target, drafters, prompts


def run(options: argparse.Namespace) -> None:
    path, target, drafters, prompts = prepared(options)
    own = lru_cache(1)(partial(answer, target))  # the runs of a prompt follow one another
    asks = all(prompt.choices for prompt in prompts)  # else how much is the target's own is told
    cuts = CUTS_OF_ANSWERS if asks else CUTS
    every = {TARGET: Vanilla(), **drafters}
    methods = {
        f"{name}@{cut}": Alone(name, target, drafter, cut, own, judges=not asks)
        for name, drafter in every.items()
        for cut in cuts
    }
    folder = path.with_suffix(".runs")
    facts, records = measure(options, target, methods, prompts, folder, cuts=cuts)
    found = right_rows(records, prompts, target) if asks else rows(records)
    write(head("answers" if asks else "offline", options.given, **facts, rows=found), path)
    overall, tables = select(found, kind=ALL), TABLES_OF_ANSWERS if asks else TABLES
    for figure, scale, unit in tables:
        print(table(overall, figure, scale, unit))
    print(path)


class Alone(Ours):
    """A drafter's text from a cut on. `target` goes on itself.

    own     the target's answer
    judges  whether the target scores the text
    """

    timed = False

    def __init__(
        self, name: str, target: Target, drafter: Drafter, cut: float, own: Answer, judges: bool
    ) -> None:
        super().__init__(name, target, drafter)
        self._cut, self._own, self._judges = cut, own, judges

    def run(self, ids: Sequence[int], settings: Settings) -> Record:
        most = settings.max_new_tokens
        own = self._own(tuple(ids), most)
        known = max(1, round(self._cut * len(own)))  # tokens that were verified before the cut
        offline = own[known:]
        if self.name != TARGET:
            text = [*ids, *own[: known - 1]]
            offline = alone(self.target, self.drafter, text, most - known + 1)
        if not self._judges:
            return {"known": known, "text": [*own[:known], *offline]}
        return judged(self.target, ids, own, known, offline)


def answer(target: Target, ids: Sequence[int], most: int) -> list[int]:
    """The target's own answer. most: most new tokens."""
    settings = Settings(most, eos_ids=target.eos_ids)
    return Trace(events=list(decode(target, Vanilla(), ids, settings))).output_ids


def alone(target: Target, drafter: Drafter, ids: Sequence[int], most: int) -> list[int]:
    """The drafter's greedy text after these ids and the target's next token."""
    settings = Settings(most, drafter.tree, eos_ids=target.eos_ids)
    severed = Cuttable(target, drafter, 1)
    trace = Trace(events=list(decode(target, drafter, ids, settings, remote=severed)))
    return trace.offline_ids


def judged(
    target: Target, ids: Sequence[int], own: Sequence[int], known: int, offline: Sequence[int]
) -> Record:
    """The score of an answer whose first `known` tokens are the target's own.

    tokens    how many were written offline
    same      those before the first that the target would not have written
    log_prob  the target's, of the offline tokens
    """
    parted = first_difference(offline, own[known:])
    values = log_probs(target, ids, [*own[:known], *offline]) if offline else []
    return {
        "known": known, "tokens": len(offline),
        "same": len(offline) if parted is None else parted,
        "log_prob": round(sum(values[known:]), 4),
    }  # fmt: skip


@torch.inference_mode()
def log_probs(target: Target, ids: Sequence[int], text: Sequence[int]) -> list[float]:
    """The target's log-probability of each token of a text, given the prompt and all before."""
    whole = torch.tensor([[*ids, *text]], device=target.device)
    logits = target.model(input_ids=whole, use_cache=False).logits[0, len(ids) - 1 : -1].float()
    chosen = logits.log_softmax(-1).gather(-1, whole[0, len(ids) :, None])
    found: list[float] = chosen[:, 0].tolist()
    return found


def rows(records: Sequence[Record]) -> list[Row]:
    """A row per method and cut, over all kinds of prompts.

    items     how many; tokens: mean number written offline
    same      share of these tokens before the first that the target would not have written
    log_prob  nats per offline token, by the target
    ..._spread  95 % of resamples of the items
    """
    found = []
    for name, mine in grouped(records, "method").items():
        method, _, cut = name.rpartition("@")
        found.append({
            "method": method, "cut": float(cut), "kind": ALL, "items": len(mine),
            "tokens": sum(record["tokens"] for record in mine) / len(mine),
            **_ratio("same", [(record["same"], record["tokens"]) for record in mine]),
            **_ratio("log_prob", [(record["log_prob"], record["tokens"]) for record in mine]),
        })  # fmt: skip
    return found


def right_rows(records: Sequence[Record], prompts: Sequence[Prompt], target: Target) -> list[Row]:
    """A row per method, cut and kind of prompt, and over all kinds; the right answers are known.

    asked  prompts that the target answers right, if it had not named the answer before the cut
    right  share of these that are answered right
    """
    choices = {prompt.number: prompt.choices for prompt in prompts}
    tokenizer, by_method = tokenizer_of(target), grouped(records, "method")

    def right(record: Record, known: int | None = None) -> bool:
        text = str(tokenizer.decode(record["text"][:known]))
        return is_right(text, choices[record["prompt"]])

    found = []
    for kind in [ALL, *grouped(records, "kind")]:
        for name, mine in by_method.items():
            method, _, cut = name.rpartition("@")
            asked = {
                record["prompt"] for record in by_method[f"{TARGET}@{cut}"]
                if kind in (ALL, record["kind"])
                and right(record) and not right(record, record["known"])
            }  # fmt: skip
            told = [(int(right(record)), 1) for record in mine if record["prompt"] in asked]
            row = {"method": method, "cut": float(cut), "kind": kind, "asked": len(told)}
            found.append(row | _ratio("right", told))
    return found


def is_right(text: str, choices: Sequence[str]) -> bool:
    """Whether the first choice that a text names is the right one, which stands first."""
    words = "|".join(map(re.escape, choices))
    first = re.search(rf"\b({words})s?\b", text, re.IGNORECASE)
    return first is not None and first[1].lower() == choices[0].lower()


def _ratio(name: str, sums: Sequence[tuple[float, float]]) -> dict[str, Any]:
    top, bottom = map(sum, zip(*sums, strict=True)) if sums else (0, 0)
    return {name: top / bottom if bottom else None, f"{name}_spread": spread(sums)}


def table(found: Sequence[Row], figure: str, scale: float, unit: str) -> str:
    """One figure as a text table: a line per method, a column per cut."""
    lines = [[unit, *(f"{100 * cut:g} %" for cut in grouped(found, "cut"))]]
    for method, of in grouped(found, "method").items():
        values = [row[figure] for row in of]
        lines.append([method, *(shown(None if v is None else scale * v, 2) for v in values)])
    return aligned(lines)
