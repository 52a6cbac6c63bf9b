"""What the results say of a method beside its figures."""

import json
from pathlib import Path
from typing import Any

import pytest

from moa_core.bench.methods import training_of


def about(folder: Path, training: dict[str, Any]) -> dict[str, Any] | None:
    (folder / "config.json").write_text(json.dumps({"drafter": {"training": training}}))
    return training_of(str(folder))


def test_a_drafter_that_does_not_say_how_it_was_trained(bundle: Path) -> None:
    assert training_of("moa-n0") is None and training_of("vanilla") is None


def test_a_drafter_that_went_on_from_another_has_all_updates_and_seconds(tmp_path: Path) -> None:
    first = {"updates": 300, "seconds": 60.5, "metrics": [{"tau": 2.5}], "start": None}
    second = {"updates": 20, "seconds": 4, "start": first}
    third = {"rate": 0.1, "updates": 5, "seconds": 1, "start": second}
    assert about(tmp_path, third) == {"rate": 0.1, "updates": 325, "seconds": 65.5}
    assert about(tmp_path, first) == {"updates": 300, "seconds": 60.5}


@pytest.mark.parametrize("earlier", [{}, {"updates": "many", "metrics": {}}])
def test_half_a_sum_is_not_told(tmp_path: Path, earlier: dict[str, Any]) -> None:
    last = {"updates": 5, "seconds": 1, "start": earlier}
    assert about(tmp_path, last) == {"updates": None, "seconds": None}
