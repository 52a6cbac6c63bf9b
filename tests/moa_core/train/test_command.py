"""`python -m moa_core train drafters` for a target and a data set in folders, as on the Hub."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from moa_core.__main__ import main
from moa_core.checkpoints import load_drafter, load_target
from moa_core.decode import Settings, decode
from moa_core.text import prompt_ids
from moa_core.trace import Trace
from moa_core.train import setup
from tests.models import (
    chatml_tokenizer,
    plain_greedy,
    save_target,
    speaking_target,
    ultrachat,
)


@pytest.fixture
def command(tmp_path: Path) -> list[str]:
    """A command that trains for a Qwen-like target on a data set of UltraChat's shape."""
    target = speaking_target(chatml_tokenizer(), family="qwen2")
    save_target(tmp_path / "target", target)
    ultrachat(tmp_path / "ultrachat", 60)
    return [
        "train", "drafters", "--target", str(tmp_path / "target"),
        "--data", str(tmp_path / "ultrachat"), "--out", str(tmp_path / "out"),
        "--rows", "4", "--row-length", "96", "--methods", "moa-n0,moa-n1", "--rate", "3e-3",
        "--warmup", "2", "--device", "cpu", "--log-every", "1", "--watch-times", "1",
    ]  # fmt: skip


@pytest.mark.parametrize("precision", ["no", "bf16"])
def test_a_data_set_trains_a_foreign_targets_drafters(
    command: list[str], tmp_path: Path, precision: str
) -> None:
    more = ["--updates", "6", "--precision", precision, "--accumulate", "2"]
    assert main([*command, *more, "--stop-at", "2"]) == 0
    saved = torch.load(tmp_path / "out/run/checkpoint.pt", weights_only=True)
    assert saved["update"] == 2 and saved["place"][:3] == (0, 0, 8)
    assert main([*command, *more]) == 0
    lines = [json.loads(line) for line in (tmp_path / "out/run/log.jsonl").read_text().splitlines()]
    losses = [line["moa-n1"]["loss"] for line in lines if "moa-n1" in line]
    assert len(losses) == 6 and losses[-1] < losses[0]
    measured = [line["measured"] for line in lines if "measured" in line]
    assert len(measured) == 1 and measured[0]["moa-n0"] >= 1
    target = load_target(str(tmp_path / "target"), device="cpu")
    prompt = prompt_ids(target.tokenizer, "What is 3 + 4?")
    for name in ("moa-n0", "moa-n1"):
        drafter = load_drafter(str(tmp_path / "out" / name), target)
        settings = Settings(20, eos_ids=target.eos_ids)
        trace = Trace(events=list(decode(target, drafter, prompt, settings)))
        assert trace.output_ids == plain_greedy(target, prompt, 20)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--target-dtype", "bfloat16", "--precision", "no"], "bfloat16 needs --precision bf16"),
        (["--accumulate", "0"], "must be at least 1"),
        (["--tensorboard"], "TensorBoard is not installed: pip install tensorboard, or leave out"),
        (["--data", "/nowhere/at/all"], "There is no folder /nowhere/at/all."),
    ],
)
def test_mistakes_are_a_sentence(
    command: list[str], more: list[str], words: str, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(setup, "is_tensorboard_available", lambda: False)
    assert main([*command, "--updates", "1", *more]) == 2
    assert words in capsys.readouterr().err


def test_tensorboard_gets_the_losses(command: list[str], tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    assert main([*command, "--updates", "3", "--tensorboard"]) == 0
    events = EventAccumulator(str(tmp_path / "out/tensorboard")).Reload()
    assert len(events.Scalars("moa-n1/loss")) == 3
