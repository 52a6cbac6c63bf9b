"""`bench --forced`: how often drafts are right if each is fed the target's own text before it
(teacher forcing, as in training), and how often those of a chain are, fed the drafter's own."""

import argparse
from collections.abc import Sequence
from functools import lru_cache, partial

from moa_core.bench.methods import Ours, Record
from moa_core.bench.offline import Answer, answer, prepared
from moa_core.bench.records import Row, head, write
from moa_core.bench.results import aligned, grouped, shown
from moa_core.bench.run import measure
from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.tree import DraftTree, TreeSettings
from moa_core.drafters.base import ServerOutputs, Stepwise, Vanilla
from moa_core.model.target import Observation, Target

DEPTH = 5  # drafts in a chain
Hits = Sequence[Sequence[bool]]  # for each token of a text: whether the drafts after it were right


def run(options: argparse.Namespace) -> None:
    path, target, drafters, prompts = prepared(options)
    own = lru_cache(1)(partial(answer, target))  # the runs of a prompt follow one another
    methods = {name: Forced(name, target, drafter, own) for name, drafter in drafters.items()}
    facts, records = measure(options, target, methods, prompts, path.with_suffix(".runs"))
    found = rows(records)
    write(head("forced", options.given, **facts, rows=found), path)
    lines = [[row["method"], how, *(shown(share, 2) for share in row[how])]
             for row in found for how in ("forced", "live")]  # fmt: skip
    print(aligned([["% right at", "", *map(str, range(1, DEPTH + 1))], *lines], 2))
    print(path)


class Forced(Ours):
    """Chains of drafts from every token of the target's own answer. own: that answer."""

    timed = False
    drafter: Stepwise

    def __init__(self, name: str, target: Target, drafter: Stepwise, own: Answer) -> None:
        super().__init__(name, target, drafter)
        self._own = own

    def run(self, ids: Sequence[int], settings: Settings) -> Record:
        most = settings.max_new_tokens
        reader = Reader(self.drafter.fork(), self._own(tuple(ids), most))
        chain = TreeSettings(DEPTH, 1, DEPTH)
        for _ in decode(self.target, reader, ids, Settings(most, chain, eos_ids=settings.eos_ids)):
            pass
        return {"right": reader.right}


class Reader(Vanilla):
    """Plain decoding of a known text, beside which a drafter drafts after each of its tokens.

    right  for each token but the last: whether the drafts of the next places were right
    """

    def __init__(self, drafter: Stepwise, text: Sequence[int]) -> None:
        self._drafter, self._text = drafter, text
        self.right: list[list[bool]] = []

    def open(self, target: Target, capacity: int) -> None:
        self._drafter.open(target, capacity)

    def server_outputs(self, observation: Observation) -> ServerOutputs:
        return self._drafter.server_outputs(observation)

    def observe(self, ids: Sequence[int], outputs: ServerOutputs) -> None:
        self._drafter.observe(ids, outputs)

    def propose(self, token: int, settings: TreeSettings) -> DraftTree:
        place, words = len(self.right) + 1, self._drafter.vocabulary
        writing, hits = self._drafter.alone(token), list[bool]()
        logits = next(writing)
        for true in self._text[place : place + DEPTH]:
            guess = int(logits.argmax())
            hits.append((guess if words is None else int(words[guess])) == true)
            logits = writing.send(true)
        writing.close()
        self.right.append(hits)
        return super().propose(token, settings)


def rows(records: Sequence[Record]) -> list[Row]:
    """A row per method: the share of right drafts at each place of a chain; None without any.

    forced  of all that were drafted, each fed the text before it
    live    of those that chains reach which are fed their own drafts and begin where the last one
            ended: a draft is reached if all before it were right
    """
    found = []
    for method, mine in grouped(records, "method").items():
        every = [hits for record in mine for hits in record["right"]]
        cycles = [hits for record in mine for hits in chains(record["right"])]
        found.append({
            "method": method, "tokens": len(every), "cycles": len(cycles),
            "forced": [_share([hits[at] for hits in every if at < len(hits)])
                       for at in range(DEPTH)],
            "live": [_share([hits[at] for hits in cycles if at < len(hits) and all(hits[:at])])
                     for at in range(DEPTH)],
        })  # fmt: skip
    return found


def chains(right: Hits) -> list[Sequence[bool]]:
    """Of a text's tokens, those from which decoding drafts: after a chain's right drafts and the
    target's own token comes the next."""
    found, at = list[Sequence[bool]](), 0
    while at < len(right):
        hits = right[at]
        found.append(hits)
        at += 1 + (hits.index(False) if False in hits else len(hits))
    return found


def _share(hits: Sequence[bool]) -> float | None:
    return sum(hits) / len(hits) if hits else None
