"""Runs: every method the same greedy text, in turn, resumable; settings that must not change."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from moa_core.bench import runs as running
from moa_core.bench.hf_generate import generate
from moa_core.bench.methods import HuggingFace, Method, load_methods, written
from moa_core.bench.results import tau
from moa_core.bench.runs import (
    Contender,
    Decoding,
    in_turn,
    keep_settings,
    read_runs,
    run_all,
)
from moa_core.bench.suites import Prompt
from moa_core.bench.tuning import _fitting, best_trees, one_tree, same_trees, tree_speeds
from moa_core.decoding.decode import Settings
from moa_core.decoding.tree import AUTO, TreeSettings
from moa_core.drafters.independent import IndependentDrafter, as_model
from moa_core.errors import UserError
from moa_core.loading.formats import save_drafter
from moa_core.model.target import Target
from moa_core.train.init import fresh
from tests.moa_core.bench.made_up import ours
from tests.models import plain_greedy, speaking_target

IDS = [[5, 9, 33, 5, 9], [7, 8, 12], [40, 41, 42, 43]]
PROMPTS = [Prompt(at, "ab"[at % 2], ()) for at in range(1, 4)]
DECODING = Decoding(20)
TREE = TreeSettings(3, 2, 6)


@pytest.fixture(scope="module")
def target() -> Target:
    return speaking_target()


def peers(target: Target) -> dict[str, Method]:
    small = fresh("independent", target, seed=0)
    assert isinstance(small, IndependentDrafter)
    return {
        "hf-generate": HuggingFace("hf-generate", target, None, {}),
        "hf-lookup": HuggingFace("hf-lookup", target, None, {"prompt_lookup_num_tokens": 10}),
        "hf-assisted": HuggingFace(
            "hf-assisted", target, small, {"assistant_model": as_model(small)}
        ),
    }


class Counting(Method):
    """Decodes nothing; remembers what it was asked, and may be cut off."""

    trees = True

    def __init__(self, name: str, target: Target, log: list, stop_after: int = 10**6) -> None:
        super().__init__(name, target, None)
        self.log, self.stop_after = log, stop_after

    def run(self, ids, settings: Settings) -> dict:
        if len(self.log) >= self.stop_after:
            raise KeyboardInterrupt
        self.log.append((self.name, list(ids), settings))
        record = ours(self.name, 0, 0, "", [1 + len(ids) % 3, 2])
        return {key: record[key] for key in record if key not in ("method", "repeat", "prompt")}


def test_every_name_is_first_equally_often() -> None:
    order = list(in_turn("abc", 2, PROMPTS))
    assert order[:3] == [(0, 0, "a"), (0, 0, "b"), (0, 0, "c")]
    firsts = [order[at][2] for at in range(0, len(order), 3)]
    assert firsts == ["a", "b", "c", "b", "c", "a"]
    assert len(set(order)) == len(order) == 18


def test_runs_are_interleaved_and_the_warm_up_is_dropped(
    target: Target, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log: list = []
    both = {name: Contender(Counting(name, target, log), TREE) for name in "ab"}
    runs = run_all(both, PROMPTS, IDS, 2, DECODING, tmp_path / "runs.jsonl")
    assert [(name, ids) for name, ids, _ in log[:4]] == [
        ("a", IDS[0]), ("b", IDS[0]), ("a", IDS[1]), ("b", IDS[1]),
    ]  # fmt: skip
    asked = [name for name, _, _ in log[4:]]
    assert "".join(asked) == "abbaabbaabba" and len(runs) == 12
    assert "bench: 12 runs; about 1 second, by the warm-up\n" in capsys.readouterr().err
    kept = read_runs(tmp_path / "runs.jsonl")
    assert list(kept.values()) == runs
    assert [run["kind"] for run in runs[:6]] == ["b", "b", "a", "a", "b", "b"]


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.1, "1 second"), (80, "80 seconds"), (180, "3 minutes"), (9000, "2 hours")],
)
def test_durations_are_told_in_words(seconds: float, words: str) -> None:
    assert running.duration(seconds) == f"about {words}"


def test_a_run_that_was_cut_off_repeats_nothing_finished(target: Target, tmp_path: Path) -> None:
    def contenders(log: list, stop_after: int = 10**6) -> dict[str, Contender]:
        return {n: Contender(Counting(n, target, log, stop_after), TREE) for n in "ab"}

    path, whole, first, second = tmp_path / "runs.jsonl", [], [], []
    expected = run_all(contenders(whole), PROMPTS, IDS, 2, DECODING, tmp_path / "whole.jsonl")
    with pytest.raises(KeyboardInterrupt):
        run_all(contenders(first, 9), PROMPTS, IDS, 2, DECODING, path)
    assert len(read_runs(path)) == 5  # and four of warm-up
    with path.open("a") as file:
        file.write('{"method":"a","rep')  # killed while writing
    assert run_all(contenders(second), PROMPTS, IDS, 2, DECODING, path) == expected
    assert [entry[:2] for entry in first[4:] + second[4:]] == [entry[:2] for entry in whole[4:]]
    third: list = []
    assert run_all(contenders(third), PROMPTS, IDS, 2, DECODING, path) == expected and not third


def test_a_kill_while_a_cut_line_is_taken_away_or_settings_are_written_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither file may ever be empty: a text that is written anew is, for a moment."""
    path, whole = tmp_path / "runs.jsonl", '{"method":"a","repeat":0,"prompt":1}\n'
    keep_settings(tmp_path, {"repeat": 3}, "abc")

    def killed(part: Path, *_: object, **__: object) -> None:
        part.open("w").close()
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "write_text", killed)
    path.write_bytes(whole.encode() + b'{"method":"a","rep')
    assert len(read_runs(path)) == 1 and path.read_bytes() == whole.encode()
    with pytest.raises(KeyboardInterrupt):
        keep_settings(tmp_path, {"repeat": 3}, "def")
    monkeypatch.undo()
    assert keep_settings(tmp_path, {"repeat": 3}, "def") == ["abc", "def"]


def test_a_line_that_is_no_run_is_named(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text('{"method":"a","repeat":0,"prompt":1}\n{"method":"a"}\n')
    with pytest.raises(UserError, match="Line 2"):
        read_runs(path)


def test_other_settings_are_refused_and_named(tmp_path: Path) -> None:
    settings = {"repeat": 3, "methods": ("a", "b")}
    assert keep_settings(tmp_path / "out", settings, "abc") == ["abc"]
    assert keep_settings(tmp_path / "out", settings, "abc") == ["abc"]
    assert keep_settings(tmp_path / "out", settings, "def") == ["abc", "def"]
    with pytest.raises(UserError, match="repeat was 3 and is now 4"):
        keep_settings(tmp_path / "out", {**settings, "repeat": 4}, "abc")
    (tmp_path / "out" / "settings.json").write_text("[]")
    with pytest.raises(UserError, match="damaged"):
        keep_settings(tmp_path / "out", settings, "abc")


@pytest.mark.parametrize("ignore_eos", [False, True])
def test_all_methods_write_the_targets_own_text(
    target: Target, bundle: Path, ignore_eos: bool
) -> None:
    stop = () if ignore_eos else (plain_greedy(target, IDS[0], 8)[7],)  # an end within reach
    twin = target.fork()
    twin.eos_ids = stop
    methods = load_methods(["vanilla", "eagle", "ngram", "moa-n1"], target) | peers(target)
    for ids in IDS:
        expected = written(plain_greedy(twin, ids, 20), len(ids))
        for name, method in methods.items():
            record = method.run(ids, Settings(20, TREE, eos_ids=stop))
            assert {key: record[key] for key in expected} == expected, name


def test_a_peers_acceptance_length_is_counted_from_outside(target: Target) -> None:
    methods = peers(target)
    settings = Settings(20, TREE)
    plain = methods["hf-generate"].run(IDS[0], settings)
    assert plain["target_calls"] == 20 and tau([plain]) == 1
    assert plain["gained_after_prefill"] == 19
    assert plain["seconds"]["prefill"] > 0 and plain["seconds"]["decode"] > 0
    # A perfect assistant, the target itself: its first forward verifies drafts already.
    itself = {"assistant_model": speaking_target().model}
    made = generate(target, IDS[0], settings, itself)
    assert made.ids == plain_greedy(target, IDS[0], 20)
    assert made.target_calls < 20 and made.first_gain > 1
    assert not target.model._forward_hooks and not target.model._forward_pre_hooks


def test_sampled_texts_are_alike_for_all_methods_and_new_each_repeat(
    target: Target, bundle: Path
) -> None:
    decoding = Decoding(20, temperature=1.0)
    texts = set()
    for repeat in range(3):
        settings = decoding.settings(TREE, repeat, 1)
        found = {
            method.run(IDS[0], settings)["output"]
            for method in load_methods(["vanilla", "moa-n0"], target).values()
        }
        assert len(found) == 1
        texts |= found
    assert len(texts) == 3
    sampled = peers(target)["hf-generate"].run(IDS[0], decoding.settings(None, 0, 1))
    again = peers(target)["hf-generate"].run(IDS[0], decoding.settings(None, 0, 1))
    assert sampled["output"] == again["output"]


def test_peers_from_a_bundle_also_sample_and_end_with_the_context(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = fresh("independent", target, seed=0)
    save_drafter(tmp_path / "independent", small, target, {}, torch.float32)
    monkeypatch.setenv("MOA_MODELS", str(tmp_path))
    methods = load_methods(["vanilla", "independent", "hf-assisted", "hf-lookup"], target)
    theirs, ours = methods["hf-assisted"].about(), methods["independent"].about()
    assert theirs == {**ours, "draft_precision": None} and ours["draft_precision"] == "float32"
    assert methods["hf-assisted"].weights() == methods["independent"].weights() > 0
    long = [5, 9, 33] * 80
    settings = Decoding(100, temperature=0.8).settings(TREE, 0, 1)
    for method in methods.values():
        assert method.run(long, settings)["new_tokens"] == target.context - len(long)


def test_what_a_text_repeats() -> None:
    assert written([1] * 10, 4)["grams"] == [2, 3]
    assert written(list(range(10)), 4)["grams"] == [0, 3] and written([1], 4)["grams"] == [0, 0]


def test_methods_that_cannot_be(target: Target, bundle: Path) -> None:
    for specs, words in (
        (["vanilla", "vanilla"], "twice"), ([], "empty"), (["hf-assisted"], "independent"),
        (["./nowhere"], "no folder"),
    ):  # fmt: skip
        with pytest.raises(UserError, match=words):
            load_methods(specs, target)


def test_other_weights_have_another_checksum(target: Target) -> None:
    one, other = (
        HuggingFace("x", target, fresh("eagle2", target, seed), {}).weights() for seed in (0, 1)
    )
    assert (
        one != other and one == HuggingFace("x", target, fresh("eagle2", target, 0), {}).weights()
    )


def test_trees_are_read_and_fitted(target: Target) -> None:
    assert one_tree("7-6-24") == TreeSettings(7, 6, 24) and one_tree("auto") == AUTO
    for wrong in ("5-4", "a-b-c", "5-4-12-1", "0-1-1", "largest"):
        with pytest.raises(UserError):
            one_tree(wrong)
    methods = load_methods(["vanilla", "ngram"], target)
    same = same_trees(methods, TREE)
    assert same["vanilla"].tree is None and same["ngram"].tree == TREE
    medusa = replace(TREE, depth=20)
    method = Counting("medusa", target, [])
    method.drafter = fresh("medusa", target, seed=0)
    assert _fitting(method, medusa).depth == len(method.drafter.net.heads)


def test_a_trees_speed_is_the_median_of_its_passes() -> None:
    paces = (1.0, 4.0, 2.0)
    runs = [ours("m@1", at, 1, "a", [5, 5], pace) for at, pace in enumerate(paces)]
    assert tree_speeds(runs) == {"m@1": pytest.approx(5)}


def test_the_fastest_tree_is_chosen_and_kept(
    target: Target, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, fast = TreeSettings(5, 4, 12), TreeSettings(2, 1, 2)

    class Paced(Counting):
        def run(self, ids, settings: Settings) -> dict:
            record = super().run(ids, settings)
            pace = 1 if settings.tree == fast else 3
            return {**record, "seconds": {"verify": pace * 0.1, "prefill": 0.1}}

    plain = Counting("vanilla", target, [])
    plain.trees = False
    methods = {"vanilla": plain, "moa": Paced("moa", target, [])}
    best = best_trees(methods, [slow, fast], PROMPTS, IDS, DECODING, tmp_path)
    assert best["moa"].tree == fast and best["vanilla"].tree is None
    kept = json.loads((tmp_path / "trees.json").read_text())
    assert kept["trees"] == {"vanilla": None, "moa": {"depth": 2, "breadth": 1, "budget": 2}}
    assert (
        kept["decode_tokens_per_second"]["moa@2-1-2"]
        > kept["decode_tokens_per_second"]["moa@5-4-12"]
    )
    monkeypatch.setattr(running, "_run", None)  # a second call has nothing left to run
    assert best_trees(methods, [slow, fast], PROMPTS, IDS, DECODING, tmp_path).keys() == best.keys()


def test_a_drafter_that_is_often_right_has_a_longer_path(target: Target, bundle: Path) -> None:
    record = load_methods(["moa-n1"], target)["moa-n1"].run(IDS[0], Settings(20, TREE))
    cycles = record["cycles"]
    assert tau([record]) > 1.2 and set(map(len, cycles.values())) == {len(cycles["gained"])}
    assert record["target_calls"] == len(cycles["gained"]) + 1
    spent = sum(sum(cycles[f"{phase}_us"]) for phase in ("draft", "verify", "other")) / 1e6
    total = sum(record["seconds"][phase] for phase in ("draft", "verify", "other"))
    assert spent == pytest.approx(total, rel=0.05, abs=1e-3)
