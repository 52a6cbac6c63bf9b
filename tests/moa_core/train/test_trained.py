"""What training leaves: a target and drafters that load, decode, and are accepted more."""

import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from safetensors.torch import load_file

from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Trace
from moa_core.decoding.tree import TreeSettings
from moa_core.errors import UserError
from moa_core.loading.checkpoints import load_drafter, load_target
from moa_core.loading.formats import save_drafter
from moa_core.model.target import Target
from moa_core.text import prompt_ids
from moa_core.train.batches import Batch, same_document
from moa_core.train.drafters import Plan, _Lessons, train_drafters
from moa_core.train.init import fresh
from moa_core.train.loop import Schedule
from moa_core.train.losses import Weights
from moa_core.train.target import TargetSizes, train_target
from tests.models import plain_greedy, save_bundle, speaking_target, tiny_target, useful

METHODS = ("moa-n0", "moa-n1", "eagle2")


@pytest.mark.usefixtures("threads")
def test_a_trained_target_is_a_folder_that_decodes(data: Path, tmp_path: Path) -> None:
    sizes = TargetSizes(layers=2, width=32, heads=4, kv_heads=2, inner=48, vocabulary=280)
    schedule = Schedule(60, {"": 1e-2}, warmup=4)
    train_target(
        data, tmp_path / "out", schedule, sizes=sizes, rows=4, tasks=6, row_length=48,
        workers=1, accelerator=Accelerator(cpu=True),
    )  # fmt: skip
    lines = (tmp_path / "out" / "run" / "log.jsonl").read_text().splitlines()
    losses = [json.loads(line)["target"]["loss"] for line in lines]
    assert losses[-1] < losses[0] < 0.6 * math.log(280)
    about = json.loads((tmp_path / "out" / "training.json").read_text())
    assert about["schedule"]["updates"] == about["updates"] == 60 and about["rows"] == 4
    target = load_target(str(tmp_path / "out"))
    assert target.eos_ids == (target.tokenizer.eos_token_id,)
    prompt = prompt_ids(target.tokenizer, "What is 3 + 4?")
    settings = Settings(12, eos_ids=target.eos_ids)
    trace = Trace(events=list(decode(target, useful("moa-n1", target), prompt, settings)))
    assert trace.output_ids == plain_greedy(target, prompt, 12)


def tau(target: Target, drafter: Any) -> float:
    """Mean acceptance length of a chain on a few of the data's questions."""
    lengths = []
    for number in range(6):
        prompt = prompt_ids(target.tokenizer, f"What is {number} + 4?")
        run = decode(target, drafter, prompt, Settings(24, TreeSettings(4, 1, 4)))
        lengths += Trace(events=list(run)).accepted_lengths
    return sum(lengths) / len(lengths)


@pytest.mark.usefixtures("threads")
def test_drafters_go_on_from_others_with_other_losses(data: Path, tmp_path: Path) -> None:
    """At a rate of nothing the weights are those they began with; else they are not."""
    target, begun = speaking_target(), tmp_path / "begun"
    for name in METHODS:
        about = {"training": {"updates": 7, "start": None}, "commit": "abc"}
        save_drafter(begun / name, useful(name, target), target, about, torch.float32)
    for rate in (0.0, 1e-3):
        out = tmp_path / f"out {rate}"
        plan = Plan(METHODS, rows=2, row_length=48, tasks=6, weights=Weights(1, 0), start=begun)
        train_drafters(
            target, data, data.parent / "tokenizer", out, Schedule(2, {"": rate}, warmup=1), plan,
            workers=1, accelerator=Accelerator(cpu=True),
        )  # fmt: skip
        for name in METHODS:
            before, after = (load_file(each / name / "model.safetensors") for each in (begun, out))
            same = [torch.equal(before[key].bfloat16(), after[key]) for key in before]
            assert all(same) if rate == 0 else not all(same), name
            training = json.loads((out / name / "config.json").read_text())["drafter"]["training"]
            assert training["start"] == {"updates": 7, "start": None, "commit": "abc"}


@pytest.mark.parametrize("start", [None, Path("begun")])
def test_sa_is_narrowed_to_its_block_at_the_start_of_new_drafters_alone(start: Path | None) -> None:
    ids = torch.randint(0, 60, (2, 40), generator=torch.Generator().manual_seed(0))
    places = torch.arange(40).expand(2, -1)
    batch = Batch(ids, places >= 6, torch.zeros_like(ids), places)
    lessons = _Lessons(tiny_target(), [], Plan(rows=2, start=start), SimpleNamespace(updates=100))
    _, (masks,) = lessons(batch, 0)
    assert torch.equal(masks.sa, same_document(batch.segment)) is (start is not None)


def test_drafters_to_go_on_from_that_are_not_there_get_a_sentence(
    data: Path, tmp_path: Path
) -> None:
    plan = Plan(("moa-n0",), rows=2, row_length=48, start=tmp_path / "none")
    with pytest.raises(UserError, match=r"There is no moa-n0 in .*none to go on from"):
        train_drafters(
            speaking_target(), data, data.parent / "tokenizer", tmp_path / "out",
            Schedule(2, {"": 1e-3}), plan, accelerator=Accelerator(cpu=True),
        )  # fmt: skip


@pytest.mark.usefixtures("threads")
def test_training_on_the_targets_text_leaves_loadable_drafters_that_are_accepted_more(
    data: Path, tmp_path: Path
) -> None:
    target, out = speaking_target(), tmp_path / "out"
    plan = Plan(METHODS, rows=4, row_length=64, tasks=6, own_tokens=4000, draws=2, block=(3, 6))
    train_drafters(
        target, data, data.parent / "tokenizer", out, Schedule(80, {"": 5e-3}, warmup=5), plan,
        workers=1, accelerator=Accelerator(cpu=True),
    )  # fmt: skip
    for name in METHODS:
        config = json.loads((out / name / "config.json").read_text())["drafter"]
        assert config["training"]["updates"] == 80 and config["parameters"] > 0
        trained = load_drafter(str(out / name), target)
        assert tau(target, trained) > tau(target, fresh(name, target, 0)) + 0.1, name


@pytest.mark.slow
def test_a_process_that_is_killed_and_started_again_leaves_the_same_drafters(
    data: Path, tmp_path: Path
) -> None:
    """The real thing: SIGKILL, spawned workers, the command line."""
    save_bundle(tmp_path / "bundle")
    environment = {
        **os.environ, "MOA_MODELS": str(tmp_path / "bundle"), "OMP_NUM_THREADS": "1",
    }  # fmt: skip

    def started(out: str) -> subprocess.Popen[bytes]:
        command = [
            sys.executable, "-m", "moa_core", "train", "drafters", "--data", str(data),
            "--out", str(tmp_path / out), "--updates", "3000", "--rows", "2", "--row-length",
            "48", "--tasks", "6", "--methods", "moa-n1,eagle2", "--workers", "1", "--device",
            "cpu", "--precision", "no", "--save-every", "5",
        ]  # fmt: skip
        where = Path(__file__).parents[3]
        return subprocess.Popen(command, env=environment, cwd=where, stderr=subprocess.DEVNULL)

    straight = started("straight")
    killed = started("killed")
    checkpoint = tmp_path / "killed" / "run" / "checkpoint.pt"
    deadline = time.monotonic() + 300
    while not checkpoint.exists() and killed.poll() is None and time.monotonic() < deadline:
        time.sleep(0.2)
    assert checkpoint.exists() and killed.poll() is None, "it ended before it could be killed"
    killed.send_signal(signal.SIGKILL)
    killed.wait(timeout=30)
    saved = torch.load(checkpoint, weights_only=True)["update"]
    assert 0 < saved < 3000
    assert started("killed").wait(timeout=900) == straight.wait(timeout=900) == 0
    for name in ("moa-n1", "eagle2"):
        one, other = (
            load_file(tmp_path / out / name / "model.safetensors") for out in ("straight", "killed")
        )
        assert all(torch.equal(one[key], other[key]) for key in one)
