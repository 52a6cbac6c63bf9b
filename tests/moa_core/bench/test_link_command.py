"""`bench --link`, `--map` and `--weigh` on a tiny random bundle, between real processes."""

import json
from pathlib import Path

import pytest

from moa_core.__main__ import main
from moa_core.bench.link_files import read, select
from moa_core.bench.link_weight import eight_b, shape_rows
from moa_core.checkpoints import load_drafter, load_target
from moa_core.link.network import LinkSettings, link
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


def test_a_whole_measurement_and_its_map(
    bundle: Path, suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.json"
    more = ("--link", LINK, "--numbers", "bf16,int8", "--clients", "1,3", "--seed", "5")
    assert main(command(suite, out, *more)) == 0
    found = read(out, "link")
    methods = {"moa-n0", "moa-n1", "eagle2", "stream", "vanilla"}
    alone = select(found["rows"], clients=1)
    for place in ("direct", LINK):
        assert {row["method"] for row in alone if row["link"] == place} == methods
        for row in (row for row in alone if row["link"] == place):
            assert row["runs"] == 1 and row["differing"] == row["downs"] == 0
            assert row["ms_per_token"] > 0 and row["first_ms"] > 0 < row["connect_ms"]
            assert row["prefill_up"] > 0 < row["down_per_token"] and row["server_s_per_100"] > 0
    far = {row["method"]: row for row in select(alone, link=LINK, numbers="bf16")}
    near = {row["method"]: row for row in select(alone, link="direct", numbers="bf16")}
    for name in ("moa-n0", "vanilla"):
        assert far[name]["network_ms_per_call"] > 6  # what the link takes at least
        assert far[name]["tau"] == near[name]["tau"]
    small = {row["method"]: row for row in select(alone, link=LINK, numbers="int8")}
    assert set(small) == {"moa-n0", "moa-n1", "eagle2"}
    assert small["moa-n1"]["prefill_down"] < 0.8 * far["moa-n1"]["prefill_down"]
    assert far["moa-n1"]["prefill_down"] > far["moa-n0"]["prefill_down"] > 0
    assert {row["method"] for row in select(alone, link="local")} == methods - {"stream"}
    crowd = select(found["rows"], clients=3)
    assert {row["method"] for row in crowd} == methods
    assert all(row["runs"] == 6 and row["differing"] == row["downs"] == 0 for row in crowd)
    assert all(row["server_s_per_100"] > 0 for row in crowd)
    assert capsys.readouterr().out.splitlines()[0].startswith("link")

    # Cut off and given again, it makes what is missing and nothing else.
    runs = tmp_path / "out.runs" / "runs.jsonl"
    lines = runs.read_text().splitlines()
    runs.write_text("\n".join(lines[:-2]) + "\n")
    assert main(command(suite, out, *more)) == 0
    assert runs.read_text().splitlines()[:-2] == lines[:-2]
    assert len(runs.read_text().splitlines()) == len(lines)
    assert len(read(out)["rows"]) == len(found["rows"])
    assert main(command(suite, out, *more, "--tree", "2-1-2")) == 2
    assert "tree" in capsys.readouterr().err

    chart = tmp_path / "map.json"
    assert main(["bench", "--map", str(out), "--out", str(chart)]) == 0
    mapped = read(chart, "link-map")
    assert {row["method"] for row in mapped["break_even"]} == methods - {"stream"}
    assert {row["link"] for row in mapped["checks"]} == {LINK}
    assert "round trip (ms) below which" in capsys.readouterr().out  # what it says depends on times


def test_a_server_that_runs_already_is_used_and_its_token_not_written_down(
    bundle: Path, suite: Path, tmp_path: Path
) -> None:
    target = load_target("tiny", device="cpu")
    out = tmp_path / "out.json"
    with serving(target, lambda name: load_drafter(name, target), "open sesame") as (_, port):
        more = ("--link", "direct", "--methods", "moa-n0", "--limit", "1")
        there = ("--server", f"ws://127.0.0.1:{port}", "--token", "open sesame")
        assert main(command(suite, out, *more, *there)) == 0
    found = read(out)
    assert {row["link"] for row in found["rows"]} == {"local", "direct"}
    assert "sesame" not in out.read_text()


BAD = {
    "no file": ["--link", "lan"],
    "no JSON file": ["--link", "lan", "--out", "{folder}"],
    "an unknown link": ["--link", "tin-cans", "--out", "{out}"],
    "a link through which nothing passes": ["--link", "offline", "--out", "{out}"],
    "a link twice": ["--link", "lan", "--link", "lan", "--out", "{out}"],
    "an unknown method": ["--link", "lan", "--out", "{out}", "--methods", "ngram"],
    "a method twice": ["--link", "lan", "--out", "{out}", "--methods", "moa-n0,moa-n0"],
    "unknown numbers": ["--link", "lan", "--out", "{out}", "--numbers", "f16"],
    "no clients": ["--link", "lan", "--out", "{out}", "--clients", "0"],
    "clients in words": ["--link", "lan", "--out", "{out}", "--clients", "many"],
    "the best tree": ["--link", "lan", "--out", "{out}", "--tree", "best"],
    "no threads": ["--link", "lan", "--out", "{out}", "--server-threads", "0"],
    "no tokens": ["--link", "lan", "--out", "{out}", "--max-new-tokens", "0"],
    "no server": ["--link", "lan", "--out", "{out}", "--server", "ws://127.0.0.1:9"],
    "an odd server": ["--link", "lan", "--out", "{out}", "--server", "there"],
    "two things at once": ["--link", "lan", "--offline", "--out", "{out}"],
    "a map of nothing": ["--map", "{folder}/nowhere.json", "--out", "{out}"],
}


@pytest.mark.parametrize("mistake", BAD)
def test_a_mistake_is_told_in_one_sentence(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], mistake: str
) -> None:
    check_told(BAD[mistake], tmp_path, capsys)


def test_what_a_client_holds(bundle: Path, tmp_path: Path) -> None:
    out = tmp_path / "weight.json"
    assert main(["bench", "--weigh", "--out", str(out), "--device", "cpu"]) == 0
    rows = read(out, "client-weight")["rows"]
    small = select(rows, target="tiny")
    assert [row["last"] for row in small] == [0, 1]
    model = load_target("tiny", device="cpu").model
    layer = sum(p.numel() for p in model.model.layers[-1].parameters())
    rest = sum(p.numel() for p in (*model.lm_head.parameters(), *model.model.norm.parameters()))
    rest += model.model.embed_tokens.weight.numel()
    assert small[0]["target_mb"] == pytest.approx(4 * rest / 1e6, abs=1e-4)
    assert small[1]["target_mb"] == pytest.approx(4 * (rest + layer) / 1e6, abs=1e-4)
    assert all(row["parcel_mb"] > row["target_mb"] for row in small)


def test_a_client_of_an_8b_target_by_hand() -> None:
    rows = list(shape_rows("8B", eight_b()))
    vocabulary, width, inner = 128_256, 4096, 14_336
    layer = 2 * width * width + 2 * width * 1024 + 3 * width * inner + 2 * width
    for row in rows:
        numbers = 2 * vocabulary * width + width + row["last"] * layer
        assert row["target_mb"] == pytest.approx(2 * numbers / 1e6)
    assert rows[0]["target_mb"] > 2000  # not a phone
    assert 300 < rows[0]["drafter_mb"] < 900


def test_a_custom_link_is_called_what_it_is() -> None:
    assert link(LINK).spec == LINK and link(LINK) == LinkSettings(6, 0, 20, 20)
