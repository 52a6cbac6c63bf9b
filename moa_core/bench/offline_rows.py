"""From runs after a cut to figures: right answers, the target's opinion, and what is certain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Record = dict[str, Any]  # see offline_runs.after_cut
RESAMPLES = 2_000
TASKS, TEXTS = "tasks", "texts"  # all kinds of either sort together


def rows(records: Sequence[Record]) -> list[dict[str, Any]]:
    """A row per method, cut and kind, and over all kinds of tasks and of texts.

    items      how many; tokens: mean number written offline
    same       share whose whole answer is the target's own, to the last token
    agreed     mean of offline tokens before the first that is not the target's own
    right      tasks: share answered right; right_spread: 95 % of resamples of the items
    log_prob   texts: nats per offline token, by the target; log_prob_spread
    repeats_8gram  texts: share of offline 8-grams that stood there before
    """
    return [
        {"method": method, "cut": cut, "kind": kind, **_row(mine)}
        for method in _values(records, "method")
        for cut in _values(records, "cut")
        for kind, mine in _by_kind(_of(records, method=method, cut=cut)).items()
    ]


def _row(records: Sequence[Record]) -> dict[str, Any]:
    grams = np.sum([record["grams"] for record in records], axis=0)
    row = {
        "items": len(records),
        "tokens": _mean(records, "tokens"),
        "same": _mean(records, "same"),
        "agreed": _mean(records, "agreed"),
    }
    if records[0]["right"] is not None:
        right = _sums(records, "right")
        return {**row, "right": _ratio(right), "right_spread": _spread(right)}
    said = _sums(records, "log_prob")
    return {
        **row,
        "log_prob": _ratio(said),
        "log_prob_spread": _spread(said),
        "repeats_8gram": float(grams[0] / grams[1]) if grams[1] else None,
    }


def _sums(records: Sequence[Record], figure: str) -> np.ndarray:
    """[items, 2]: what is added up, and what it is divided by."""
    if figure == "right":
        return np.array([[float(record["right"]), 1.0] for record in records])
    return np.array([[record["log_prob"], record["tokens"]] for record in records], dtype=float)


def _ratio(sums: np.ndarray) -> float | None:
    top, bottom = sums.sum(0)
    return float(top / bottom) if bottom else None


def _resampled(sums: np.ndarray) -> np.ndarray:
    """The ratio in each of many random choices of as many items, with repetition."""
    picks = np.random.default_rng(0).integers(len(sums), size=(RESAMPLES, len(sums)))
    top, bottom = sums[picks].sum(1).T
    ratio: np.ndarray = top / np.maximum(bottom, 1e-9)
    return ratio


def _spread(sums: np.ndarray) -> list[float] | None:
    if not sums[:, 1].sum():
        return None
    return [float(end) for end in np.quantile(_resampled(sums), (0.025, 0.975))]


def _by_kind(records: Sequence[Record]) -> dict[str, list[Record]]:
    """Records by kind, and all tasks and all texts."""
    kinds = {kind: _of(records, kind=kind) for kind in _values(records, "kind")}
    groups = {
        TASKS: [record for record in records if record["right"] is not None],
        TEXTS: [record for record in records if record["right"] is None],
    }
    return {**kinds, **{name: group for name, group in groups.items() if group}}


def _of(records: Sequence[Record], **wanted: Any) -> list[Record]:
    return [r for r in records if all(r[key] == value for key, value in wanted.items())]


def _values(records: Sequence[Record], key: str) -> list[Any]:
    return list(dict.fromkeys(record[key] for record in records))


def _mean(records: Sequence[Record], key: str) -> float:
    return float(sum(record[key] for record in records)) / len(records)
