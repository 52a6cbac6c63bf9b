"""How a drafter was trained, over all the trainings it went through."""

import json
from pathlib import Path
from typing import Any

import pytest

from moa_core.bench.trained import training_of


def test_how_a_drafter_was_trained(bundle: Path, tmp_path: Path) -> None:
    assert training_of("moa-n0") is None and training_of("vanilla") is None
    config = json.loads((bundle / "moa-n0" / "config.json").read_text())
    curve = [{"updates": 1, "seconds": 2, "tau": 1.5}]
    config["drafter"] |= {"training": {"updates": 9}, "metrics": curve}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert training_of(str(tmp_path)) == {"updates": 9, "metrics": curve}


def about(folder: Path, training: dict[str, Any]) -> dict[str, Any] | None:
    (folder / "config.json").write_text(json.dumps({"drafter": {"training": training}}))
    return training_of(str(folder))


def point(updates: int, seconds: float, tau: float) -> dict[str, float]:
    return {"updates": updates, "seconds": seconds, "tau": tau}


def test_a_drafter_that_went_on_from_another_has_one_curve(tmp_path: Path) -> None:
    first = {"updates": 300, "seconds": 60.5, "metrics": [point(300, 60, 2.5)], "start": None}
    second = {"updates": 20, "seconds": 4, "metrics": [point(10, 2, 2.6)], "start": first}
    third = {"rate": 0.1, "updates": 5, "seconds": 1, "metrics": [point(5, 1, 3)], "start": second}
    found = about(tmp_path, third)
    assert found is not None
    assert found["updates"] == 325 and found["seconds"] == 65.5 and found["rate"] == 0.1
    assert found["metrics"] == [point(300, 60, 2.5), point(310, 62.5, 2.6), point(325, 65.5, 3)]


@pytest.mark.parametrize("earlier", [{}, {"updates": "many", "metrics": {}}, {"metrics": [None]}])
def test_half_a_sum_is_not_told(tmp_path: Path, earlier: dict[str, Any]) -> None:
    last = {"updates": 5, "seconds": 1, "metrics": [point(5, 1, 3)], "start": earlier}
    found = about(tmp_path, last)
    assert found is not None and found["updates"] is None and found["seconds"] is None
    assert found["metrics"] == [{"updates": None, "seconds": None, "tau": 3}]
