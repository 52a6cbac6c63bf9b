"""How a drafter came to be, by its config: one record, over all the trainings it went through."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from moa_core.checkpoints import drafter_name, locate
from moa_core.errors import UserError
from moa_core.formats import read_config

Record = dict[str, Any]


def training_of(spec: str) -> Record | None:
    """What its last training was, with updates and seconds of all; None if it does not say.

    `metrics`, if kept: [{updates, seconds, tau}], one curve from the first update on.
    """
    name = {"hf-assisted": "independent", "eagle": "eagle2"}.get(spec, spec)
    try:
        place = locate(drafter_name(name))
        ours = read_config(place).get("drafter") if isinstance(place, Path) else None
    except UserError:
        return None
    training = ours.get("training") if isinstance(ours, dict) else None
    if ours is None or not isinstance(training, dict):
        return None
    kept = [training.get("metrics"), ours.get("metrics"), ours.get("curve")]
    curve = next((entries for entries in kept if isinstance(entries, list)), None)
    return _in_all({**training, "metrics": curve} if curve else dict(training))


def _in_all(training: Record) -> Record:
    """A training that went on from another's drafter continues its counts and its curve."""
    earlier = training.get("start")
    if not isinstance(earlier, dict):
        return training
    earlier = _in_all(earlier)
    counts = {key: _sum(earlier, training, key) for key in ("updates", "seconds")}
    curve = [
        entry | {key: _sum(earlier, entry, key) for key in counts} for entry in _entries(training)
    ]
    return training | counts | {"metrics": _entries(earlier) + curve}


def _entries(training: Record) -> list[Record]:
    entries = training.get("metrics")
    listed = entries if isinstance(entries, list) else []
    return [entry for entry in listed if isinstance(entry, dict)]


def _sum(one: Record, other: Record, key: str) -> float | None:
    """None where one of them does not say: half a sum would mislead."""
    first, second = one.get(key), other.get(key)
    if isinstance(first, int | float) and isinstance(second, int | float):
        return round(first + second, 3)
    return None
