"""Mistakes on the command line: exit code 2, one sentence, and no files among the user's."""

import shlex
from pathlib import Path

import pytest

from moa_core.__main__ import main
from tests.released import FOLDER

TRAIN = (
    "--prompts {here}/two.jsonl --own-tokens 1 --workers 1 --out {out} --updates 1 --row-length 128"
)
MISTAKES = {  # a command, and for each way to go on: what the sentence must contain
    "generate --prompt x": [
        ("--target /no/such --drafter eagel2", "no drafter 'eagel2'"),
        ("--target none.gguf", "There is no file none.gguf"),
        ("--device banana", "no device 'banana'"),
        ("--threads 0", "a whole number from 1 to 1024"),
        ("--trace /nowhere/trace.json", "No trace can be written to /nowhere"),
        ("--trace {here}/empty", "name a file in a writable folder"),
        ("--tree ²-²-²", "is not a tree: write auto, own, or depth-breadth-budget"),
        ("--server ws://x:1 --target y", "name --target or --server, not both"),
    ],
    "generate": [("--prompt-ids 1,two,3", "--prompt-ids must be whole numbers")],
    "memory": [("--drafter {here}/empty", "has no weights that can be read")],
    "serve --port 0": [
        ("--port 70000", "A port is a number"),
        ("--max-sessions 0", "--max-sessions must be above 0"),
        ("--max-context 1", "--max-context must be at least 2"),
        ("--idle nan", "--idle must be above 0"),
        ("--host 0.0.0.0", "set MOA_TOKEN"),
        ("--host ''", "set MOA_TOKEN"),
        ("--host .. --token x", "'..' is not the name of a host."),
        ("--drafter /no/such/drafter", "/no/such/drafter"),
    ],
    "bench --suite {here}/two.jsonl --device cpu": [
        ("--methods vanilla", "--out FOLDER"),
        ("--out {here}/two.jsonl", "is a file"),
        ("--out ~nobody-of-this-name/out --suite nowhere", "There is no suite 'nowhere'"),
        ("--out {here}/out --repeat 0", "--repeat must be"),
        ("--out {here}/out --limit 0", "--limit must be"),
        ("--out {here}/out --max-new-tokens 0", "new tokens"),
        ("--out {here}/out --temperature -1", "emperature"),
        ("--out {here}/out --methods ./nowhere", "nowhere"),
        ("--out {here}/out --tree 5-4", "5-4"),
        ("--link lan", "--out FILE.json"),
        ("--link lan --out {here}", "--out FILE.json"),
        ("--link lan --link lan --out {here}/out.json", "lan twice"),
        ("--link lan --out {here}/out.json --methods ngram", "there is no ngram"),
        ("--link lan --out {here}/out.json --tree auto", "all share a tree"),
        ("--link lan --out {here}/out.json --offline", "Choose one of"),
        ("--offline", "--out FILE.json"),
        ("--offline --out {here}/out.json --temperature 1", "leave out --tree, --temperature"),
        ("--offline --out {here}/out.json --tree 5-4-11", "leave out --tree, --temperature"),
        ("--offline --out {here}/out.json --ignore-eos", "leave out --tree, --temperature"),
        ("--offline --out {here}/out.csv", "--out FILE.json"),
        ("--forced", "--out FILE.json"),
        ("--forced --out {here}/out.json --tree 5-4-11", "leave out --tree, --temperature"),
        ("--offline --out {here}/out.json --methods ,", "at least one"),
        ("--offline --out {here}/out.json --methods ngram", "ngram cannot write"),
        (
            "--offline --out {here}/out.json --limit 1 --max-new-tokens 9999",
            "no room for so long an answer",
        ),
    ],
    f"train drafters {TRAIN}": [
        ("--row-length 200", "fill 1 row of 200 tokens, and an update takes 8. Give --rows 1, a"),
        ("--row-length 64 --accumulate 3", "--rows, 8, cannot be taken in 3 equal parts"),
        ("--methods magic", "Unknown method 'magic'"),
        ("--methods moa-n0,moa-n0", "--methods names moa-n0 twice."),
        ("--prompts /nowhere/at/all", "/nowhere/at/all cannot be read: [Errno 2] No such file"),
        ("--row-length 1", "--row-length must be a finite number, at least 2."),
        ("--row-length 9999", "Rows of 9999 tokens are longer than tiny can read: give a"),
        ("--minutes 0", "--minutes must be a finite number, above 0."),
        ("--seed 2147483648", "--seed must be below 2,147,483,648."),
        ("--minutes 1", "give either --updates or --minutes."),
        ("--rate nan", "--rate must be a finite number, above 0."),
        ("--block 6", "--block 6 is not from-to in tokens, as in 6-14."),
        ("--block 9-3", "--block 9-3 is not from-to"),
        ("--start {here}/empty", "moa-n0 in {here}/empty to go on from: --start names the folder"),
    ],
    "export --target {parity}/target --drafter {parity}/moa_n0": [
        ("--to {here}/out --drafter ngram", "ngram has no files of its own"),
        ("--to {here}/out --drafter /nowhere", "There is no folder"),
        ("--to {here}/two.jsonl", "is a file"),
        ("--to {here}", "is not empty"),
        ("--to {here}/{long}", "cannot be written to: [Errno 36]"),
    ],
}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mistakes")
    (folder / "two.jsonl").write_text('{"prompt": "The fox ran"}\n{"prompt": "What is 3 +"}\n')
    (folder / "empty").mkdir()
    return folder


@pytest.mark.parametrize(
    ("command", "words", "told"),
    [(command, *row) for command, rows in MISTAKES.items() for row in rows],
    ids=lambda words: words[:60],
)
@pytest.mark.usefixtures("bundle")
def test_a_mistake_gets_one_sentence(here, tmp_path, command, words, told, capsys, monkeypatch):
    monkeypatch.delenv("MOA_TOKEN", raising=False)
    places = {"here": here, "out": tmp_path / "out", "parity": FOLDER, "long": "x" * 300}
    before = sorted(here.rglob("*"))
    assert main(shlex.split(f"{command} {words}".format(**places))) == 2
    captured = capsys.readouterr()
    *more, last = captured.err.splitlines()
    assert last.startswith("error: ") and told.format(**places) in last
    # Training tells of loading; how much text there is, it knows only once that is written.
    assert command.startswith("train") or (captured.out == "" and not more), captured.err
    assert "answers:" not in captured.err or "fill 1 row" in last or "be read" in last
    assert sorted(here.rglob("*")) == before
