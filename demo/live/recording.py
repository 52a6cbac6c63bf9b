"""The run that the stage plays before anybody has pressed anything: made by the bundle, kept in a
file. `python -m demo.live.recording` makes it anew; do so on a quiet machine, as it has times."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from demo.common.measure import Measured, measure
from demo.common.prompt import EXAMPLES
from demo.engine import Engine, Request
from demo.live.charts import Lane
from demo.live.follow import Known, compared, requests_for, rival_of
from demo.live.run import feed_of
from moa_core.decoding.trace import Trace
from moa_core.decoding.tree import TreeSettings
from moa_core.text import record_words

FILE = Path(__file__).with_name("recording.json")
COMMAND = "python -m demo.live.recording"
REPEATS = 5
DIGITS = 5  # of numbers in the file


@dataclass(frozen=True)
class Recording:
    """A run with its words, another method's, and what was known beside it."""

    trace: Trace
    rival: Trace
    known: Known

    @property
    def ndjson(self) -> str:
        """What the view plays."""
        feed = feed_of(self.trace, "slow")
        return feed.plain(self.known.plain)


@cache
def recording() -> Recording:
    """The file."""
    found = json.loads(FILE.read_text(encoding="utf-8"))
    known = found["known"]
    lanes = [Lane(**lane) for lane in known.pop("lanes")]
    trace, rival = (Trace.from_json(json.dumps(found[name])) for name in ("trace", "rival"))
    return Recording(trace, rival, Known(lanes=lanes, **known))


def request(engine: Engine) -> Request:
    """The run to record: the page's first example as Run would run it."""
    return Request(next(iter(EXAMPLES.values())), engine.default(), 128, TreeSettings())


def record(repeats: int = REPEATS) -> dict[str, Any]:
    """Run the bundle: what the file is to hold."""
    engine = Engine()
    asked = request(engine)
    run = engine.prepare(asked)
    for _ in run.events:
        pass
    record_words(run.trace, run.target.tokenizer)
    requests, measured = requests_for(engine, asked), Measured()
    for _ in measure(engine, requests, repeats, measured):
        pass
    known = compared(engine, asked, run.trace, measured.traces, timed=True)
    beside = {**vars(known), "lanes": [lane.as_dict() for lane in known.lanes]}
    rival = rival_of(engine, asked, measured.traces)
    assert rival is not None, "the bundle has EAGLE-2"
    kept = {"trace": run.trace, "rival": rival}
    made = {name: json.loads(one.to_json()) for name, one in kept.items()}
    return _rounded({**made, "known": beside})


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, DIGITS)
    if isinstance(value, dict):
        return {name: _rounded(one) for name, one in value.items()}
    return [_rounded(one) for one in value] if isinstance(value, list | tuple) else value


if __name__ == "__main__":
    FILE.write_text(json.dumps(record(), ensure_ascii=False, separators=(",", ":")) + "\n", "utf-8")
    print(f"{FILE}: {FILE.stat().st_size / 1000:.0f} kB")
