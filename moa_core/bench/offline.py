"""`bench --offline`: the quality of a drafter's text after the link is cut for good.

Verified text is the target's own, whatever was drafted, so a run starts at its cut: the target
reads the prompt and the first tokens of its own answer, and then stops answering.
"""

import argparse
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import torch

from moa_core.arguments import target_of
from moa_core.bench.methods import STREAM, Ours, Record, checksum
from moa_core.bench.records import ALL, Row, check_out, head, select, write
from moa_core.bench.results import aligned, grouped, shown, spread
from moa_core.bench.run import Key, complete, keep_settings
from moa_core.bench.suites import load_suite, suite_hash, suite_ids
from moa_core.decoding.cuttable import Cuttable
from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Trace
from moa_core.decoding.verify import first_difference
from moa_core.drafters.base import Drafter, Stepwise, Vanilla
from moa_core.drafters.names import listed
from moa_core.errors import UserError
from moa_core.loading.catalog import bundled_drafters, known_drafters
from moa_core.loading.load import load_drafter
from moa_core.model.target import Target, draft_precision
from moa_core.runtime import quiet

CUTS = (0.0, 0.1, 0.25, 0.5, 0.75)  # shares of the answer after which the link is cut
EACH = 10  # prompts of each kind
FIELDS = ("method", "kind", "item", "cut")  # of a run's key
TARGET = "target"  # its own text, without a cut


def run(options: argparse.Namespace) -> None:
    path = check_out(options.out)
    Settings(options.max_new_tokens)  # wrong numbers are reported before the work begins
    quiet()
    target = target_of(options)
    names = [info.name for info in bundled_drafters()]
    if options.methods is not None:
        names = listed(options.methods, known_drafters())
    drafters = {name: load_drafter(name, target) for name in names}
    for name, drafter in drafters.items():
        if not isinstance(drafter, Stepwise):
            raise UserError(f"{name} cannot write without its target: leave it out.")
    each = options.limit or EACH
    prompts = load_suite(options.suite, each)
    texts = zip(prompts, suite_ids(prompts, target), strict=True)
    items = [Item(one.number, one.kind, ids) for one, ids in texts]
    items = [item for item in items if len(item.ids) + options.max_new_tokens < target.context]
    if not items:
        raise UserError(f"{target.name} has no room for so long an answer: ask for fewer tokens.")
    nets = {name: Ours(name, target, drafter).weights() for name, drafter in drafters.items()}
    settings = {
        "each": each, "cuts": CUTS, "max_new_tokens": options.max_new_tokens,
        "methods": list(drafters), "prompts": suite_hash(prompts),
        "draft_precision": {name: draft_precision(target, of) for name, of in drafters.items()},
        "weights": {"target": checksum([target.head.weight]), **nets},
    }  # fmt: skip
    folder = path.with_suffix(".runs")
    facts = keep_settings(folder, settings, target.device)
    wanted = [
        (name, item.kind, item.number, cut)
        for item in items  # the runs of an item follow one another: they share a reference
        for cut in CUTS
        for name in (TARGET, STREAM, *drafters)
    ]
    measure = Measure(target, drafters, items, options.max_new_tokens)
    found = rows(complete(folder / "runs.jsonl", wanted, measure, "offline", FIELDS))
    write(head("offline", options.given, target={"name": target.name}, **facts, rows=found), path)
    print(table(found, "same", 100, "% the target's own"))
    print(table(found, "log_prob", 1, "nats a token"))
    print(path)


class Item(NamedTuple):
    number: int  # of its prompt
    kind: str
    ids: list[int]


class Measure:
    """Makes and scores the runs of a file. most: most new tokens of an answer."""

    def __init__(
        self, target: Target, drafters: dict[str, Drafter], items: Sequence[Item], most: int
    ) -> None:
        self._target, self._drafters, self._most = target, drafters, most
        self._items = {(item.kind, item.number): item for item in items}
        self._own = lru_cache(1)(lambda *key: answer(target, self._items[key], most))

    def __call__(self, key: Key) -> Record:
        """One run: the drafter's text from the cut on, scored."""
        name, kind, number, cut = key
        item, own = self._items[kind, number], self._own(kind, number)
        known = max(1, round(cut * len(own)))  # tokens that were verified before the cut
        offline = own[known:] if name == TARGET else []  # after a cut, a stream is silent
        if drafter := self._drafters.get(name):
            ids = [*item.ids, *own[: known - 1]]
            offline = alone(self._target, drafter, ids, self._most - known + 1)
        return {"method": name, **judged(self._target, item, own, known, offline), "cut": cut}


def answer(target: Target, item: Item, most: int) -> list[int]:
    """The target's own answer. most: most new tokens."""
    settings = Settings(most, eos_ids=target.eos_ids)
    return Trace(events=list(decode(target, Vanilla(), item.ids, settings))).output_ids


def alone(target: Target, drafter: Drafter, ids: Sequence[int], most: int) -> list[int]:
    """The drafter's greedy text after these ids and the target's next token."""
    settings = Settings(most, drafter.tree, eos_ids=target.eos_ids)
    severed = Cuttable(target, drafter, 1)
    trace = Trace(events=list(decode(target, drafter, ids, settings, remote=severed)))
    return trace.offline_ids


def judged(
    target: Target, item: Item, own: Sequence[int], known: int, offline: Sequence[int]
) -> Record:
    """The score of an answer whose first `known` tokens are the target's own.

    tokens    how many were written offline
    same      those before the first that the target would not have written
    log_prob  the target's, of the offline tokens
    """
    parted = first_difference(offline, own[known:])
    values = log_probs(target, item.ids, [*own[:known], *offline]) if offline else []
    return {
        "kind": item.kind, "item": item.number, "known": known, "tokens": len(offline),
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
    return [
        {"method": method, "cut": cut, "kind": ALL, **_row(select(of, cut=cut))}
        for method, of in grouped(records, "method").items()
        for cut in grouped(of, "cut")
    ]


def _row(records: Sequence[Record]) -> Row:
    tokens = sum(record["tokens"] for record in records) / len(records)
    return (
        {"items": len(records), "tokens": tokens}
        | _ratio("same", records)
        | _ratio("log_prob", records)
    )


def _ratio(name: str, records: Sequence[Record]) -> dict[str, Any]:
    sums = [(record[name], record["tokens"]) for record in records]
    top, bottom = map(sum, zip(*sums, strict=True))
    return {name: top / bottom if bottom else None, f"{name}_spread": spread(sums)}


def table(found: Sequence[Row], figure: str, scale: float, unit: str) -> str:
    """One figure as a text table: a line per method, a column per cut."""
    lines = [[unit, *(f"{100 * cut:g} %" for cut in grouped(found, "cut"))]]
    for method, of in grouped(found, "method").items():
        values = [row[figure] for row in of]
        lines.append([method, *(shown(None if v is None else scale * v, 2) for v in values)])
    return aligned(lines)
