"""A soak's report: figures from what was sampled and told, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from tests.soak.tally import Tally

Sample = dict[str, Any]
WARM = 1 / 3  # of the samples come before the app has met everything
MOST_GROWTH = 0.05


def growth(samples: Sequence[Sample], name: str) -> dict[str, float]:
    """Resident memory (MB) of a program after the warm-up, which is the first third of the samples.

    first, last  medians of the first and of the last fifth of the others: one sample holds a run's
                 own memory or not, a median over a minute or more hardly depends on that
    growth       last / first - 1
    """
    mb = [one[name]["mb"] for one in samples[int(len(samples) * WARM) :] if one[name]]
    fifth = max(len(mb) // 5, 1)
    if not mb:
        return {"first": 0.0, "last": 0.0, "peak": 0.0, "growth": 0.0}
    first, last = median(mb[:fifth]), median(mb[-fifth:])
    return {"first": first, "last": last, "peak": max(mb), "growth": round(last / first - 1, 4)}


def grown(found: dict[str, dict[str, float]]) -> list[str]:
    """A sentence for each program that has grown too much."""
    return [
        f"{name}: memory grew by {one['growth']:.1%}, {one['first']:.0f} to {one['last']:.0f} MB"
        for name, one in found.items()
        if one["growth"] > MOST_GROWTH
    ]


def report(tally: Tally, samples: Sequence[Sample], about: dict[str, Any]) -> dict[str, Any]:
    """Everything, for a file."""
    waits = {
        name: {"times": len(of), "median": round(median(of), 2), "slowest": round(max(of), 2)}
        for name, of in sorted(tally.waits.items(), key=lambda one: -max(one[1]))
    }
    return {
        **about,
        "actions": dict(tally.actions.most_common()),
        "refusals": dict(tally.sentences.most_common()),
        "texts_compared": tally.compared,
        "waits": waits,
        "memory": {name: growth(samples, name) for name in ("app", "server")},
        "samples": list(samples),
    }


def printed(found: dict[str, Any]) -> str:
    """The same in words, its curve thinned out."""
    lines = [f"{sum(found['actions'].values())} actions"]
    lines += [f"  {count:5} {name}" for name, count in found["actions"].items()]
    lines += ["refusals, by sentence"]
    lines += [f"  {count:5} {name}" for name, count in found["refusals"].items()]
    lines += [f"{found['texts_compared']} texts of which every copy agreed", "waits (s)"]
    lines += [
        f"  {one['slowest']:7.1f} slowest, {one['median']:6.1f} median of {one['times']:4}  {name}"
        for name, one in found["waits"].items()
    ]
    lines += ["memory (MB): after warm-up, at the end, at most"]
    lines += [
        f"  {name}: {one['first']:.0f}, {one['last']:.0f} ({one['growth']:+.1%}), {one['peak']:.0f}"
        for name, one in found["memory"].items()
    ]
    samples = found["samples"]
    lines += ["  s     app  threads files   server"]
    for one in samples[:: max(len(samples) // 16, 1)]:
        app, server = one["app"] or {}, one["server"] or {}
        lines.append(
            f"  {one['at']:4.0f} {app.get('mb', 0):6.0f} {app.get('threads', 0):6} "
            f"{app.get('files', 0):6} {server.get('mb', 0):8.0f}"
        )
    return "\n".join([*lines, *verdict(found["trouble"])])


def verdict(trouble: Sequence[str]) -> list[str]:
    """How it ended."""
    if not trouble:
        return ["nothing went wrong"]
    return [f"{len(trouble)} THINGS WENT WRONG", *(f"  {one}" for one in trouble[:40])]
