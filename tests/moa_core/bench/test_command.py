"""The whole command on a tiny random bundle: files, table, resuming, and mistakes in a sentence."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from moa_core.__main__ import main
from moa_core.decoding.tree import AUTO

ROOT = Path(__file__).parents[3]


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    path = tmp_path / "two.jsonl"
    rows = [
        {"kind": kind, "prompt": f"{text} {at}"}
        for at in range(2)
        for kind, text in (("stories", "The fox ran"), ("sums", "What is 3 +"))
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def command(suite: Path, out: Path, *more: str) -> list[str]:
    short = ["--max-new-tokens", "16", "--repeat", "2", "--device", "cpu", "--ignore-eos"]
    return ["bench", "--suite", str(suite), "--out", str(out), *short, *more]


def test_a_whole_benchmark(
    bundle: Path, suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "out"
    methods = ("--methods", "vanilla,eagle2,moa-n1,hf-generate")
    assert main(command(suite, out, *methods)) == 0
    printed = capsys.readouterr().out
    results = json.loads((out / "results.json").read_text())
    assert list(results["methods"]) == ["vanilla", "eagle2", "moa-n1", "hf-generate"]
    assert len(results["runs"]) == 4 * 2 * 4 and results["methods"]["vanilla"]["tau"] == 1
    for found in results["methods"].values():
        assert found["identical_to_vanilla"] == 1.0 and found["new_tokens"] == 64
        assert set(found["kinds"]) == {"stories", "sums"} and found["tokens_per_second"] > 0
    moa = results["methods"]["moa-n1"]
    assert moa["tli"] == 1 and moa["tree"] == AUTO.as_dict()
    assert moa["drafts_per_cycle"] > 0 and f"auto ({moa['drafts_per_cycle']:.1f})" in printed
    assert moa["trainable_parameters"] > 1000 and len(moa["acceptance_by_position"]) >= 1
    assert results["machine"]["device"] == "cpu" and results["versions"]["torch"]
    assert "not counted" in results["warm_up"]
    assert results["command"] == (
        "python -m moa_core bench --suite two.jsonl --out out --max-new-tokens 16 --repeat 2 "
        "--device cpu --ignore-eos --methods vanilla,eagle2,moa-n1,hf-generate"
    )
    assert results["suite"] == "two.jsonl"
    assert str(tmp_path) not in (out / "summary.json").read_text()
    with (out / "acceptance.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["method"] for row in rows} == {"eagle2", "moa-n1"}
    assert printed.splitlines()[0].startswith("method") and str(out / "summary.json") in printed

    # The same command again runs nothing; the figures are the same.
    before = (out / "runs.jsonl").read_bytes()
    assert main(command(suite, out, *methods)) == 0
    assert (out / "runs.jsonl").read_bytes() == before
    again = json.loads((out / "results.json").read_text())
    assert again["methods"] == results["methods"]

    assert main(command(suite, out, *methods, "--seed", "1")) == 2
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert "seed was 0 and is now 1" in error and "--out" in error


def test_each_at_its_best_tree(bundle: Path, suite: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    more = ("--methods", "moa-n0", "--tree", "best", "--grid", "2-1-2,3-2-6,auto", "--limit", "1")
    assert main(command(suite, out, *more, "--temperature", "0.7")) == 0
    results = json.loads((out / "results.json").read_text())
    kept = json.loads((out / "trees.json").read_text())
    assert results["methods"]["moa-n0"]["tree"] == kept["trees"]["moa-n0"]
    assert set(kept["decode_tokens_per_second"]) == {
        f"moa-n0@{tree}" for tree in ("2-1-2", "3-2-6", "auto")
    }
    assert len(results["runs"]) == 2 * 2
    assert results["methods"]["moa-n0"]["identical_to_vanilla"] is None


BAD = {
    "no folder for the results": ["--methods", "vanilla"],
    "a file for the results": ["--out", "{suite}"],
    "an unknown suite": ["--out", "{out}", "--suite", "nowhere"],
    "a suite of bad lines": ["--out", "{out}", "--suite", "{bad}"],
    "no repeats": ["--out", "{out}", "--repeat", "0"],
    "no prompts": ["--out", "{out}", "--limit", "0"],
    "no threads": ["--out", "{out}", "--threads", "0"],
    "no new tokens": ["--out", "{out}", "--max-new-tokens", "0"],
    "a negative temperature": ["--out", "{out}", "--temperature", "-1"],
    "an unknown method": ["--out", "{out}", "--methods", "./nowhere"],
    "a method twice": ["--out", "{out}", "--methods", "moa-n0,moa-n0"],
    "no independent model": ["--out", "{out}", "--methods", "hf-assisted"],
    "no tree": ["--out", "{out}", "--tree", "5-4"],
    "a grid for one tree": ["--out", "{out}", "--grid", "5-4-12"],
    "no data for a suite": ["--make-suite", "/nowhere"],
}


@pytest.mark.parametrize("mistake", BAD)
def test_a_mistake_is_told_in_one_sentence(
    bundle: Path, suite: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], mistake: str
) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text("nonsense\n")
    places = {"{suite}": str(suite), "{out}": str(tmp_path / "out"), "{bad}": str(bad)}
    given = [places.get(part, part) for part in BAD[mistake]]
    code = main(["bench", "--suite", str(suite), *given])
    captured = capsys.readouterr()
    assert code == 2 and captured.out == ""
    lines = captured.err.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: ") and len(lines[0]) > 30
    assert not (tmp_path / "out" / "runs.jsonl").exists()


def test_help_needs_no_torch() -> None:
    code = (
        "import sys\nfrom moa_core.__main__ import main\n"
        "try:\n    main(['bench', '--help'])\nexcept SystemExit:\n    pass\n"
        "assert 'torch' not in sys.modules and 'plotly' not in sys.modules"
    )
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, env=environment,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "--make-suite" in done.stdout
