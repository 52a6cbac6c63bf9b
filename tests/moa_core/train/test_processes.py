"""Two processes learn what one does: real ones, started by accelerate, stopped and resumed.

About a minute: pytest -m slow tests/moa_core/train/test_processes.py
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tests.models import save_bundle, ultrachat

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[3]
METHODS = ("moa-n0", "moa-n1", "eagle2")
UPDATES = 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle, a data set, and in `one` what one process makes of them."""
    folder = tmp_path_factory.mktemp("processes")
    save_bundle(folder / "bundle")
    ultrachat(folder / "ultrachat", 80)
    trained(folder, "one", False)
    return folder


def trained(
    folder: Path,
    out: str,
    spread: bool,
    *more: str,
    methods: tuple[str, ...] = METHODS,
    **environment: str,
) -> None:
    """Train in a process, or in two that take their rows in two parts each."""
    command = [
        "train", "drafters", "--data", str(folder / "ultrachat"), "--out", str(folder / out),
        "--rows", "8", "--row-length", "64", "--methods", ",".join(methods), "--rate", "3e-3",
        "--warmup", "2", "--precision", "no", "--log-every", "1", "--watch-times", "0",
    ]  # fmt: skip
    if "--minutes" not in more:
        command += ["--updates", str(UPDATES)]
    start = [sys.executable, "-m", "moa_core"]
    if spread:
        start = [
            sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu",
            "--num_machines", "1", "--num_processes", "2", "--mixed_precision", "no",
            "--dynamo_backend", "no",
            "--main_process_port", "0", "tests/moa_core/train/launched.py",
        ]  # fmt: skip
        command += ["--accumulate", "2"]
    command += ["--device", "cpu"]
    settings = {
        **os.environ,
        "MOA_MODELS": str(folder / "bundle"),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
        "CUDA_VISIBLE_DEVICES": "",
        **environment,
    }
    done = subprocess.run(
        [*start, *command, *more], cwd=ROOT, env=settings, capture_output=True, text=True,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]


def log(folder: Path, out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / out / "run/log.jsonl").read_text().splitlines()]


def test_two_processes_learn_what_one_does_through_a_stop(folder: Path) -> None:
    trained(folder, "two", True, "--stop-at", "3")
    stopped = torch.load(folder / "two" / "run/checkpoint.pt", weights_only=True)
    assert stopped["update"] == 3
    trained(folder, "two", True)
    one, two = log(folder, "one"), log(folder, "two")
    assert [line["update"] for line in two] == list(range(1, UPDATES + 1))
    for ours, theirs in zip(one, two, strict=True):
        for name in METHODS:
            assert ours[name] == pytest.approx(theirs[name], abs=2e-5)
    places = [
        torch.load(folder / out / "run/checkpoint.pt", weights_only=True)["place"]
        for out in ("one", "two")
    ]
    assert places[0] == places[1]
    for name in METHODS:
        ours, theirs = (
            load_file(folder / out / name / "model.safetensors") for out in ("one", "two")
        )
        for key, weight in ours.items():  # written in bfloat16: a rounding apart at most
            torch.testing.assert_close(
                weight.float(), theirs[key].float(), atol=1e-4, rtol=1e-2, msg=key
            )


def test_a_run_goes_on_with_another_number_of_processes(folder: Path) -> None:
    trained(folder, "both", True, "--stop-at", "3")
    trained(folder, "both", False)
    one, other = (
        torch.load(folder / out / "run/checkpoint.pt", weights_only=True)["models"]
        for out in ("one", "both")
    )
    for name in METHODS:
        for key, weight in one[name].items():
            apart = (weight - other[name][key]).abs()  # Adam makes much of a gradient near zero
            assert apart.max() < 1e-4 and (apart > 1e-5).float().mean() < 0.01, key


@pytest.mark.parametrize("ahead", ["0", "1"])
def test_minutes_end_all_processes_at_one_update(folder: Path, ahead: str) -> None:
    """One clock runs four times as fast: alone each process would stop at an update of its own."""
    out = f"minutes-{ahead}"
    trained(folder, out, True, "--minutes", "0.1", methods=("moa-n0",), FAST_CLOCK=ahead)
    lines = log(folder, out)
    saved = torch.load(folder / out / "run/checkpoint.pt", weights_only=True)
    assert lines[-1]["update"] == saved["update"] == saved["updates"]
