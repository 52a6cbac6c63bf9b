"""The command that results keep: as it was given, but for folders of the machine."""

from pathlib import Path

import pytest

from moa_core.bench.command_line import command_line


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("bench --methods vanilla,moa-n1 --repeat 1", "bench --methods vanilla,moa-n1 --repeat 1"),
        ("bench --out results/one --ignore-eos", "bench --out results/one --ignore-eos"),
        ("bench --out {here}/results/one", "bench --out results/one"),
        ("bench --out=/secret/place/one --seed=3", "bench --out=one --seed=3"),
        ("bench --out ../../secret/one", "bench --out one"),
        ("bench --out ~/secret/one", "bench --out one"),
        ("bench --methods moa-n1,/secret/mine,x/y", "bench --methods moa-n1,mine,x/y"),
        ("bench --meth=/secret/mine,moa-n1", "bench --meth=mine,moa-n1"),
        ("bench --token SECRET --link 4g", "bench --link 4g"),
        ("bench --link 4g --tok=SECRET", "bench --link 4g"),
        ("bench --toke SECRET", "bench"),
        ("bench --target meta-llama/Llama-3", "bench --target meta-llama/Llama-3"),
        ("bench --suite /secret,place/my.jsonl", "bench --suite my.jsonl"),
        ("bench --suite {here}/../elsewhere/my.jsonl", "bench --suite my.jsonl"),
        (
            "bench --temperature 0.7 --grid 3-1-3,5-1-5",
            "bench --temperature 0.7 --grid 3-1-3,5-1-5",
        ),
    ],
)
def test_folders_of_the_machine_are_left_out(given, kept, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = [word.format(here=tmp_path) for word in given.split()]
    assert command_line(words) == f"python -m moa_core {kept}"


def test_words_with_spaces_are_quoted_and_a_folder_itself_has_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert command_line(["bench", "--out", "my results"]).endswith("--out 'my results'")
    assert command_line(["bench", "--out", str(Path.cwd())]).endswith("--out .")
