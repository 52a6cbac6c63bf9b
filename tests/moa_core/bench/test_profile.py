"""A profile of real decoding with tiny random models: sums, shapes and counts, no times."""

import json
from importlib import import_module
from pathlib import Path

import pytest
import torch

from moa_core import tree
from moa_core.__main__ import main
from moa_core.bench import profile_rates
from moa_core.bench.profile_runs import Contender, counted, profile_all, timed_cycles
from moa_core.bench.profile_seams import seams, timed
from moa_core.bench.profile_spans import PYTHON, HostClock, Piece, Recorder
from moa_core.bench.profile_table import shares
from moa_core.bench.profile_work import Work
from moa_core.decode import Settings, decode
from moa_core.drafters.auto import AutoDrafter
from moa_core.drafters.base import Drafter, Vanilla
from moa_core.target import Target
from moa_core.trace import Trace
from moa_core.train.fresh import fresh
from moa_core.tree import TreeSettings
from tests.models import tiny_target, useful

loop = import_module("moa_core.decode")  # the module, not the function

PROMPT = [3, 7, 1, 9, 4]
TREE = TreeSettings(3, 2, 5)
LAYERS = {"layers: attention", "layers: MLP", "layers: the rest"}
VERIFY = {"embeddings", "RoPE and masks", *LAYERS, "last norm", "head", "choice", "sync", PYTHON}
EACH_LEVEL = {"embeddings", "RoPE and masks", "head", "top-k", PYTHON}
DRAFTS = {
    "moa-n0": {"SA", "CA"},
    "moa-n1": {"SA", "CA", "TLI layers"},
    "eagle2": {"fc", "layers.0"},
}


@pytest.fixture(autouse=True)
def small_rates(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the machine can do is not what is tested."""
    monkeypatch.setattr(profile_rates, "LARGE", {"cpu": 2**20})
    monkeypatch.setattr(profile_rates, "SIDES", {"cpu": 64})
    monkeypatch.setattr(profile_rates, "SECONDS", 0.0)


@pytest.fixture(scope="module")
def target() -> Target:
    return tiny_target()


def bytes_of(*modules: torch.nn.Module) -> int:
    return sum(each.numel() * each.itemsize for one in modules for each in one.parameters())


def by_name(work: dict[Piece, Work], phase: str) -> dict[str, Work]:
    found: dict[str, Work] = {}
    for piece, each in work.items():
        if piece.phase == phase:
            found[piece.name] = found.get(piece.name, Work()) + each
    return found


@pytest.mark.parametrize("method", DRAFTS)
def test_every_module_is_a_piece_of_every_cycle(target: Target, method: str) -> None:
    drafter = useful(method, target)
    cycles = timed_cycles(target, drafter, PROMPT, Settings(24, TREE), None)
    assert len(cycles) > 3
    for cycle in cycles:
        assert all(seconds >= 0 for seconds in cycle.values())
        assert {piece.name for piece in cycle if piece.phase == "verify"} == VERIFY
        for level in range(TREE.depth):
            names = {piece.name for piece in cycle if piece.level == level}
            assert DRAFTS[method] | EACH_LEVEL <= names
        assert {"accept", "cache", "loop"} <= {piece.phase for piece in cycle}
        outside = {piece.name for piece in cycle if piece.phase == "draft" and piece.level is None}
        assert outside >= ({"LSA", "CA's K and V", "cache"} if "moa" in method else {PYTHON})
        assert Piece("draft", "rerank", TREE.depth - 1) in cycle


def test_a_plain_step_reads_every_weight_and_all_k_and_v_once(target: Target) -> None:
    count = counted(target, Vanilla(), PROMPT, Settings(64), most=1)
    found = by_name(count.work, "verify")
    layers = [target.layers[at] for at in range(len(target.layers))]
    known = len(PROMPT) + 2  # the first cycle is not counted, this one's token is read, too
    keys_values = len(layers) * target.kv_width * known * 4
    attention = bytes_of(*(layer.self_attn for layer in layers))
    assert count.cycles == 1
    within = torch.backends.mkldnn.is_available()  # norms' weights are within packed matrices
    norms = len(layers) * 4 * (1 if within else target.config.hidden_size)
    feed_forward = bytes_of(*(layer.mlp for layer in layers))
    assert found["layers: attention"].bytes == attention + keys_values + norms
    assert found["layers: MLP"].bytes == feed_forward + norms
    assert found["head"].bytes == bytes_of(target.head)
    assert found["last norm"].bytes == bytes_of(target.decoder.norm)
    assert found["embeddings"].bytes == pytest.approx(target.config.hidden_size * 4, abs=16)
    linear = attention + feed_forward + found["head"].bytes
    ops = sum(each.ops for each in found.values())
    wide = target.config.num_attention_heads * target.head_dim
    assert ops == 2 * linear / 4 + len(layers) * 4 * wide * known
    assert count.held == pytest.approx(sum(each.bytes for each in found.values()), rel=0.05)


@pytest.mark.parametrize("method", DRAFTS)
def test_a_cycle_reads_the_weights_of_each_level_again(target: Target, method: str) -> None:
    drafter = useful(method, target)
    count = counted(target, drafter, PROMPT, Settings(64, TREE), most=1)
    found = by_name(count.work, "draft")
    assert found["head"].bytes == TREE.depth * bytes_of(target.head)
    assert found["head"].ops == 2 * (1 + 2 * (TREE.depth - 1)) * target.head.weight.numel()
    verified = by_name(count.work, "verify")
    assert verified["head"].ops == 2 * (1 + TREE.budget) * target.head.weight.numel()
    layers = bytes_of(*target.layers)
    assert sum(verified[name].bytes for name in LAYERS) > layers, "K and V of a masked tree, too"
    if method == "eagle2":
        assert found["fc"].bytes == TREE.depth * bytes_of(drafter.net.fc)
        return
    net = drafter.net
    assert found["LSA"].bytes >= bytes_of(net.layer_self_attention, net.Ekv2E)
    assert found["SA"].bytes > TREE.depth * bytes_of(net.self_attention)
    if method == "moa-n1":
        tail = bytes_of(target.layers[-1], target.decoder.norm)
        assert found["TLI layers"].bytes > TREE.depth * tail


@pytest.mark.parametrize("method", ["none", *DRAFTS])
def test_timers_change_no_token_and_are_gone_after(target: Target, method: str) -> None:
    drafter: Drafter = Vanilla() if method == "none" else useful(method, target)
    settings = Settings(20, TREE)
    plain = Trace(events=list(decode(target, drafter, PROMPT, settings))).output_ids
    there = seams(target, drafter)
    before = [vars(seam.owner).get(seam.attribute) for seam in there]
    with timed(Recorder(HostClock()), target, drafter):
        assert [vars(seam.owner).get(seam.attribute) for seam in there] != before
        timed_ids = Trace(events=list(decode(target, drafter, PROMPT, settings))).output_ids
    assert timed_ids == plain
    after = [vars(seam.owner).get(seam.attribute) for seam in there]
    assert all(one is other for one, other in zip(before, after, strict=True))
    owners = {seam.owner for seam in there}
    assert {loop, tree, target.head, type(drafter)} <= owners, "a name of the decode path changed"


@pytest.mark.parametrize("method", ["moa-auto", "medusa", "glide", "independent"])
def test_no_drafters_arithmetic_is_called_python(target: Target, method: str) -> None:
    one = useful("moa-n0", target), useful("moa-n1", target)
    drafter = AutoDrafter(one) if method == "moa-auto" else fresh(method, target, 0)
    count = counted(target, drafter, PROMPT, Settings(24, TREE), None)
    rest = {piece: each.ops for piece, each in count.work.items() if piece.name == PYTHON}
    total = sum(each.ops for each in count.work.values())
    assert count.cycles > 3 and sum(rest.values()) < 0.02 * total, rest


def test_methods_take_turns_and_are_all_measured(
    target: Target, capsys: pytest.CaptureFixture[str]
) -> None:
    contenders = {
        "vanilla": Contender(Vanilla(), TreeSettings()),
        "moa-n0": Contender(useful("moa-n0", target), TREE),
    }
    found = profile_all(target, contenders, [PROMPT, PROMPT[::-1]], 16, repeats=2)
    assert "12/12" in capsys.readouterr().err  # texts counted and timed
    vanilla, moa = found["vanilla"], found["moa-n0"]
    assert len(vanilla.quiet) == len(vanilla.timed) == 2 * 2 * 14  # the first cycle left out
    assert vanilla.tau == 1 and moa.tau > 1 and moa.cycle > 0
    assert sum(moa.pieces.values()) > 0 and moa.calls[Piece("verify", "head")] == 1
    assert moa.all_work.operators > vanilla.all_work.operators > 0


def test_the_whole_command(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite, kept, page = (tmp_path / name for name in ("one.jsonl", "p.json", "p.md"))
    suite.write_text(json.dumps({"kind": "stories", "prompt": "The fox ran"}))
    common = ("bench", "--profile", "--repeat", "1", "--device", "cpu", "--tree", "best")
    files = ("--json", str(kept), "--markdown", str(page))
    methods = ("--methods", "vanilla,moa-n1", "--suite", str(suite), "--ignore-eos")
    assert main([*common, *methods, "--max-new-tokens", "24", *files]) == 0
    printed = capsys.readouterr().out
    report = json.loads(kept.read_text())
    assert list(report["methods"]) == ["vanilla", "moa-n1"]
    one = report["methods"]["moa-n1"]
    assert one["tree"] == "3-2-7" and report["methods"]["vanilla"]["tau"] == 1
    assert sum(shares(one["rows"]).values()) == pytest.approx(sum(r["ms"] for r in one["rows"]))
    for words in ("LSA", "TLI layers", "top-k", "sync", "the whole cycle"):
        assert words in printed and words in page.read_text()


def test_contexts_beyond_the_targets_own_take_random_weights(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "p.json"
    common = ("bench", "--profile", "--repeat", "1", "--device", "cpu", "--json", str(kept))
    assert main([*common, "--methods", "vanilla,moa-n0", "--contexts", "300,8"]) == 0
    assert "tiny has 256 positions: random weights" in capsys.readouterr().out
    rows = json.loads(kept.read_text())["contexts"]
    assert [(row["method"], row["context"]) for row in rows] == [
        ("vanilla", 8), ("vanilla", 300), ("moa-n0", 8), ("moa-n0", 300),
    ]  # fmt: skip
    short, long = rows[:2]
    numbers = 3 * 2 * 2 * 8 * 4  # bytes a token: layers, K and V, heads, head size, float32
    assert long["read_mb"] - short["read_mb"] == pytest.approx(292 * numbers / 1e6, rel=0.02)


def test_a_known_shape_with_few_layers(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    common = ("bench", "--profile", "--repeat", "1", "--device", "cpu", "--methods", "eagle2")
    assert main([*common, "--shape", "bundle", "--layers", "1", "--tree", "2-2-3"]) == 0
    assert "bundle with 1 layer and random weights" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--profile", "--contexts", "a"), "whole numbers"),
        (("--profile", "--layers", "2"), "--layers goes with --shape"),
        (("--profile", "--shape", "elephant"), "no shape 'elephant'"),
        (("--profile", "--json", "/nowhere/p.json"), "cannot be written"),
        (("--profile", "--methods", "hf-generate"), "our own loop"),
        (("--profile", "--repeat", "0"), "at least 1"),
        (("--profile", "--weigh"), "a run of its own"),
        (("--contexts", "256"), "--contexts goes with --profile"),
    ],
)
def test_mistakes_are_told(
    bundle: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...], words: str
) -> None:
    assert main(["bench", *more, "--device", "cpu"]) == 2
    error = capsys.readouterr().err
    assert words in error and len(error.strip().splitlines()) == 1
