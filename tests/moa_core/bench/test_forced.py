"""Drafts that are fed the target's own text: counted by hand, and as decoding accepts them."""

import json

import pytest

from moa_core.__main__ import main
from moa_core.bench.forced import DEPTH, Forced, chains, rows
from moa_core.bench.offline import answer
from moa_core.bench.records import read
from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Trace
from moa_core.decoding.tree import TreeSettings
from tests.models import drafter_of, tiny_target

PROMPT = [5, 9, 33, 2]


@pytest.mark.parametrize("method", ["moa-n0", "moa-n1", "eagle2", "eagle3", "tandem"])
def test_chains_that_decoding_reaches_are_accepted_as_far_as_decoding_accepts_them(method):
    target = tiny_target()
    drafter, settings = drafter_of(method, target), Settings(40, TreeSettings(DEPTH, 1, DEPTH))
    found = Forced(method, target, drafter, lambda ids, most: answer(target, ids, most))
    right = found.run(PROMPT, settings)["right"]
    assert [len(hits) for hits in right] == [*[DEPTH] * (39 - DEPTH), *range(DEPTH, 0, -1)]
    lived = Trace(events=list(decode(target, drafter, PROMPT, settings))).accepted_lengths
    counted = [1 + (*hits, False).index(False) for hits in chains(right)]
    counted[-1] = min(counted[-1], lived[-1])  # the end may cut the last one
    assert counted == lived and any(any(hits) for hits in right)


def test_figures_by_hand():
    right = [[True, False, True], [False, True, True], [True, True], [False]]
    assert chains(right) == [right[0], right[2]]  # one right and the target's own; then to the end
    (row,) = rows([{"method": "a", "right": right}])
    assert row == {
        "method": "a", "tokens": 4, "cycles": 2, "forced": [0.5, 2 / 3, 1, None, None],
        "live": [1, 0.5, None, None, None],
    }  # fmt: skip


def test_the_whole_command(bundle, tmp_path, capsys):
    suite, out = tmp_path / "one.jsonl", tmp_path / "out.json"
    suite.write_text(json.dumps({"kind": "story", "prompt": "The fox ran"}) + "\n")
    command = ["bench", "--forced", "--out", str(out), "--suite", str(suite), "--device", "cpu"]
    assert main([*command, "--max-new-tokens", "12", "--methods", "moa-n0,eagle2"]) == 0
    found = read(out)
    assert found["kind"] == "forced"
    assert [(row["method"], row["tokens"]) for row in found["rows"]] == [
        ("moa-n0", 11), ("eagle2", 11),
    ]  # fmt: skip
    printed = capsys.readouterr().out
    assert "live" in printed and printed.strip().endswith(str(out))
