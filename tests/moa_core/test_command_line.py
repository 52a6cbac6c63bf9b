"""The command line: text or JSON, or exit code 2 and one sentence; how many threads decode."""

import json
import os
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path
from unittest.mock import Mock

import pytest

from moa_core.__main__ import main
from moa_core.decoding.trace import Drafted, Trace
from moa_core.decoding.tree import AUTO, TreeSettings
from moa_core.loading.load import load_target
from moa_core.text import prompt_ids
from tests.models import plain_greedy

ROOT = Path(__file__).parents[2]
KEYS = {
    "output_ids", "text", "accepted_lengths", "target_calls", "tau", "seconds", "reason",
    "tokens_per_second", "decode_tokens_per_second",
}  # fmt: skip
SHORT = ("--max-new-tokens", "12", "--ignore-eos")
FOX = ("--prompt", "The fox", *SHORT, "--tree", "own")  # a sized tree depends on the machine


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    code = main(["generate", *arguments])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return captured.out


def expected(prompt: list[int] | None = None) -> list[int]:
    target = load_target()
    target.eos_ids = ()
    return plain_greedy(target, prompt or prompt_ids(target.tokenizer, "The fox"), 12)


@pytest.mark.parametrize("drafter", ["none", "moa-n0", "moa-n1", "eagle2", None])
def test_json_holds_the_targets_own_text_and_its_figures(bundle, capsys, drafter):
    named = () if drafter is None else ("--drafter", drafter)
    report = json.loads(run(capsys, "--prompt", "The fox", *SHORT, *named, "--json"))
    assert set(report) >= KEYS and report["reason"] == "length"
    assert report["output_ids"] == expected()
    assert report["text"] == load_target().tokenizer.decode(
        report["output_ids"], skip_special_tokens=True
    )


def test_text_is_printed_as_it_is_decoded_and_then_its_figures(bundle, capsys, monkeypatch):
    report = json.loads(run(capsys, *FOX, "--json"))
    printed = run(capsys, *FOX)
    assert printed.startswith(report["text"]) and "12 tokens, " in printed
    assert f"τ {report['tau']:.2f} tokens per target call" in printed
    speed = r"tokens/s, prompt included \([\d.]+ while decoding\), drafts in int8, ended by leng"
    assert re.search(speed, printed)
    one = run(capsys, *FOX, "--max-new-tokens", "1")
    assert one.endswith("\n1 token, 1 target call, drafts in int8, ended by length\n")
    seen: list[str] = []

    class Screen(StringIO):
        def flush(self) -> None:
            seen.append(self.getvalue())

    monkeypatch.setattr(sys, "stdout", Screen())
    assert main(["generate", *FOX]) == 0
    assert len(seen) == report["target_calls"] + 1  # one for each, and the end of the text
    assert seen[0] != seen[1] and seen[-1] == report["text"]


def test_ids_may_stand_in_for_a_prompt_also_without_a_tokenizer(bundle, tmp_path, capsys):
    report = json.loads(run(capsys, "--prompt-ids", "5, 9,33", *SHORT, "--json"))
    assert report["output_ids"] == expected([5, 9, 33])
    load_target().model.save_pretrained(tmp_path)
    bare = ("--target", str(tmp_path), "--drafter", "none", *SHORT, "--json")
    report = json.loads(run(capsys, *bare, "--prompt-ids", "5,9,33"))
    assert report["output_ids"] == expected([5, 9, 33]) and report["text"] is None
    assert main(["generate", *bare, "--prompt", "The fox"]) == 2
    assert "has no tokenizer: give --prompt-ids" in capsys.readouterr().err


def test_a_trace_loads_back_with_how_it_was_made(bundle, capsys, tmp_path):
    path = tmp_path / "trace.json"
    tree = ("--tree", "2-3-5")
    options = ("--temperature", "0.7", "--top-p", "0.9", "--top-k", "20", "--seed", "3", "--raw")
    words = ("--prompt", "The fox", *SHORT, *tree, *options, "--trace", str(path), "--json")
    report = json.loads(run(capsys, *words))
    trace = Trace.from_json(path.read_text(encoding="utf-8"))
    assert all(report[name] == getattr(trace, name) for name in KEYS - {"text"})
    assert trace.about["target"] == "tiny" and trace.about["drafter"] == "moa-n0"
    settings = trace.about["settings"]
    assert settings["tree"] == {"depth": 2, "breadth": 3, "budget": 5}
    assert settings["sampling"] == {"temperature": 0.7, "top_p": 0.9, "top_k": 20, "seed": 3}
    assert trace.about["machine"]["dtype"] == "float32"
    assert max(len(event.tree) for event in trace.of(Drafted)) == 6
    raw = load_target().tokenizer("The fox")["input_ids"]
    assert list(trace.events[0].prompt_ids) == raw


def test_trees_are_sized_automatically_unless_one_is_named(bundle, capsys, tmp_path):
    path = tmp_path / "trace.json"
    for words, tree in (FOX[:-2], AUTO), (FOX, TreeSettings(3, 2, 6)):
        run(capsys, *words, "--trace", str(path))
        trace = Trace.from_json(path.read_text())
        assert TreeSettings(**trace.about["settings"]["tree"]) == tree
        assert trace.output_ids == expected()


X = ("--prompt", "x")
OWN = """
import sys
import moa_core
assert "torch" not in sys.modules
import moa_core.decoding.decode, moa_core.commands.generate
from moa_core import decode, generate
from moa_core.decoding.decode import decode as same
assert decode is same is moa_core.decode and callable(generate)
from moa_core.__main__ import main
sys.exit(main())
"""


def test_it_runs_as_a_process_of_its_own(saved_bundle):
    """`import moa_core` is quick, and its names come when they are used."""
    words = ("generate", "--prompt-ids", "5,9,33", *SHORT, "--json")
    command = [sys.executable, "-c", OWN, *words]
    environment = {**os.environ, "MOA_MODELS": str(saved_bundle), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=240, cwd=ROOT
    )
    assert done.returncode == 0 and done.stderr == "", done.stderr
    assert set(json.loads(done.stdout)) >= KEYS


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (KeyboardInterrupt(), 130, "stopped\n"),
        (
            ModuleNotFoundError("No module", name="websockets.sync"), 2,
            "error: this needs websockets: pip install websockets\n",
        ),
        (ModuleNotFoundError("No module", name="typing_of_ours"), None, ""),
        (
            PermissionError(13, "Permission denied", "/theirs/a"), 2,
            "error: /theirs/a cannot be read or written: Permission denied.\n",
        ),
        (
            OSError(28, "No space left on device"), 2,
            "error: A file cannot be read or written: No space left on device.\n",
        ),
        (ConnectionError(111, "Connection refused"), None, ""),
    ],
)  # fmt: skip
def test_what_ends_a_command_is_said_in_a_line(capsys, monkeypatch, error, code, words):
    monkeypatch.setattr("moa_core.commands.generate.run", Mock(side_effect=error))
    if code is None:
        with pytest.raises(type(error)):
            main(["generate", *X])
    else:
        assert main(["generate", *X]) == code
    assert capsys.readouterr().err == words


def test_a_reader_that_goes_away_is_no_error_to_report(tmp_path, capsys, monkeypatch):
    """As in `python -m moa_core generate ... | head -1`."""
    monkeypatch.setattr("moa_core.commands.generate.run", Mock(side_effect=BrokenPipeError))
    with (tmp_path / "pipe").open("w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert main(["generate", *X]) == 1
        print("to nobody", flush=True)  # as at the end of the process: no second error
    assert (tmp_path / "pipe").read_text() == "" and capsys.readouterr().err == ""


HELP = """
import contextlib, io, sys
from moa_core.__main__ import main
for words in (["--help"], *([command, "--help"] for command in sys.argv[1:])):
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):
        main(words)
    assert "usage:" in out.getvalue(), words
heavy = {"torch", "transformers", "numpy", "gradio", "pandas", "plotly", "accelerate"}
print(sorted(heavy & set(sys.modules)))
"""


def test_help_of_every_command_imports_nothing_heavy():
    files = (ROOT / "moa_core" / "commands").glob("*.py")
    commands = sorted(path.stem for path in files if path.stem != "__init__")
    assert {"bench", "generate", "serve", "train"} <= set(commands)
    done = subprocess.run(
        [sys.executable, "-c", HELP, *commands], cwd=ROOT, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]", done.stderr
