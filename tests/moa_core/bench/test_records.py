"""Recordings: read from files, described, and compared with the paper's claim."""

import argparse
import json
import shlex
from pathlib import Path
from typing import Any

import pytest

from moa_core.bench.paper import PATH, claim, papers_ratios, published, ratio
from moa_core.bench.records import (
    FOLDER,
    Recording,
    head,
    read,
    recorded,
    recordings,
    write,
)
from moa_core.bench.results import figures
from moa_core.commands import bench
from moa_core.errors import UserError
from tests.moa_core.bench.made_up import ABOUT, made_up_runs

TABLE = json.loads(PATH.read_text(encoding="utf-8"))


@pytest.fixture
def results() -> dict[str, Any]:
    return {
        "version": 1,
        "suite": "bundled",
        "settings": {"repeat": 2, "limit": 3, "temperature": 0.5, "tree": "4-2-8", "seed": 0},
        "target": {"name": "tiny", "dtype": "bfloat16"},
        "machine": {"device": "cpu", "processor": "Abacus", "cores": 4, "threads": 2},
        "commit": "abc1234",
        "date": "2026-11-20T08:00:00+00:00",
        "methods": figures(made_up_runs(), ABOUT, True),
        "runs": made_up_runs(),
    }


def test_our_own_recordings_can_be_read():
    found = recordings()
    names = {path.parent.name for path in FOLDER.glob("*/summary.json")}
    assert {one.name.lower().replace(" ", "-") for one in found} == names
    sizes = [len(one.methods) for one in found]
    assert sizes == sorted(sizes, reverse=True) and min(sizes) > 0
    for one in found:
        assert one.kinds and one.machine and one.precision and one.commit and one.date
    for name, recording in recorded().items():
        assert recording["command"].startswith("python -m moa_core bench "), name
        assert recording["commit"] and "changes" not in recording["commit"], name


def test_a_recording_in_words(results):
    one = Recording("Mine", results)
    assert one.machine == "CPU, Abacus, 2 threads of 4 cores"
    assert (one.precision, one.target) == ("bfloat16", "tiny")
    assert (one.date, one.commit) == ("2026-11-20", "abc1234")
    assert one.kinds == ["a", "b"]
    assert one.figures("moa", "b") == results["methods"]["moa"]["kinds"]["b"]
    assert one.figures("nobody") == one.figures("moa", "c") == {}
    gpu = {"device": "cuda", "gpu": "NVIDIA H100", "processor": "Abacus", "threads": 8}
    assert Recording("", {"machine": gpu}).machine == "CUDA, NVIDIA H100"


def test_the_command_is_the_file_s_own(results):
    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    for one in recordings():
        assert parser.parse_args(shlex.split(one.command)[4:]).methods
    assert Recording("", results).command == "not recorded"
    results["command"] = "python -m moa_core bench --what it was"
    assert Recording("", results).command == results["command"]


# ---- links ----


def test_a_recording_of_links_comes_back_as_it_was_written(tmp_path: Path) -> None:
    given = ["bench", "--link", "4g", "--out", str(tmp_path / "a.json")]
    facts = head("link", given, ["abc"], machine={"device": "cpu"}, settings={"tree": [5, 4]})
    made = {**facts, "links": {}, "rows": [{"method": "moa-n0", "x": 1 / 3}]}
    path = tmp_path / "new" / "a.json"
    write(made, path)
    assert read(path) == {**made, "rows": [{"method": "moa-n0", "x": 0.3333}]}
    assert made["command"] == "python -m moa_core bench --link 4g --out a.json"
    assert str(tmp_path) not in path.read_text()
    assert list(recorded(path.parent)) == ["a"]


@pytest.mark.parametrize(
    "content",
    [
        "{", "[]", "{}", '{"kind": "profile", "version": 1, "rows": []}',
        '{"kind": "link", "version": 2, "rows": []}', '{"kind": "link", "version": 1, "rows": [1]}',
    ],
)  # fmt: skip
def test_what_is_no_recording_of_links_is_refused(content: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    path.write_text(content)
    for one in (path, tmp_path / "odd-and-nowhere.json"):
        with pytest.raises(UserError, match="odd"):
            read(one)


# ---- the paper ----


def test_the_paper_s_table_is_the_recorded_one(tmp_path):
    paper = published()
    for row, printed in zip(paper.rows, TABLE["rows"], strict=True):
        assert row.drafter == printed["drafter"]
        assert [cell and list(cell) for cell in row.cells] == printed["cells"]
        assert list(row.printed) == printed["printed_mean"]
        assert row.flagged == (None in printed["cells"])
    assert (paper.target, list(paper.sets)) == (TABLE["target"], TABLE["data"])
    printed = {tli: row.printed for tli, row in paper.by_tli.items()}
    assert list(printed.items()) == [(0, (1.95, 4.22)), (1, (1.95, 4.50)), (3, (1.79, 4.79))]
    assert published(tmp_path / "none.json") is None and papers_ratios(None) == ()


def test_means_and_ratios_leave_the_flagged_cells_out():
    paper = published()
    assert [paper.sets[at] for at in range(6) if at not in paper.shared] == ["GSM8K"]
    cells = {row["drafter"]: row["cells"] for row in TABLE["rows"]}
    taus = {name: [cells[name][at][1] for at in (0, 1, 3, 4, 5)] for name in cells}
    for row in paper.rows:
        assert paper.mean(row)[1] == pytest.approx(sum(taus[row.drafter]) / 5)
    tau, speed = papers_ratios(paper)
    theirs = sum(taus["EAGLE-2, retrained by the authors"])
    assert tau == pytest.approx(sum(taus["MoA, TLI N = 1"]) / theirs) and round(tau, 2) == 1.25
    assert round(speed, 2) == 1.09


@pytest.mark.parametrize(
    ("theirs", "spread", "value", "overlap"),
    [
        (2.0, [1.9, 2.1], 1.5, False), (2.5, [2.4, 2.8], 1.2, True),
        (2.0, [2.0, 2.0], 1.5, None), (2.0, None, 1.5, None),
    ],
)  # fmt: skip
def test_a_ratio_and_whether_the_spreads_overlap(theirs, spread, value, overlap):
    ours = {"tau": 3.0, "tau_spread": [2.8, 3.2]}
    found = ratio(ours, {"tau": theirs, "tau_spread": spread}, "tau")
    assert (found.value, found.overlap) == (value, overlap)
    assert ratio(ours, {}, "tau") is None and ratio({}, ours, "tau") is None


def test_the_claim_is_computed_from_the_file():
    methods = {
        "moa-n0": {"tau": 2.0, "tokens_per_second": 30.0, "tokens_per_second_spread": [29, 31]},
        "moa-n1": {"tau": 3.0, "tau_spread": [2.9, 3.1], "tokens_per_second": 20.0},
        "eagle2": {
            "tau": 2.0, "tau_spread": [1.9, 2.1], "tokens_per_second": 20.0,
            "tokens_per_second_spread": [18, 29.5],
        },
    }  # fmt: skip
    first, second = claim(Recording("", {"methods": methods})).split("; ")
    assert "τ of MoA N=1 is 1.50 × EAGLE-2’s" in first and "beyond the recorded spread" in first
    assert f"the paper: {papers_ratios(published())[0]:.2f} ×" in first
    assert "MoA N=0, the fastest MoA here, is 1.50 × EAGLE-2’s" in second
    assert "within the recorded spread" in second
    both = {"decode_tokens_per_second": 10.0, "decode_tokens_per_second_spread": [9, 11]}
    for name in ("moa-n0", "eagle2"):
        methods[name] |= both
        del methods[name]["tokens_per_second_spread"]
    said = claim(Recording("", {"methods": methods}))
    assert "recorded without a spread; of decoding" in said
    assert said.endswith("of decoding alone that is 1.00 × EAGLE-2’s, within the recorded spread.")
    for name in ("moa-n0", "eagle2"):
        del methods[name]["decode_tokens_per_second_spread"]
    assert "speeds of a single pass" in claim(Recording("", {"methods": methods}))
    del methods["eagle2"]
    assert "nothing to compare" in claim(Recording("", {"methods": methods}))
