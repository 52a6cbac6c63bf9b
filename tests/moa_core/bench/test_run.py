"""`bench`: the command; suites; runs in turn, resumable; settings that stay."""

import json

import pytest
import torch

from moa_core.__main__ import main
from moa_core.bench import run
from moa_core.bench.methods import Method
from moa_core.bench.records import command_line
from moa_core.bench.run import keep_settings, read_runs, run_all
from moa_core.bench.suites import Prompt
from moa_core.decoding.decode import Settings
from moa_core.decoding.tree import AUTO, TreeSettings
from moa_core.errors import UserError
from moa_core.model.target import Target
from tests.moa_core.bench.made_up import ours


def test_a_whole_benchmark(bundle, tmp_path, capsys):
    suite, out = tmp_path / "two.jsonl", tmp_path / "new" / "out"
    texts = {"stories": "The fox ran", "sums": "What is 3 +"}
    rows = [{"kind": kind, "prompt": text} for kind, text in texts.items()]
    suite.write_text("\n".join(map(json.dumps, rows)))
    short = "--max-new-tokens 12 --repeat 2 --device cpu --ignore-eos"
    words = f"{short} --methods vanilla,eagle2,moa-n1,hf-generate"
    command = ["bench", "--suite", str(suite), "--out", str(out), *words.split()]
    assert main(command) == 0
    printed = capsys.readouterr().out
    results = json.loads((out / "results.json").read_text())
    assert list(results["methods"]) == ["vanilla", "eagle2", "moa-n1", "hf-generate"]
    assert len(results["runs"]) == 4 * 2 * 2 and results["methods"]["vanilla"]["tau"] == 1
    for found in results["methods"].values():
        assert found["identical_to_vanilla"] == 1.0 and found["new_tokens"] == 24
        assert set(found["kinds"]) == {"stories", "sums"} and found["tokens_per_second"] > 0
    moa = results["methods"]["moa-n1"]
    assert moa["tree"] == AUTO.as_dict()
    assert moa["drafts_per_cycle"] > 0 and f"auto ({moa['drafts_per_cycle']:.1f})" in printed
    assert moa["trainable_parameters"] > 1000 and len(moa["acceptance_by_position"]) >= 1
    assert results["machine"]["device"] == "cpu" and results["versions"]["torch"]
    assert results["command"] == f"python -m moa_core bench --suite two.jsonl --out out {words}"
    assert str(tmp_path) not in (out / "summary.json").read_text()
    assert printed.splitlines()[0].startswith("method") and str(out / "summary.json") in printed

    # The same command again runs nothing; the figures are the same.
    before = (out / "runs.jsonl").read_bytes()
    assert main(command) == 0
    assert (out / "runs.jsonl").read_bytes() == before
    assert json.loads((out / "results.json").read_text())["methods"] == results["methods"]
    capsys.readouterr()
    assert main([*command, "--seed", "1"]) == 2
    assert "seed was 0 and is now 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("bench --methods vanilla,moa-n1 --repeat 1", "bench --methods vanilla,moa-n1 --repeat 1"),
        ("bench --out {here}/results/one", "bench --out results/one"),
        ("bench --out {here}", "bench --out ."),
        ("bench --out=/secret/place/one --seed=3", "bench --out=one --seed=3"),
        ("bench --out ~/secret/one", "bench --out one"),
        ("bench --methods moa-n1,/secret/mine,x/y", "bench --methods moa-n1,mine,x/y"),
        ("bench --meth=/secret/mine,moa-n1", "bench --meth=mine,moa-n1"),
        ("bench --target meta-llama/Llama-3", "bench --target meta-llama/Llama-3"),
    ],
)
def test_folders_of_the_machine_are_left_out(given, kept, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = [word.format(here=tmp_path) for word in given.split()]
    assert command_line(words) == f"python -m moa_core {kept}"
    assert command_line(["bench", "--out", "my results"]).endswith("--out 'my results'")


IDS = [[5, 9, 33, 5, 9], [7, 8, 12], [40, 41, 42, 43]]
PROMPTS = [Prompt(at, "ab"[at % 2], "") for at in range(1, 4)]
SETTINGS = Settings(20, eos_ids=())
CPU = torch.device("cpu")
TREE = TreeSettings(3, 2, 6)
WHOLE = b'{"method":"a","repeat":0,"prompt":1}\n'


class Counting(Method):
    """Decodes nothing; remembers what it was asked, and may be cut off."""

    tree = TREE

    def __init__(self, name: str, target: Target, log: list, stop_after: int = 10**6) -> None:
        super().__init__(name, target, None)
        self.log, self.stop_after = log, stop_after

    def run(self, ids, settings: Settings) -> dict:
        if len(self.log) >= self.stop_after:
            raise KeyboardInterrupt
        self.log.append((self.name, list(ids)))
        record = ours(self.name, 0, 0, "", [1 + len(ids) % 3, 2])
        return {key: record[key] for key in record if key not in ("method", "repeat", "prompt")}


def methods(target: Target, log: list, stop_after: int = 10**6) -> dict[str, Counting]:
    return {name: Counting(name, target, log, stop_after) for name in "ab"}


def test_runs_are_interleaved_and_the_warm_up_is_dropped(target, tmp_path):
    log: list = []
    runs = run_all(methods(target, log), PROMPTS, IDS, 2, SETTINGS, tmp_path / "runs.jsonl")
    assert log[:4] == [("a", IDS[0]), ("b", IDS[0]), ("a", IDS[1]), ("b", IDS[1])]
    assert "".join(name for name, _ in log[4:]) == "abbaabbaabba" and len(runs) == 12
    assert list(read_runs(tmp_path / "runs.jsonl").values()) == runs
    assert [run["kind"] for run in runs[:6]] == ["b", "b", "a", "a", "b", "b"]


def test_a_run_that_was_cut_off_repeats_nothing_finished(target, tmp_path):
    path, whole, first, second = tmp_path / "runs.jsonl", [], [], []
    rest = (PROMPTS, IDS, 2, SETTINGS)
    expected = run_all(methods(target, whole), *rest, tmp_path / "whole.jsonl")
    with pytest.raises(KeyboardInterrupt):
        run_all(methods(target, first, 9), *rest, path)
    assert len(read_runs(path)) == 5  # and four of warm-up
    with path.open("a") as file:
        file.write('{"method":"a","rep')  # killed while writing
    assert run_all(methods(target, second), *rest, path) == expected
    assert first[4:] + second[4:] == whole[4:]
    third: list = []
    assert run_all(methods(target, third), *rest, path) == expected and not third
    for damaged, words in ((WHOLE + b'{"method":"a"}\n', "Line 2"), (b"\xff\n", "damaged")):
        path.write_bytes(damaged)
        with pytest.raises(UserError, match=words):
            read_runs(path)


def test_other_settings_are_refused_and_named(tmp_path, monkeypatch):
    settings = {"repeat": 3, "methods": ("a", "b")}
    for commit, all_of_them in (("abc", "abc"), ("abc", "abc"), ("def", "abc, then def")):
        monkeypatch.setattr(run, "commit", lambda commit=commit: commit)
        facts = keep_settings(tmp_path / "out", settings, CPU)
        assert facts["commit"] == all_of_them and facts["settings"] == settings
    with pytest.raises(UserError, match="repeat was 3 and is now 4"):
        keep_settings(tmp_path / "out", {**settings, "repeat": 4}, CPU)
    with pytest.raises(UserError, match=r"methods was .* and is now None"):
        keep_settings(tmp_path / "out", {"repeat": 3}, CPU)
    for damaged in (b"[]", b'{"settings": {}}', b"\xff"):
        (tmp_path / "out" / "settings.json").write_bytes(damaged)
        with pytest.raises(UserError, match="damaged"):
            keep_settings(tmp_path / "out", settings, CPU)
