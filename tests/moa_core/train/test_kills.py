"""Training that is killed again and again ends as one that never was.

Two minutes: pytest -m slow tests/moa_core/train/test_kills.py
"""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.kills import command, through_kills
from tests.models import save_bundle

pytestmark = pytest.mark.slow
METHODS, UPDATES, KILLS = ("moa-n1", "eagle2"), 400, 4


def losses(folder: Path) -> dict[tuple[int, str], set[str]]:
    """What the log says of each update, but for seconds; several things if it ever differed."""
    found: dict[tuple[int, str], set[str]] = {}
    for line in (folder / "run" / "log.jsonl").read_text().splitlines():
        entry = json.loads(line)
        kind = "measured" if "measured" in entry else "losses"
        del entry["seconds"]
        found.setdefault((entry["update"], kind), set()).add(json.dumps(entry))
    return found


def same(one: Any, other: Any) -> bool:
    """Whether two trees of tensors and numbers are the same, bit for bit."""
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return one == other


@pytest.mark.parametrize("own", ["0", "6000"], ids=["from data", "on the target's own text"])
def test_killed_at_random_moments_its_losses_and_weights_are_those_of_an_uninterrupted_run(
    data: Path, tmp_path: Path, own: str
) -> None:
    """Spawned workers, the command line, SIGKILL: every loss, weight and optimiser state."""
    save_bundle(tmp_path / "bundle")

    def training(out: str) -> Any:
        return command(
            "train", "drafters", "--data", str(data), "--out", str(tmp_path / out), "--updates",
            str(UPDATES), "--rows", "2", "--row-length", "48", "--methods",
            ",".join(METHODS), "--workers", "1", "--device", "cpu", "--precision", "no",
            "--save-every", "0.5", "--log-every", "1", "--watch-times", "4", "--own-tokens", own,
            models=tmp_path / "bundle",
        )  # fmt: skip

    assert training("straight")().wait(600) == 0
    log = tmp_path / "killed" / "run" / "log.jsonl"
    at = through_kills(training("killed"), log, (1, 90), KILLS, seed=int(own))
    print(f"killed with {at} updates in its log")
    straight, killed = losses(tmp_path / "straight"), losses(tmp_path / "killed")
    assert killed == straight and {update for update, _ in killed} == set(range(1, UPDATES + 1))
    states = [
        torch.load(tmp_path / out / "run" / "checkpoint.pt", weights_only=True)
        for out in ("straight", "killed")
    ]
    for part in ("models", "optimisers", "update", "place"):
        assert same(states[0][part], states[1][part]), part
    for name in METHODS:
        ours, theirs = (
            (tmp_path / out / name / "model.safetensors").read_bytes()
            for out in ("straight", "killed")
        )
        assert ours == theirs
