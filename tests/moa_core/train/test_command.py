"""`python -m moa_core train`: it lets the target answer prompts, and trains drafters on that."""

import json
import re
import shlex
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch

from moa_core.__main__ import main
from moa_core.loading.load import load_drafter, load_target
from moa_core.model.target import Target
from moa_core.text import prompt_ids
from moa_core.train.loop import TrainingRun
from tests.moa_core.train.conftest import logged
from tests.models import (
    chatml_tokenizer,
    gap_to,
    plain_greedy,
    save_target,
    speaking_target,
    traced,
)


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """A command that trains for a Qwen-like target."""
    prompts = tmp_path / "my prompts.jsonl"
    prompts.write_text("\n".join(json.dumps({"prompt": f"What is {n} + 4?"}) for n in range(60)))
    sizes = {"hidden_size": 64, "intermediate_size": 128}  # what 4 bits can be had of
    target = speaking_target(chatml_tokenizer(), family="qwen2", **sizes)
    save_target(tmp_path / "target", target)
    return [
        "train", "drafters", "--target", str(tmp_path / "target"),
        "--prompts", str(prompts), "--own-tokens", "2000", "--workers", "1",
        "--out", str(tmp_path / "out"),
        "--rows", "4", "--row-length", "96", "--methods", "moa-n0,moa-n1", "--rate", "3e-3",
        "--warmup", "2", "--device", "cpu",
    ]  # fmt: skip


def test_prompts_train_a_foreign_targets_drafters_and_the_command_it_prints_works(
    command, tmp_path, capsys
):
    out = tmp_path / "out"
    command += ["--updates", "6", "--precision", "no", "--accumulate", "2"]
    assert main([*command, "--stop-at", "2", "--workers", "2"]) == 0
    found = re.match(r"Training on ([\d,]+) tokens of the target's own", capsys.readouterr().out)
    assert found and int(found[1].replace(",", "")) >= 2000
    saved = torch.load(out / "run" / "checkpoint.pt", weights_only=True)
    assert saved["update"] == 2 and saved["place"] == (0, 8)
    assert main(command) == 0
    losses = [line["moa-n1"]["loss"] for line in logged(out)]
    assert len(losses) == 6 and losses[-1] < losses[0]
    told = capsys.readouterr().out
    assert f"Trained: {out}/moa-n0, {out}/moa-n1. " in told
    generate = shlex.split(told.splitlines()[-1])
    assert generate[:4] == ["python", "-m", "moa_core", "generate"]
    assert main([*generate[3:], "--max-new-tokens", "4"]) == 0 and capsys.readouterr().out
    target = load_target(str(tmp_path / "target"), device="cpu")
    for _, expected, found in drafted(target, out):
        assert found == expected


@pytest.mark.parametrize("words", ["--precision bf16 --updates 1", "--precision no --load-in-4bit"])
def test_drafters_are_trained_in_few_bits(command, tmp_path, words):
    bits = 4 if "4bit" in words else None
    if bits and find_spec("bitsandbytes") is None:
        pytest.skip("bitsandbytes is not installed")
    assert main([*command, "--updates", "2", *words.split()]) == 0
    target = load_target(str(tmp_path / "target"), "float32", "cpu", bits=bits)
    for prompt, expected, found in drafted(target, tmp_path / "out"):
        gap = gap_to(target, prompt, found, expected)
        assert gap is None or (bits and abs(gap) < 1e-3)


def drafted(target: Target, out: Path) -> Iterator[tuple[list[int], list[int], list[int]]]:
    prompt = prompt_ids(target.tokenizer, "What is 3 + 4?")
    expected = plain_greedy(target, prompt, 20)
    for name in ("moa-n0", "moa-n1"):
        drafter = load_drafter(str(out / name), target)
        trace = traced(target, drafter, prompt, max_new_tokens=20, eos_ids=target.eos_ids)
        yield prompt, expected, trace.output_ids


def test_ctrl_c_ends_in_a_line_that_says_where_it_goes_on(command, tmp_path, capsys, monkeypatch):
    advance = TrainingRun._advance

    def interrupted(self: TrainingRun, *given: Any) -> Any:
        if self.update == 2:
            raise KeyboardInterrupt
        return advance(self, *given)

    monkeypatch.setattr(TrainingRun, "_advance", interrupted)
    assert main([*command, "--updates", "4", "--save-every", "0"]) == 130
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == "Stopped; the same command goes on from update 2."
