"""The ratios that a GPU is to reach, from a profile and from times of whole texts."""

import argparse
import json
from pathlib import Path

import pytest

from moa_core.bench import targets
from moa_core.bench.full_shape import add_arguments, run
from moa_core.bench.profile_graphs import as_replayed, replayed
from moa_core.bench.profile_runs import Contender, profile_all
from moa_core.bench.profile_spans import Piece
from moa_core.bench.profile_table import aims
from moa_core.bench.profile_work import Work
from moa_core.bench.targets import Split
from moa_core.drafters.base import Vanilla
from moa_core.static import players
from moa_core.static.players import Tapes
from moa_core.tree import TreeSettings
from tests.models import tiny_target, useful

TIMES = {"vanilla": Split(0.0, 0.010), "moa-n1": Split(0.008, 0.012), "medusa": Split(0.001, 0.02)}


def test_ratios_stand_beside_what_is_aimed_at() -> None:
    assert targets.ratios(TIMES, 0.008) == [
        ("vanilla: step / memory floor", pytest.approx(1.25), 1.25),
        ("moa-n1: verification / step", pytest.approx(1.2), 1.3),
        ("moa-n1: draft / step", pytest.approx(0.8), 0.85),
        ("medusa: verification / step", pytest.approx(2.0), 1.3),
        ("medusa: draft / step", pytest.approx(0.1), None),
    ]
    assert targets.table(TIMES, 0.008)[1][2] == ["moa-n1: draft / step", "0.80", "at most 0.85"]
    assert targets.ratios({"moa-n1": TIMES["moa-n1"]}, 0.008) == []


def test_the_gain_over_generate_is_a_projection() -> None:
    [line] = targets.table(TIMES, 0.008, 0.040)[1][5:]
    assert line == ["moa-n1: projected speed / generate, at τ = 4.5", "9.00", "at least 8.00"]
    assert len(targets.table(TIMES, 0.008)[1]) == 5


def test_work_of_eager_parts_goes_to_the_graph_that_does_it() -> None:
    one = Work(1, 10, 100)
    parts = {
        Piece("draft", "LSA"): one, Piece("draft", "head", 0): one, Piece("draft", "CA", 2): one,
        Piece("draft", "rerank"): one, Piece("verify", "layers: MLP"): one,
        Piece("verify", "choice"): one, Piece("cache", "cache"): one,
        Piece("accept", "Python"): one,
    }  # fmt: skip
    found = as_replayed(parts)
    twice = Work(2, 20, 200)
    assert found == {
        replayed(("root", 64, 4)): twice,
        replayed(("level", 2, 64, 4)): one,
        replayed(("tree", 3, 4, 12)): one,
        replayed(("verify", 64, 13)): one,
        replayed(("choose", 13)): one,
        replayed(("accept", 13)): twice,
    }


def test_a_profile_of_replayed_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(players.PLAYERS, "cpu", Tapes)
    target = tiny_target(vocab_size=61)
    tree = TreeSettings(3, 2, 6)
    ours = {
        "vanilla": Contender(Vanilla(), tree),
        "moa-n1": Contender(useful("moa-n1", target), tree),
    }
    found = profile_all(target, ours, [[5, 9, 33, 7]], 30, 1)
    pieces = found["moa-n1"].pieces
    graphs = {replayed((name, level)) for name in ("root", "level", "verify") for level in (1, 2)}
    assert graphs < set(pieces) and all(pieces[piece] > 0 for piece in graphs)
    work = found["moa-n1"].work
    assert all(work[piece].bytes > 0 for piece in graphs)
    assert found["moa-n1"].cycle > 0 and found["moa-n1"].tau > 1
    rows = [
        {"phase": piece.phase, "ms": 1e3 * seconds, "floor_ms": 1.0}
        for piece, seconds in found["vanilla"].pieces.items()
    ]
    heads, lines = aims({"methods": {"vanilla": {"rows": rows, "cycle_ms": 2.5}}})
    assert len(heads) == 3 and lines[0][:2] == [
        "vanilla: step / memory floor",
        f"{2.5 / len(rows):.2f}",
    ]


def test_full_shape_prints_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    words = "--shrink 32 --layers 2 --vocabulary 300 --prompt-tokens 20 --tli 0 --repeat 1"
    words += f" --max-new-tokens 16 --device cpu --eager --out {tmp_path / 'x.json'}"
    run(parser.parse_args(words.split()))
    said = capsys.readouterr().out
    assert "vanilla: step / memory floor" in said and "eagle2: verification / step" in said
    report = json.loads((tmp_path / "x.json").read_text())
    assert "moa-n0: projected speed / generate" in said and report["generate_ms"] > 0
    assert report["floor_ms"] > 0 and report["methods"]["moa-n0"]["draft_ms"] > 0
