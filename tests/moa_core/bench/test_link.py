"""`bench --link` on a tiny random bundle, with a server process; its figures; its recordings."""

import json
from pathlib import Path
from typing import Any

import pytest

from moa_core.__main__ import main
from moa_core.bench.link_files import head, read, recorded, select, write
from moa_core.bench.link_rows import rows
from moa_core.errors import UserError
from moa_core.loading.load import load_drafter, load_target
from tests.moa_core.bench.mistakes import check_told
from tests.serving import serving

LINK = "rtt=6,down=20,up=20"


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "one.jsonl"
    path.write_text(json.dumps({"kind": "story", "prompt": "The fox ran home"}))
    return path


def command(suite: Path, out: Path, *more: str) -> list[str]:
    short = ["--max-new-tokens", "12", "--repeat", "1", "--device", "cpu", "--ignore-eos"]
    return ["bench", "--suite", str(suite), "--out", str(out), *short, *more]


def test_a_whole_measurement(
    bundle: Path, suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.json"
    assert main(command(suite, out, "--link", LINK, "--seed", "5")) == 0
    found = read(out, "link")
    drafters = {"moa-n0", "moa-n1", "eagle2"}
    local = {row["method"]: row for row in select(found["rows"], link="local")}
    assert set(local) == drafters | {"vanilla"}
    assert all(row["up_per_token"] == row["prefill_down"] == 0 for row in local.values())
    for place in ("direct", LINK):
        there = {row["method"]: row for row in select(found["rows"], link=place)}
        assert set(there) == drafters | {"stream"}
        for name, row in there.items():
            assert row["runs"] == 1 and row["differing"] == row["downs"] == 0
            assert row["ms_per_token"] > 0 < row["first_ms"] and row["server_s_per_100"] > 0
            assert row["prefill_up"] > 0 < row["down_per_token"]
            if name in drafters:
                assert row["calls_per_100"] == pytest.approx(local[name]["calls_per_100"])
                if place == LINK:  # each call takes the link's round trip at least
                    assert row["ms_per_token"] > 6 * row["calls_per_100"] / 100 * 0.9
        assert there["moa-n1"]["prefill_down"] > there["moa-n0"]["prefill_down"] > 0
    assert found["links"][LINK]["spec"] == LINK
    assert capsys.readouterr().out.startswith("link")

    # Given again, it makes what is missing and nothing else.
    runs = tmp_path / "out.runs" / "runs.jsonl"
    lines = runs.read_text().splitlines()
    runs.write_text("\n".join(lines[:-2]) + "\n")
    assert main(command(suite, out, "--link", LINK, "--seed", "5")) == 0
    assert runs.read_text().splitlines()[:-2] == lines[:-2]
    assert len(runs.read_text().splitlines()) == len(lines)


def test_a_server_that_runs_already_is_used_and_its_token_not_written_down(
    bundle: Path, suite: Path, tmp_path: Path
) -> None:
    target = load_target("tiny", device="cpu")
    out = tmp_path / "out.json"
    with serving(target, lambda name: load_drafter(name, target), "open sesame") as (_, port):
        more = ("--link", "direct", "--methods", "moa-n0", "--limit", "1", "--numbers", "int8")
        there = ("--server", f"ws://127.0.0.1:{port}", "--token", "open sesame")
        assert main(command(suite, out, *more, *there)) == 0
    found = read(out)
    assert {row["link"] for row in found["rows"]} == {"local", "direct"}
    assert "sesame" not in out.read_text() and found["settings"]["numbers"] == "int8"


BAD = {
    "no file": ["--link", "lan"],
    "no JSON file": ["--link", "lan", "--out", "{folder}"],
    "an unknown link": ["--link", "tin-cans", "--out", "{out}"],
    "a link through which nothing passes": ["--link", "offline", "--out", "{out}"],
    "a link twice": ["--link", "lan", "--link", "lan", "--out", "{out}"],
    "an unknown method": ["--link", "lan", "--out", "{out}", "--methods", "ngram"],
    "a method twice": ["--link", "lan", "--out", "{out}", "--methods", "moa-n0,moa-n0"],
    "unknown numbers": ["--link", "lan", "--out", "{out}", "--numbers", "f16"],
    "the best tree": ["--link", "lan", "--out", "{out}", "--tree", "best"],
    "no threads": ["--link", "lan", "--out", "{out}", "--server-threads", "0"],
    "no tokens": ["--link", "lan", "--out", "{out}", "--max-new-tokens", "0"],
    "no server": ["--link", "lan", "--out", "{out}", "--server", "ws://127.0.0.1:9"],
    "an odd server": ["--link", "lan", "--out", "{out}", "--server", "there"],
    "two things at once": ["--link", "lan", "--offline", "--out", "{out}"],
}


@pytest.mark.parametrize("mistake", BAD)
def test_a_mistake_is_told_in_one_sentence(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], mistake: str
) -> None:
    check_told(BAD[mistake], tmp_path, capsys)


def record(method: str, repeat: int, **more: Any) -> dict[str, Any]:
    usual = {
        "prompt": 0, "output": "same", "new_tokens": 11, "first": 0.1, "second": 0.15, "last": 0.6,
        "gained": 10, "calls": 4, "server": 0.02, "up": 200, "down": 3000, "prefill_up": 90,
        "prefill_down": 500, "downs": 0,
    }  # fmt: skip
    return {"method": method, "repeat": repeat, **usual, **more}


def test_figures_by_hand() -> None:
    plain = [record("vanilla@local", at, calls=10) for at in range(2)]
    far = [record("moa-n0@4g", 0), record("moa-n0@4g", 1, last=1.1, output="other")]
    pushed = [record("stream@4g", 0, calls=10), record("stream@4g", 1, new_tokens=2)]
    local, drafted, streamed = rows([*plain, *far, *pushed])
    assert (local["link"], local["method"], local["calls_per_100"]) == ("local", "vanilla", 100)
    assert drafted["ms_per_token"] == pytest.approx(75)  # 50 and 100
    assert drafted["ms_per_token_spread"] == pytest.approx([50, 100])
    assert drafted["calls_per_100"] == 40 and drafted["server_s_per_100"] == pytest.approx(0.2)
    assert (drafted["up_per_token"], drafted["down_per_token"]) == (20, 300)
    assert (drafted["runs"], drafted["differing"]) == (2, 1) and drafted["prefill_down"] == 500
    assert streamed["ms_per_token"] == pytest.approx(50)  # 9 tokens after the second


def test_a_recording_comes_back_as_it_was_written(tmp_path: Path) -> None:
    given = ["bench", "--link", "4g", "--token", "secret", "--out", str(tmp_path / "a.json")]
    facts = head("link", given, ["abc"], machine={"device": "cpu"}, settings={"tree": [5, 4]})
    made = {**facts, "links": {}, "rows": [{"method": "moa-n0", "x": 1 / 3}]}
    path = tmp_path / "new" / "a.json"
    write(made, path)
    assert read(path, "link") == {**made, "rows": [{"method": "moa-n0", "x": 0.3333}]}
    assert made["command"] == "python -m moa_core bench --link 4g --out a.json"
    assert "secret" not in path.read_text() and str(tmp_path) not in path.read_text()
    assert list(recorded(path.parent)) == ["a"]


ODD: dict[str, Any] = {
    "no JSON": "{",
    "a list": "[]",
    "no kind": "{}",
    "another version": {"kind": "link", "version": 2, "rows": []},
    "another kind": {"kind": "offline", "version": 1, "rows": []},
    "no rows": {"kind": "link", "version": 1, "rows": [1]},
    "too large": "{}" + " " * 2000,
}


@pytest.mark.parametrize("odd", ODD)
def test_what_is_no_recording_is_refused_in_a_sentence(
    odd: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moa_core.bench.link_files.LARGEST", 1000)
    path = tmp_path / "odd.json"
    content = ODD[odd]
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(UserError, match="odd"):
        read(path, "link")
    with pytest.raises(UserError, match="nowhere"):
        read(tmp_path / "nowhere.json")


def test_recordings_of_this_program_can_be_read() -> None:
    for name, recording in recorded().items():
        assert recording["command"].startswith("python -m moa_core bench "), name
        assert recording["commit"] and "changes" not in recording["commit"], name
