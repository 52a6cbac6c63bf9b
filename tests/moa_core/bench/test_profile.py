"""A profile of real decoding with tiny random models: sums, names and counts, no times."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from moa_core.__main__ import main
from moa_core.bench import profile
from moa_core.bench.methods import Ours
from moa_core.bench.profile import operators, parts, random_drafter, times
from moa_core.decoding.decode import Settings
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.base import Vanilla
from moa_core.loading.memory import parameters
from moa_core.loading.presets import PRESETS
from tests.models import tiny_target, useful
from tests.published import published_config

PROMPT = [3, 7, 1, 9, 4]
TREE = TreeSettings(3, 2, 5)


def cycles(*times: tuple[int, int, int]) -> dict[str, dict[str, list[int]]]:
    draft, verify, other = map(list, zip(*times, strict=True))
    gained = [1] * len(times)
    return {"cycles": {"gained": gained, "draft_us": draft, "verify_us": verify, "other_us": other}}


def test_parts_are_the_mean_of_all_cycles() -> None:
    runs = [cycles((1000, 4000, 10), (3000, 5000, 20)), cycles((2000, 9000, 30))]
    assert parts(runs) == {"draft": 2.0, "verify": 6.0, "other": 0.02}


def test_every_method_has_its_times_and_operators() -> None:
    target = tiny_target()
    drafter = useful("moa-n1", target)
    methods = {
        "vanilla": Ours("vanilla", target, Vanilla()),
        "moa-n1": Ours("moa-n1", target, drafter),
    }
    settings = {name: Settings(24, TREE) for name in methods}
    found = times(methods, [PROMPT, PROMPT[::-1]], settings, 2)
    assert found["vanilla"]["tau"] == 1 and found["moa-n1"]["tau"] > 1
    for one in found.values():
        whole = sum(one["ms"].values())
        assert one["tokens_per_second"] == pytest.approx(1e3 * one["tau"] / whole, rel=0.05)

    rows = operators(target, drafter, PROMPT, settings["moa-n1"])
    assert len(rows) == profile.MOST_OPERATORS
    assert [row["ms"] for row in rows] == sorted((row["ms"] for row in rows), reverse=True)
    plain = operators(target, Vanilla(), PROMPT, settings["vanilla"])
    products = next(row for row in plain if "linear" in row["operator"] or "mm" in row["operator"])
    per_layer = products["calls"] / len(target.layers)
    assert 1 <= per_layer < 8, "calls are of one cycle, not of the text"
    assert operators(target, Vanilla(), PROMPT, Settings(2)) == [], "the first cycle is left out"


def test_the_whole_command(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite, kept = tmp_path / "one.jsonl", tmp_path / "p.json"
    suite.write_text(json.dumps({"kind": "stories", "prompt": "The fox ran"}))
    common = ("bench", "--profile", "--repeat", "1", "--device", "cpu", "--max-new-tokens", "24")
    given = ("--methods", "vanilla,moa-n1", "--suite", str(suite), "--ignore-eos")
    assert main([*common, *given, "--out", str(kept)]) == 0
    printed = capsys.readouterr().out
    report = json.loads(kept.read_text())
    plain, moa = report["cycles"]
    assert (plain["method"], plain["tree"], plain["tau"]) == ("vanilla", "-", 1)
    assert (moa["method"], moa["tree"]) == ("moa-n1", "3-2-7")  # its config's own
    assert set(report["operators"]) == {"vanilla", "moa-n1"} and report["machine"]["processor"]
    assert "moa-n1: operator" in printed and report["operators"]["moa-n1"][0]["operator"] in printed

    assert main([*common, *given, "--contexts", "90,8", "--tree", "same"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[1:]]
    assert [row[:3] for row in rows] == [
        ["vanilla", "-", "8"], ["moa-n1", "5-4-12", "8"],
        ["vanilla", "-", "90"], ["moa-n1", "5-4-12", "90"],
    ]  # fmt: skip


@pytest.fixture
def small_preset(monkeypatch: pytest.MonkeyPatch) -> None:
    """The preset's own shape, but narrow."""
    published = PRESETS["llama3-8b"]
    small = {spec: published_config(spec) for spec in published.configs}
    monkeypatch.setitem(PRESETS, "llama3-8b", replace(published, configs=small))


def test_a_published_shape_with_random_weights(
    small_preset: None, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("--methods", "vanilla,moa-n1,eagle2", "--repeat", "1", "--max-new-tokens", "8")
    common = ("bench", "--profile", "--shape", "llama3-8b", "--device", "cpu", *given)
    assert main([*common, "--contexts", "300"]) == 0  # more than it has positions
    printed = capsys.readouterr().out
    rows = [line.split()[:3] for line in printed.splitlines()[1:4]]
    assert rows == [["vanilla", "-", "300"], *([m, "6-8-62", "300"] for m in ("moa-n1", "eagle2"))]
    assert "Weights are random" in printed


def test_models_have_the_published_sizes() -> None:
    target = profile.random_target("llama3-8b", 9000, "bfloat16", "meta")
    assert target.context == 9000 and target.dtype == torch.bfloat16
    drafters = {name: random_drafter(name, target, "llama3-8b") for name in ("moa-n3", "eagle2")}
    assert drafters["moa-n3"].tli == 3
    nets = {name: drafter.net for name, drafter in drafters.items()}
    assert {name: round(parameters(net) / 1e6) for name, net in nets.items()} == {
        "moa-n3": 264, "eagle2": 252,
    }  # fmt: skip
    assert round(parameters(target.model) / 1e6) == 8030


def test_a_shape_has_only_its_own_drafters(
    small_preset: None, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("--shape", "llama3-8b", "--methods", "medusa", "--device", "cpu")
    assert main(["bench", "--profile", *given]) == 2
    assert "llama3-8b has no medusa" in capsys.readouterr().err
