"""`bench` on a tiny random bundle: files, table, resuming, mistakes, and the command kept."""

import json

import pytest

from moa_core.__main__ import main
from moa_core.bench.records import command_line
from moa_core.decoding.tree import AUTO


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
