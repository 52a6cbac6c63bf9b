"""The command line: text or JSON when all is well, else exit code 2 and one sentence."""

import json
import os
import re
import subprocess
import sys
import tomllib
from io import StringIO
from pathlib import Path
from unittest.mock import Mock

import pytest

from moa_core.__main__ import EXTRAS, main
from moa_core.decoding.trace import Drafted, Trace
from moa_core.decoding.tree import AUTO, TreeSettings
from moa_core.loading.checkpoints import load_target
from moa_core.text import prompt_ids
from tests.models import plain_greedy

ROOT = Path(__file__).parents[2]
KEYS = {
    "output_ids", "text", "accepted_lengths", "target_calls", "tau", "seconds", "reason",
}  # fmt: skip
SHORT = ("--max-new-tokens", "12", "--ignore-eos")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What a good command prints."""
    code = main(["generate", *arguments])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return captured.out


@pytest.mark.parametrize("drafter", ["none", "moa-n0", "moa-n1", "eagle2", None])
def test_json_tells_the_targets_own_text(
    bundle: Path, capsys: pytest.CaptureFixture[str], drafter: str | None
) -> None:
    named = () if drafter is None else ("--drafter", drafter)
    report = json.loads(run(capsys, "--prompt", "The fox", *SHORT, *named, "--json"))
    assert set(report) >= KEYS
    target = load_target()
    target.eos_ids = ()
    ids = plain_greedy(target, prompt_ids(target.tokenizer, "The fox"), 12)
    assert report["output_ids"] == ids
    assert report["text"] == target.tokenizer.decode(ids, skip_special_tokens=True)
    lengths = report["accepted_lengths"]
    assert sum(lengths) >= 11 and report["target_calls"] == len(lengths) + 1
    assert report["tau"] == pytest.approx(sum(lengths) / len(lengths))
    whole = sum(report["seconds"].values())
    assert report["tokens_per_second"] == pytest.approx(len(report["output_ids"]) / whole)
    after = (len(report["output_ids"]) - 1) / (whole - report["seconds"]["prefill"])
    assert report["decode_tokens_per_second"] == pytest.approx(after)
    assert report["reason"] == "length"
    assert set(report["seconds"]) == {"prefill", "draft", "verify", "network", "other"}


def test_the_plain_report_gives_text_and_the_definition(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tree = ("--tree", "own")  # a sized one depends on the machine
    report = json.loads(run(capsys, "--prompt", "The fox", *SHORT, *tree, "--json"))
    printed = run(capsys, "--prompt", "The fox", *SHORT, *tree)
    assert printed.startswith(report["text"])
    assert f"acceptance length {report['tau']:.2f} (tokens gained per target forward" in printed
    assert re.search(
        r"tokens/s, prompt included \([\d.]+ while decoding\), drafts in float32, ended", printed
    )
    assert "12 tokens, " in printed and "ended by length" in printed


def test_text_is_printed_as_it_is_decoded(
    bundle: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = ("--tree", "own")  # a sized one depends on the machine
    report = json.loads(run(capsys, "--prompt", "The fox", *SHORT, *tree, "--json"))
    seen: list[str] = []

    class Screen(StringIO):
        def flush(self) -> None:
            seen.append(self.getvalue())

    monkeypatch.setattr(sys, "stdout", Screen())
    assert main(["generate", "--prompt", "The fox", *SHORT, *tree]) == 0
    assert len(seen) == report["target_calls"] + 1  # one for each, and the end of the text
    assert seen[0] != seen[1] and seen[-1] == report["text"]


def test_a_stop_string_ends_the_text_before_it(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = json.loads(run(capsys, "--prompt", "The fox", *SHORT, "--json"))["text"]
    stop = whole[len(whole) // 2 :][:3]
    words = ("--stop", "never there", "--stop", stop)
    report = json.loads(run(capsys, "--prompt", "The fox", *SHORT, *words, "--json"))
    assert report["text"] == whole[: whole.index(stop)] and report["reason"] == "stop"
    assert run(capsys, "--prompt", "The fox", *SHORT, *words).endswith("ended by stop\n")


def test_a_report_on_one_token_has_no_acceptance_length(
    bundle: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = run(capsys, "--prompt", "The fox", "--max-new-tokens", "1", "--ignore-eos")
    assert printed.endswith("\n1 token, 1 target call, drafts in float32, ended by length\n")


def test_ids_may_stand_in_for_a_prompt(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = json.loads(run(capsys, "--prompt-ids", "5, 9,33", *SHORT, "--json"))
    target = load_target()
    target.eos_ids = ()
    assert report["output_ids"] == plain_greedy(target, [5, 9, 33], 12)


def test_raw_text_is_not_put_into_the_template(
    bundle: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "trace.json"
    run(capsys, "--prompt", "The fox", "--raw", *SHORT, "--trace", str(path))
    prefilled = Trace.from_json(path.read_text()).events[0]
    target = load_target()
    assert list(prefilled.prompt_ids) == target.tokenizer("The fox")["input_ids"]


def test_a_trace_loads_back_with_how_it_was_made(
    bundle: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "trace.json"
    tree = ("--depth", "2", "--breadth", "3", "--budget", "5")
    options = ("--temperature", "0.7", "--top-p", "0.9", "--top-k", "20", "--seed", "3")
    printed = run(capsys, "--prompt", "Hi", *SHORT, *tree, *options, "--trace", str(path), "--json")
    trace = Trace.from_json(path.read_text(encoding="utf-8"))
    report = json.loads(printed)
    assert trace.output_ids == report["output_ids"] and trace.tau == report["tau"]
    assert trace.about["target"] == "tiny" and trace.about["drafter"] == "moa-n0"
    settings = trace.about["settings"]
    assert settings["tree"] == {"depth": 2, "breadth": 3, "budget": 5}
    assert settings["sampling"] == {"temperature": 0.7, "top_p": 0.9, "top_k": 20, "seed": 3}
    assert trace.about["machine"]["dtype"] == "float32"
    assert max(len(event.tree) for event in trace.of(Drafted)) == 6


def test_a_number_changes_the_drafters_own_tree(
    bundle: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "trace.json"
    run(capsys, "--prompt", "Hi", *SHORT, "--trace", str(path), "--budget", "4")
    settings = Trace.from_json(path.read_text()).about["settings"]
    assert settings["tree"] == {"depth": 3, "breadth": 2, "budget": 4}


def test_trees_are_sized_automatically_unless_one_is_named(
    bundle: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "trace.json"
    named = {"auto": AUTO, "own": TreeSettings(3, 2, 6), "4-1-4": TreeSettings(4, 1, 4)}
    texts = set()
    for words, expected in [
        ((), AUTO),
        *((("--tree", name), tree) for name, tree in named.items()),
    ]:
        texts.add(
            run(capsys, "--prompt", "Hi", *SHORT, *words, "--trace", str(path)).split("\n\n")[0]
        )
        settings = Trace.from_json(path.read_text()).about["settings"]
        assert TreeSettings(**settings["tree"]) == expected
    assert len(texts) == 1


BAD = {
    "no such folder": ("--target", "/nowhere", "--prompt", "x"),
    "a folder that is no model": ("--target", "{empty}", "--prompt", "x"),
    "no such drafter folder": ("--drafter", "./nowhere", "--prompt", "x"),
    "a drafter of another target": ("--drafter", "{other}", "--prompt", "x"),
    "an n nobody trained": ("--tli", "5", "--prompt", "x"),
    "a negative n": ("--tli", "-1", "--prompt", "x"),
    "another n than trained": ("--drafter", "moa-n1", "--tli", "0", "--prompt", "x"),
    "an n without a drafter": ("--drafter", "none", "--tli", "1", "--prompt", "x"),
    "an empty prompt": ("--prompt", ""),
    "a blank prompt": ("--prompt", " \n"),
    "a far too long prompt": ("--prompt", "x" * 60_000),
    "a prompt beyond the context": ("--prompt", "a b c d e " * 60),
    "no ids": ("--prompt-ids", ""),
    "ids that are words": ("--prompt-ids", "1,two,3"),
    "ids that are fractions": ("--prompt-ids", "1.5"),
    "an id out of range": ("--prompt-ids", "1,99999"),
    "a negative id": ("--prompt-ids=-4",),
    "no new tokens": ("--prompt", "x", "--max-new-tokens", "0"),
    "a tree without depth": ("--prompt", "x", "--depth", "0"),
    "no tree": ("--prompt", "x", "--tree", "5-4"),
    "a tree named twice": ("--prompt", "x", "--tree", "auto", "--depth", "3"),
    "a tree too wide": ("--prompt", "x", "--breadth", "65"),
    "a negative budget": ("--prompt", "x", "--budget", "-3"),
    "a negative temperature": ("--prompt", "x", "--temperature", "-1"),
    "a temperature that is no number": ("--prompt", "x", "--temperature", "nan"),
    "top-p of 0": ("--prompt", "x", "--top-p", "0"),
    "a negative top-k": ("--prompt", "x", "--top-k", "-1"),
    "an unknown dtype": ("--prompt", "x", "--dtype", "int3"),
    "an unknown device": ("--prompt", "x", "--device", "banana"),
    "an empty stop string": ("--prompt", "x", "--stop", ""),
    "a trace into no folder": ("--prompt", "x", "--trace", "/nowhere/trace.json"),
    "a trace onto a folder": ("--prompt", "x", "--trace", "{empty}", "--max-new-tokens", "2"),
}


@pytest.mark.parametrize("mistake", BAD)
def test_a_mistake_is_told_in_one_sentence(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], mistake: str
) -> None:
    (tmp_path / "empty").mkdir()
    other = tmp_path / "other"
    other.mkdir()
    config = json.loads((bundle / "moa-n0" / "config.json").read_text())
    config["drafter"]["target"]["shape"]["hidden size"] = 999
    (other / "config.json").write_text(json.dumps(config))
    (other / "model.safetensors").write_bytes((bundle / "moa-n0/model.safetensors").read_bytes())
    arguments = [part.replace("{empty}", str(tmp_path / "empty")) for part in BAD[mistake]]
    arguments = [part.replace("{other}", str(other)) for part in arguments]
    code = main(["generate", *arguments])
    captured = capsys.readouterr()
    assert code == 2 and captured.out == ""
    lines = captured.err.strip().splitlines()
    assert len(lines) == 1 and lines[0].startswith("error: "), captured.err
    assert len(lines[0]) > 20 and "Traceback" not in captured.err


@pytest.mark.parametrize(
    "arguments",
    [
        [], ["fly"], ["generate"], ["generate", "--prompt", "x", "--prompt-ids", "1"],
        ["generate", "--prompt", "x", "--depth", "deep"], ["generate", "--wings"], ["train"],
        ["train", "drafters"], ["train", "target", "--data", "x"],
    ],
)  # fmt: skip
def test_argparse_tells_what_is_missing(
    capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "error:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["target"], "either --updates or --minutes"),
        (["drafters", "--updates", "3", "--minutes", "1"], "either --updates or --minutes"),
        (["drafters", "--updates", "3", "--block", "9-2"], "--block 9-2 is no range"),
        (["drafters", "--updates", "3", "--block", "six"], "--block six is no range"),
        (["drafters", "--updates", "3", "--methods", "magic"], "Unknown method 'magic'"),
        (["target", "--updates", "3", "--shares", "plain"], "--shares plain is no list"),
    ],
)
def test_mistakes_in_training_are_told_before_it_begins(
    bundle: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    words: str,
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "a.txt").write_text("The fox ran home.")
    out = ["--data", str(tmp_path / "data"), "--out", str(tmp_path / "out")]
    code = main(["train", arguments[0], *out, "--device", "cpu", *arguments[1:]])
    captured = capsys.readouterr()
    assert code == 2 and words in captured.err
    assert len(captured.err.strip().splitlines()) == 1


@pytest.mark.parametrize(("ids", "code"), [("5,9,33", 0), ("five", 2)])
def test_it_runs_as_a_module_of_its_own(saved_bundle: Path, ids: str, code: int) -> None:
    command = [sys.executable, "-m", "moa_core", "generate", "--prompt-ids", ids, *SHORT, "--json"]
    environment = {**os.environ, "MOA_MODELS": str(saved_bundle), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, timeout=120,
        cwd=ROOT, check=False,
    )  # fmt: skip
    assert done.returncode == code
    if code:
        assert done.stdout == "" and "Traceback" not in done.stderr
        assert done.stderr.startswith("error: --prompt-ids must be whole numbers")
    else:
        assert set(json.loads(done.stdout)) >= KEYS
        assert done.stderr == ""


def test_a_command_that_is_interrupted_says_so_and_no_more(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("moa_core.commands.generate.run", interrupted)
    assert main(["generate", "--prompt", "The fox"]) == 130
    assert capsys.readouterr().err == "stopped\n"


def test_a_package_that_only_some_commands_need_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = [name for names in project["optional-dependencies"].values() for name in names]
    assert {name.partition(">")[0] for name in extras} == {*EXTRAS, "bitsandbytes"}
    for name, known in (("websockets.sync", True), ("typing_of_ours", False)):
        error = ModuleNotFoundError("No module", name=name)
        monkeypatch.setattr("moa_core.commands.generate.run", Mock(side_effect=error))
        if known:
            assert main(["generate", "--prompt", "The fox"]) == 2
            told = "error: this needs websockets: pip install websockets\n"
            assert capsys.readouterr().err == told
        else:
            with pytest.raises(ModuleNotFoundError):
                main(["generate", "--prompt", "The fox"])


def test_a_reader_that_goes_away_is_no_error_to_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in `python -m moa_core generate ... | head -1`."""

    def unread(options: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr("moa_core.commands.generate.run", unread)
    with (tmp_path / "pipe").open("w") as pipe:
        monkeypatch.setattr(sys, "stdout", pipe)
        assert main(["generate", "--prompt", "The fox"]) == 1
        print("to nobody", flush=True)  # as at the end of the process: no second error
    assert (tmp_path / "pipe").read_text() == "" and capsys.readouterr().err == ""


def test_a_target_without_a_tokenizer_needs_ids(
    bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    load_target().model.save_pretrained(tmp_path)
    words = ["generate", "--target", str(tmp_path), "--drafter", "none", *SHORT]
    assert main([*words, "--prompt", "The fox"]) == 2
    assert "has no tokenizer: give --prompt-ids" in capsys.readouterr().err
    assert main([*words, "--prompt-ids", "5,9"]) == 0


def test_a_server_and_a_target_are_one_too_many(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["generate", "--server", "ws://x:1", "--target", "y", "--prompt", "The fox"]
    assert main(words) == 2
    assert "name --target or --server, not both" in capsys.readouterr().err
