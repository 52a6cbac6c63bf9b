"""Recorded runs: those that the stage plays at first, and those of the static page.

`python -m demo.live.recording` records them; use a quiet machine, because it records times.
"""

import argparse
import json
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from demo.common.charts import middle
from demo.common.controls import EXAMPLES, NEW_TOKENS
from demo.common.measure import Measured, measure
from demo.common.methods import RIVAL, VANILLA, colour
from demo.common.tokens.view import feed_of
from demo.engine import Engine, Request
from demo.live.measure import figures, requests_for
from moa_core.decoding.cuttable import Cuttable
from moa_core.decoding.trace import Trace
from moa_core.drafters.base import Drafter
from moa_core.errors import UserError, ended
from moa_core.loading.catalog import models_folder
from moa_core.model.target import Target
from moa_core.text import record_words

COMMAND = "python -m demo.live.recording"
REPEATS = 5
DIGITS = 5  # of numbers in the file


@dataclass(frozen=True)
class Recording:
    """Runs of one prompt with their words, each the median of REPEATS, and all their figures.
    cut: the first run with the target out of reach for a third of the text."""

    trace: Trace
    rival: Trace
    plain: Trace
    cut: Trace
    measured: dict[str, Any]

    def stage(self, cut: bool = False) -> dict[str, Any]:
        first = feed_of(self.cut if cut else self.trace, "drafter")
        lanes = {"drafter": first, "plain": feed_of(self.plain, "plain")}
        return lanes if cut else {**lanes, "measured": self.measured}


def place() -> Path:
    """The file, beside the models that were recorded."""
    return models_folder() / "recording.json"


def recording() -> Recording | None:
    """None while nothing is recorded."""
    return _read(place()) if place().exists() else None


@cache
def _read(path: Path) -> Recording:
    found = json.loads(path.read_text(encoding="utf-8"))
    measured = found.pop("measured")
    for lane in measured["lanes"]:
        lane["colour"] = colour(lane["method"])  # today's
    runs = {name: Trace.from_json(json.dumps(one)) for name, one in found.items()}
    return Recording(measured=measured, **runs)


def record(engine: Engine, repeats: int = REPEATS) -> Path:
    """Run an engine's first target with its default drafter, EAGLE-2 and alone, on the page's first
    example, and write the file.

    UserError unless it has MoA and EAGLE-2 drafters.
    """
    if not engine.stops() or RIVAL not in engine.methods():
        raise UserError(f"To record, {engine.first} needs an MoA and an EAGLE-2 drafter.")
    asked = Request(next(iter(EXAMPLES.values())), engine.default(), NEW_TOKENS)
    requests, measured = requests_for(engine, asked), Measured(repeats=repeats)
    for _ in measure(engine, requests, measured):
        pass
    names = {"trace": asked.method, "rival": RIVAL, "plain": VANILLA}
    runs = {name: middle(measured.traces[method]) for name, method in names.items()}
    tokens = len(runs["trace"].output_ids) // 3
    cut = engine.prepare(asked, link=lambda *ends: Outage(*ends, tokens))
    runs["cut"] = cut.trace
    for _ in cut.events:
        pass
    for trace in runs.values():
        record_words(trace, engine.target().tokenizer)
    made = {name: json.loads(trace.to_json()) for name, trace in runs.items()}
    whole = json.dumps({**made, "measured": figures(asked.method, measured.traces)})
    short = json.loads(whole, parse_float=lambda digits: round(float(digits), DIGITS))
    text = json.dumps(short, ensure_ascii=False, separators=(",", ":"))
    place().write_text(text + "\n", encoding="utf-8")
    return place()


class Outage(Cuttable):
    """A link that is lost after some tokens, and back after the same number was written offline."""

    def __init__(self, target: Target, drafter: Drafter, tokens: int) -> None:
        super().__init__(target, drafter, tokens)
        self._lasts = tokens

    def back(self, seconds: float) -> bool:
        self._lasts -= 1  # called before each token
        if self._lasts < 0:
            self.restore()
        return super().back(0)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    sys.exit(ended(lambda: print(record(Engine()))))
