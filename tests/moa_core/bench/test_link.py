"""`bench --link` and `bench --offline`: whole measurements, and figures recomputed by hand."""

import json
from contextlib import nullcontext
from typing import Any
from unittest.mock import Mock

import pytest

from moa_core.__main__ import main
from moa_core.bench import link
from moa_core.bench.link import rows as link_rows
from moa_core.bench.records import read, select
from moa_core.link.connection import Address
from moa_core.loading.load import load_drafter, load_target
from tests.serving import serving

LINK = "rtt=6,down=20,up=20"


def test_a_whole_measurement_and_what_was_missing_of_it(bundle, tmp_path, capsys, monkeypatch):
    suite, out = tmp_path / "one.jsonl", tmp_path / "out.json"
    suite.write_text(json.dumps({"kind": "story", "prompt": "The fox ran home"}))
    short = f"bench --link {LINK} --methods moa-n1,stream --max-new-tokens 8 --repeat 1 --seed 5"
    places = ["--suite", str(suite), "--out", str(out)]
    command = [*short.split(), "--device", "cpu", "--ignore-eos", *places]
    target, runs = load_target("tiny", device="cpu"), tmp_path / "out.runs" / "runs.jsonl"
    with serving(target, lambda name: load_drafter(name, target), "open sesame") as (_, port):
        process = Mock(address=lambda: Address(f"ws://127.0.0.1:{port}", "open sesame"))
        started = Mock(return_value=nullcontext(process))
        monkeypatch.setattr(link, "ServerProcess", started)
        assert main(command) == 0
        started.assert_called_once_with("--threads", "1", "--device", "cpu", "--dtype", "auto")
        check_rows(read(out), out.read_text())
        assert capsys.readouterr().out.startswith("link")
        # Given again, it makes what is missing and nothing else.
        lines = runs.read_text().splitlines()
        runs.write_text("\n".join(lines[:-1]) + "\n")
        assert main(command) == 0
    again = runs.read_text().splitlines()
    assert again[:-1] == lines[:-1] and len(again) == len(lines)
    assert json.loads(again[-1])["output"] == json.loads(lines[-1])["output"]


def test_drafts_have_the_precision_that_was_asked_for_here_and_across_a_link(bundle, monkeypatch):
    monkeypatch.setattr(link, "_served", lambda *_: (None, load_target("tiny", device="cpu")))
    measure = Mock(side_effect=KeyboardInterrupt)  # before anything is measured
    monkeypatch.setattr(link, "measure", measure)
    command = "bench --link lan --methods moa-n1 --drafts float32 --device cpu --out out.json"
    assert main(command.split()) == 130
    _, target, methods, *_ = measure.call_args.args
    assert target.drafts == methods["moa-n1@local"].precision == "float32"


def check_rows(found: dict[str, Any], text: str) -> None:
    assert "sesame" not in text
    assert found["links"][LINK]["spec"] == LINK
    local = {row["method"]: row for row in select(found["rows"], link="local")}
    assert set(local) == {"vanilla", "moa-n1"}
    assert all(row["down_per_token"] == 0 for row in local.values())
    for place in ("direct", LINK):
        there = {row["method"]: row for row in select(found["rows"], link=place)}
        assert set(there) == {"moa-n1", "stream"}
        for row in there.values():
            assert row["runs"] == 1 and row["differing"] == 0
            assert row["ms_per_token"] > 0 and row["down_per_token"] > 0
        assert there["moa-n1"]["calls_per_100"] == local["moa-n1"]["calls_per_100"]


def link_record(method: str, repeat: int, **more: Any) -> dict[str, Any]:
    usual = {
        "prompt": 0, "output": "same", "new_tokens": 11, "first": 0.1, "second": 0.15, "last": 0.6,
        "gained": 10, "calls": 4, "down": 3000,
    }  # fmt: skip
    return {"method": method, "repeat": repeat, **usual, **more}


def test_figures_of_links_by_hand():
    plain = [link_record("vanilla@local", at, calls=10) for at in range(2)]
    far = [link_record("moa-n0@4g", 0), link_record("moa-n0@4g", 1, last=1.1, output="other")]
    pushed = [link_record("stream@4g", 0, calls=10), link_record("stream@4g", 1, new_tokens=2)]
    local, drafted, streamed = link_rows([*plain, *far, *pushed])
    assert (local["link"], local["method"], local["calls_per_100"]) == ("local", "vanilla", 100)
    assert drafted["ms_per_token"] == pytest.approx(75)  # 50 and 100
    assert drafted["calls_per_100"] == 40
    assert (drafted["runs"], drafted["differing"], drafted["down_per_token"]) == (2, 1, 300)
    assert streamed["ms_per_token"] == pytest.approx(50)  # 9 tokens after the second
