"""The pure parts of a profile, with made-up numbers."""

import json

import pytest
import torch

from moa_core.bench.profile import contexts
from moa_core.bench.profile_contexts import row
from moa_core.bench.profile_rates import Rates
from moa_core.bench.profile_runs import Profile
from moa_core.bench.profile_spans import (
    LOOP,
    PYTHON,
    SYNC,
    DeviceClock,
    HostClock,
    Piece,
    Recorder,
    clock_for,
    middle,
    split,
)
from moa_core.bench.profile_table import (
    by_level,
    joined,
    markdown,
    pieces,
    shares,
    steps,
    summary,
    text,
)
from moa_core.bench.profile_work import Work, distinct, operations
from moa_core.errors import UserError

RATES = Rates(bandwidth=1e9, memory=5e8, ops=1e12, operator=1e-6, set_bytes=10_000_000)
HEAD, SA = Piece("draft", "head", 0), Piece("draft", "SA", 0)


class Steps:
    """A clock that is a second later each time."""

    def __init__(self) -> None:
        self.now = -1.0

    def mark(self) -> float:
        self.now += 1
        return self.now

    def seconds(self, marks: list[float]) -> list[float]:
        return list(marks)


def test_all_time_of_a_tape_is_charged() -> None:
    tape = [
        (1.0, None), (2.0, SA), (5.0, LOOP), (6.0, HEAD), (6.5, LOOP), (7.0, None),
        (7.25, HEAD), (8.0, LOOP), (9.0, None), (9.5, SA),
    ]  # fmt: skip
    first, second = split(tape)
    assert first == {LOOP: 1 + 1 + 0.5, SA: 3.0, HEAD: 0.5}
    assert second == {LOOP: 0.25 + 1, HEAD: 0.75}
    assert sum(first.values()) == 6 and sum(second.values()) == 2  # the last cycle is not whole


def test_a_recorder_charges_whoever_is_innermost() -> None:
    recorder = Recorder(Steps())
    recorder.cycle()  # 0
    recorder.begin_phase("draft")  # 1
    recorder.begin_level(2)  # 2
    assert recorder.begin("CA")  # 3
    assert not recorder.begin("head")  # within a closed piece
    assert recorder.begin(SYNC)  # 4
    recorder.end()  # 5
    recorder.end()  # 6
    recorder.end()  # 7: the level
    assert recorder.begin("top-k")  # 8: after the level, and of it
    recorder.end()  # 9
    recorder.end()  # 10
    recorder.cycle()  # 11
    (cycle,) = split(recorder.tape())
    assert cycle == {
        LOOP: 2.0, Piece("draft", PYTHON): 3.0, Piece("draft", PYTHON, 2): 2.0,
        Piece("draft", "CA", 2): 2.0, Piece("draft", SYNC, 2): 1.0, Piece("draft", "top-k", 2): 1.0,
    }  # fmt: skip
    assert recorder.calls[Piece("draft", "CA", 2)] == 1
    assert recorder.current == LOOP


def test_an_open_piece_lets_others_take_their_time() -> None:
    recorder = Recorder(Steps())
    recorder.begin("layer", closed=False)  # 0
    recorder.begin("attention")  # 1
    recorder.end()  # 2
    recorder.end()  # 3
    recorder.cycle()  # 4
    assert split(recorder.tape()) == [
        {Piece("loop", "layer"): 2.0, Piece("loop", "attention"): 1.0, LOOP: 1.0}
    ]


def test_a_devices_clock_reads_its_events_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU: events that know their time in milliseconds, and a graph that is recorded."""
    now, capturing = iter((5.0, 7.0, 12.0)), [False]

    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            self.at = next(now)

        def elapsed_time(self, other: "Event") -> float:
            return other.at - self.at

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: capturing[0])
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    clock = DeviceClock(torch.device("cuda"))
    marks = [clock.mark(), clock.mark()]
    capturing[0] = True
    marks.append(clock.mark())
    capturing[0] = False
    marks.append(clock.mark())
    assert clock.seconds(marks) == pytest.approx([0.0, 0.002, 0.002, 0.007])
    assert isinstance(clock_for(torch.device("cuda")), DeviceClock)
    assert isinstance(clock_for(torch.device("cpu")), HostClock)


def test_the_middle_half_is_averaged_and_sums_stay_sums() -> None:
    cycles = [{SA: 1.0, HEAD: seconds} for seconds in (90.0, 1.0, 2.0, 3.0)]
    cycles[3][LOOP] = 4.0
    found = middle(cycles)  # lengths 91, 2, 3, 8: 3 and 8 are kept
    assert found == {SA: 1.0, HEAD: 2.5, LOOP: 2.0}
    assert sum(found.values()) == pytest.approx((3 + 8) / 2)
    assert middle([{SA: 3.0}]) == {SA: 3.0}


def test_a_floor_is_the_longer_of_reading_and_reckoning() -> None:
    assert RATES.floor(Work(9, 2e6, 1e9)) == pytest.approx(2e-3)
    assert RATES.floor(Work(9, 2e5, 1e9)) == pytest.approx(1e-3)
    assert Work(1, 2, 3) + Work(1, 0, 1) == Work(2, 2, 4) and Work(2, 4, 6) / 2 == Work(1, 2, 3)


def test_operations_of_products() -> None:
    x, weight = torch.zeros(1, 3, 8), torch.zeros(5, 8)
    assert operations("linear", [x, weight]) == 2 * 3 * 8 * 5
    assert operations("matmul", [x, weight.T]) == 2 * 3 * 8 * 5
    assert operations("addmm", [torch.zeros(5), x[0], weight.T]) == 2 * 3 * 8 * 5
    queries, keys = torch.zeros(1, 4, 3, 8), torch.zeros(1, 2, 7, 8)
    given = [queries, keys, keys]
    assert operations("scaled_dot_product_attention", given) == 2 * 2 * 4 * 3 * 7 * 8
    assert operations("add", [x, x]) == 0


def test_repeated_numbers_count_once() -> None:
    keys = torch.zeros(1, 2, 7, 8)
    assert distinct(keys) == 112
    assert distinct(keys[:, :, None].expand(1, 2, 4, 7, 8)) == 112
    assert distinct(keys[:, :, :3]) == 48


def a_row(phase: str, piece: str, level: int | None, ms: float, floor: float = 0.0) -> dict:
    counts = {"calls": 1.0, "operators": 10.0, "bytes": 1e6 * floor, "ops": 5e6}
    return {
        "phase": phase, "piece": piece, "level": level, "ms": ms, "floor_ms": floor, **counts
    }  # fmt: skip


ROWS = [
    a_row("draft", "LSA", None, 0.5, 0.1), a_row("draft", "SA", 0, 1.0, 0.2),
    a_row("draft", "SA", 1, 0.75, 0.2), a_row("draft", "top-k", 1, 0.25),
    a_row("draft", PYTHON, 1, 0.125), a_row("draft", "cache", None, 0.0625),
    a_row("verify", "layers", None, 4.0, 2.0), a_row("verify", SYNC, None, 0.5),
    a_row("accept", PYTHON, None, 0.25), a_row("cache", PYTHON, None, 0.125),
    a_row("loop", PYTHON, None, 0.0625),
]  # fmt: skip


def report() -> dict:
    one = {"tree": "5-1-5", "tau": 4.5, "cycles": 7, "context": 99.5, "cycle_ms": 7.5, "rows": ROWS}
    first = row(256, Profile(quiet=[0.004] * 4, work={LOOP: Work(1, 1e6, 1e6)}), RATES, None)
    later = row(512, Profile(quiet=[0.007] * 4, work={LOOP: Work(1, 3e6, 2e6)}), RATES, first)
    return {
        "target": "a target", "dtype": "float32", "note": "A note.",
        "machine": {"device": "cpu", "processor": "a processor", "threads": 2},
        "rates": {
            "set_mb": 10.0, "gb_per_second": 1.0, "memory_gb_per_second": 0.5, "gflops": 1000.0,
            "operator_us": 1.5,
        },
        "methods": {"vanilla": {**one, "tree": "-", "cycle_ms": 3.0}, "moa-n0": one},
        "contexts": [{"method": "moa-n0", **first}, {"method": "moa-n0", **later}],
    }  # fmt: skip


def test_the_parts_of_a_cycle_sum_to_the_whole() -> None:
    found = shares(ROWS)
    assert found == {
        "draft": 2.5, "verify": 4.0, "accept": 0.25, "cache": 0.1875, PYTHON: 0.1875, SYNC: 0.5,
    }  # fmt: skip
    assert sum(found.values()) == sum(each["ms"] for each in ROWS)
    rows = joined(ROWS)
    assert sum(each["ms"] for each in rows) == sum(each["ms"] for each in ROWS)
    assert [each["piece"] for each in rows[:3]] == ["SA", "LSA", "top-k"], "the longest first"
    assert rows[0]["ms"] == 1.75 and rows[0]["operators"] == 20


def test_levels_have_lines_of_their_own() -> None:
    heads, lines = by_level(ROWS)
    assert heads == ["level", "SA", "top-k", PYTHON, "in all"]
    assert lines == [
        ["0", "1.000", "0.000", "0.000", "1.000"], ["1", "0.750", "0.250", "0.125", "1.125"],
    ]  # fmt: skip
    assert by_level([a_row("verify", "layers", None, 4.0)]) == (["level", "in all"], [])


def test_the_summary_has_every_part_and_steps_are_vanillas() -> None:
    heads, lines = summary(report())
    moa = dict(zip(heads, lines[1], strict=True))
    assert moa["cycle"] == "7.50" and moa["floor"] == "2.50" and moa["gap"] == "3.00"
    assert moa["timed"] == "7.62" and moa["calls"] == "110" and moa["calls at least"] == "0.17"
    given = report()
    given["methods"]["vanilla"]["rows"] = [a_row("verify", "layers", None, 2.0)]
    _, lines = steps(given)
    assert lines == [
        ["vanilla", "0.00", "1.00", "0.00", "1.00"], ["moa-n0", "1.34", "2.25", "0.22", "3.81"],
    ]  # fmt: skip
    del given["methods"]["vanilla"]
    assert steps(given)[1] == []
    _, lines = pieces(report()["methods"]["moa-n0"])
    assert lines[-1][1:5] == ["the whole cycle", "7.625", "100 %", "2.500"]
    assert lines[2][1] == "top-k" and lines[2][5] == "-", "no gap to a floor of nothing"


def test_what_a_longer_text_costs_beside_what_it_reads() -> None:
    first, later = report()["contexts"]
    assert "more_ms" not in first and first["floor_ms"] == pytest.approx(1.0)
    assert later["more_ms"] == pytest.approx(3.0) and later["explained_ms"] == pytest.approx(2.0)


def test_text_and_markdown_have_every_figure() -> None:
    given = json.loads(json.dumps(report()))
    for written in (text(given), markdown(given)):
        for words in ("A note.", "2 threads", "1.0 GB/s", "7.62", "top-k", "1.50", "by level"):
            assert words in written, words
    lines = [line for line in markdown(given).splitlines() if line.startswith("|")]
    with_rules = [at for at, line in enumerate(lines) if line.startswith("|---")]
    for at in with_rules:
        assert lines[at].count("|") == lines[at - 1].count("|") == lines[at + 1].count("|")
    assert len(with_rules) == 8  # summary, steps, aims, pieces and levels of two, contexts


def test_contexts_are_whole_numbers() -> None:
    assert contexts("4096, 256,1024,256") == [256, 1024, 4096] and contexts(None) == []
    for words in ("many", "12.5", "0", "-3"):
        with pytest.raises(UserError, match="whole numbers"):
            contexts(words)
