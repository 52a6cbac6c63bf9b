"""`bench --map`: time per token over a grid of links, and where speculation stops paying.

Reckoned by link_model from what `bench --link` recorded with no link between, and held against
every cell that was measured. A recording of kind link-map has

cells       method, where, rtt_ms, down_mbps, up_mbps, loss, clients, ms_per_token, first_ms, by the
            model; where the same link was measured, `measured`: the row's ms_per_token, first_ms
            and ms_per_token_spread. where: link (drafts at the client), or server (drafts there
            too, and tokens are streamed: vanilla is plain decoding)
break_even  method, against, where, down_mbps, up_mbps, loss, clients, below_ms: the round trip
            below which drafting at the client takes less time a token than `against`; 0: never,
            null: always, up to 2 s
checks      method, link, clients, modelled, measured: ms a token; error: modelled / measured - 1
errors      over all checks of a sort: count, median and largest of the errors' sizes
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import Any

from moa_core.bench.link_files import Row, check_out, head, read, select, write
from moa_core.bench.link_model import (
    Script,
    Timing,
    alone,
    ms_per_token,
    of_method,
    together,
    without_spread,
)
from moa_core.bench.link_rows import DIRECT, LOCAL, STREAM, VANILLA
from moa_core.bench.machine import commit
from moa_core.errors import UserError
from moa_core.link.network import LinkSettings, link

ROUND_TRIPS = (1, 10, 30, 60, 150, 300)  # ms
BANDWIDTHS = ((1000, 1000), (9, 1.5), (1.6, 0.75))  # Mbit/s down and up
LOSSES = (0, 0.01)
CLIENTS = (1, 2, 4, 8, 16)
CROWDED = (9, 1.5)  # the bandwidths of the cells with several clients, each over a link of its own
ROUNDS = 2  # prompts of each of several clients, as where they are measured
SEEDS = 8  # draws of what is lost
FARTHEST = 2000.0  # ms
LINK, SERVER = "link", "server"


def run(options: argparse.Namespace) -> None:
    """Reckon, write, print where speculation stops paying and how good the model is."""
    path = check_out(options.out)
    files = [read(file.expanduser(), "link") for file in options.map]
    made = map_of(files)
    target, machine = files[0]["target"], files[0]["machine"]
    facts = head("link-map", options.given, [commit() or ""], machine=machine, target=target)
    settings = {"recorded": [file["date"] for file in files], **files[0]["settings"]}
    write({**facts, "settings": settings, **made}, path)
    print(table(made["break_even"], LINK, "plain streaming"))
    print(table(made["break_even"], SERVER, "the same drafter on the server"))
    for row in made["errors"]:
        print(
            f"model against {row['count']} measured cells ({row['of']}): error "
            f"{100 * row['median']:.1f} % at the median, {100 * row['largest']:.1f} % at most"
        )
    print(path)


@dataclass(frozen=True)
class Way:
    """A method, who drafts, and its prompts' runs. Times are of `clients` at once."""

    method: str
    where: str
    scripts: tuple[Script, ...]

    def timings(self, settings: LinkSettings, clients: int) -> list[Timing]:
        """Over a link; of a link with losses, several draws."""
        found = []
        for seed in range(SEEDS if _drawn(settings) else 1):
            if clients == 1:
                found += alone(self.scripts, settings, seed)
            else:
                found += together(self.scripts, settings, clients, ROUNDS, seed)
        return found

    def pace(self, settings: LinkSettings, clients: int = 1) -> float:
        """Milliseconds a token."""
        return ms_per_token(self.timings(settings, clients))


def map_of(files: Sequence[Row]) -> dict[str, Any]:
    """Cells, break-even points and checks from recordings of kind link. A method's scripts are the
    first file's that has some; all rows are held against them. UserError if there is no stream."""
    ways = ways_of(files)
    if not any(way.method == STREAM for way in ways):
        raise UserError("No recording has a stream, against which all else is held: measure it.")
    measured = list(_measured(files))
    checks = list(_checks(ways, measured))
    return {
        "cells": list(_cells(ways, measured)),
        "break_even": list(_break_evens(ways)),
        "checks": checks,
        "errors": _errors(checks),
    }


def _numbers(recording: Row) -> str:
    """How numbers travelled in the runs from which other links are reckoned."""
    found = select(recording.get("scripts", ()), link=DIRECT)
    return found[0]["numbers"] if found else ""


def _measured(files: Sequence[Row]) -> Iterator[tuple[LinkSettings, Row]]:
    """Every row that was measured over an emulated link, and that link."""
    for file in files:
        for row in select(file["rows"], numbers=_numbers(files[0])):
            if row["link"] not in (LOCAL, DIRECT) and row["ms_per_token"]:
                yield replace(link(file["links"][row["link"]]["spec"]), name=row["link"]), row


def ways_of(files: Sequence[Row]) -> list[Way]:
    """What recordings' scripts tell of, each way once. UserError if they tell of nothing."""
    found: dict[tuple[str, str], Way] = {}
    numbers = _numbers(files[0])
    for label, where in ((DIRECT, LINK), (LOCAL, SERVER)):
        for file in files:
            scripts = select(file.get("scripts", ()), link=label)
            for method in dict.fromkeys(one["method"] for one in scripts):
                mine = tuple(of_method(file, method, label, numbers))
                if mine:
                    found.setdefault((method, where), Way(method, where, mine))
    if not found:
        raise UserError("There is nothing to reckon from: give recordings made with --link.")
    return list(found.values())


def grid(clients: int = 1) -> Iterator[LinkSettings]:
    """The map's links."""
    bandwidths, losses = (BANDWIDTHS, LOSSES) if clients == 1 else ((CROWDED,), (0,))
    for down, up in bandwidths:
        for loss in losses:
            for trip in ROUND_TRIPS:
                yield LinkSettings(rtt_ms=trip, down_mbps=down, up_mbps=up, loss=loss)


def _cells(ways: Sequence[Way], measured: Sequence[tuple[LinkSettings, Row]]) -> Iterator[Row]:
    known = {(one.spec, row["method"], row["clients"]): row for one, row in measured}
    for clients in CLIENTS:
        for settings in grid(clients):
            for way in ways:
                timings = way.timings(settings, clients)
                cell = {
                    "method": way.method, "where": way.where, **_axes(settings),
                    "clients": clients, "ms_per_token": ms_per_token(timings),
                    "first_ms": 1e3 * median(timing.first for timing in timings),
                }  # fmt: skip
                row = known.get((settings.spec, way.method, clients))
                if row and way.where == LINK:
                    names = ("ms_per_token", "ms_per_token_spread", "first_ms")
                    cell["measured"] = {name: row[name] for name in names}
                yield cell


def _drawn(settings: LinkSettings) -> bool:
    """Whether anything about it is left to chance."""
    return bool(settings.loss or settings.jitter_ms or settings.p90_ms)


def _axes(settings: LinkSettings) -> Row:
    names = ("rtt_ms", "down_mbps", "up_mbps", "loss")
    return {name: getattr(settings, name) for name in names}


def _break_evens(ways: Sequence[Way]) -> Iterator[Row]:
    """Drafting at the client, against plain streaming and against drafting on the server."""
    here = [way for way in ways if way.where == LINK and way.method != STREAM]
    [stream] = [way for way in ways if way.method == STREAM]
    there = {way.method: way for way in ways if way.where == SERVER and way.method != VANILLA}
    for clients in CLIENTS:
        for settings in grid(clients):
            if settings.rtt_ms != ROUND_TRIPS[0]:
                continue
            for way in here:
                for other in filter(None, (stream, there.get(way.method))):
                    axes = _axes(settings)
                    del axes["rtt_ms"]
                    yield {
                        "method": way.method, "against": other.method, "where": other.where,
                        **axes, "clients": clients,
                        "below_ms": break_even(way, other, settings, clients),
                    }  # fmt: skip


def break_even(way: Way, other: Way, settings: LinkSettings, clients: int = 1) -> float | None:
    """The round trip, in ms, below which `way` takes less time a token than `other`. 0: none does,
    None: any up to FARTHEST."""
    settings = without_spread(settings)

    def behind(trip: float) -> bool:
        there = replace(settings, rtt_ms=trip)
        return way.pace(there, clients) >= other.pace(there, clients)

    if behind(0.0):
        return 0.0
    if not behind(FARTHEST):
        return None
    return _crossing(behind, FARTHEST)


def _crossing(behind: Callable[[float], bool], high: float) -> float:
    """Where a no becomes a yes, between 0 and high, to a hundredth of itself."""
    low = 0.0
    while high - low > max(0.1, 0.01 * low):
        middle = (low + high) / 2
        low, high = (low, middle) if behind(middle) else (middle, high)
    return round((low + high) / 2, 1)


def _checks(ways: Sequence[Way], measured: Sequence[tuple[LinkSettings, Row]]) -> Iterator[Row]:
    """Every measured cell that the model can reckon."""
    here = {way.method: way for way in ways if way.where == LINK}
    for settings, row in measured:
        if row["method"] not in here:
            continue
        modelled = here[row["method"]].pace(settings, row["clients"])
        yield {
            "method": row["method"], "link": row["link"], "clients": row["clients"],
            "modelled": modelled, "measured": row["ms_per_token"],
            "error": modelled / row["ms_per_token"] - 1, "steady": not _drawn(settings),
        }  # fmt: skip


def _errors(checks: Sequence[Row]) -> list[Row]:
    sorts: dict[str, Callable[[Row], bool]] = {
        "one client, steady link": lambda row: row["clients"] == 1 and row["steady"],
        "one client, jitter or loss": lambda row: row["clients"] == 1 and not row["steady"],
        "several clients": lambda row: row["clients"] > 1,
    }
    found = []
    for name, belongs in sorts.items():
        sizes = [abs(row["error"]) for row in checks if belongs(row)]
        if sizes:
            found.append(
                {"of": name, "count": len(sizes), "median": median(sizes), "largest": max(sizes)}
            )
    return found


def table(found: Sequence[Row], where: str, what: str) -> str:
    """Where drafting at the client stops paying against what is drafted elsewhere, or nowhere."""
    mine = select(found, where=where)
    names = ("down_mbps", "up_mbps", "loss", "clients")
    columns = list(dict.fromkeys(tuple(row[name] for name in names) for row in mine))
    heads = [f"{down:g}/{up:g},{loss:g},{clients}" for down, up, loss, clients in columns]
    lines = [f"round trip (ms) below which drafting at the client beats {what}"]
    lines.append(f"{'Mbit/s, loss, clients':<22}" + "".join(f"{text:>16}" for text in heads))
    for method in dict.fromkeys(row["method"] for row in mine):
        cells = [_text(row["below_ms"]) for row in select(mine, method=method)]
        lines.append(f"{method:<22}" + "".join(f"{cell:>16}" for cell in cells))
    return "\n".join(lines)


def _text(below: float | None) -> str:
    return "always" if below is None else "never" if below == 0 else f"{below:.0f}"
