"""From runs over links to figures. Knows no models and no sockets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np

Record = dict[str, Any]  # see link_runs.run, with what tells it from others
RESAMPLES = 2_000
PROMPTS = 10
LOCAL, DIRECT, STREAM, VANILLA = "local", "direct", "stream", "vanilla"  # see link_scene
CELL = ("method", "link", "numbers", "clients")


def rows(records: Sequence[Record]) -> list[dict[str, Any]]:
    """A row per method, link, numbers and clients; see `row`."""
    texts = {
        (record["repeat"], record["prompt"]): record["output"]
        for record in records
        if record["link"] == LOCAL and record["method"] == VANILLA
    }
    cells: dict[tuple[Any, ...], list[Record]] = defaultdict(list)
    for record in records:
        cells[tuple(record[name] for name in CELL)].append(record)
    found = [
        {**dict(zip(CELL, cell, strict=True)), **row(mine, texts)} for cell, mine in cells.items()
    ]
    return [{**one, **_calls_to(one, cells), **_stream_work(one, found)} for one in found]


def row(records: Sequence[Record], texts: dict[Any, str]) -> dict[str, Any]:
    """One cell's figures. Bytes are those of messages; what frames and packets add is not counted.

    ms_per_token      wall time at the client from the first token to the last, over the tokens
                      after the first: the median of the repeats; its _spread: lowest and highest.
                      Of `stream`: from its second token on, since here its stream is asked for only
                      then, which an API does not need
    first_ms          from the prompt's sending to the first token, median; connect_ms: before that
    tau               tokens gained per target forward after the prefill, bonus included
    calls_per_100     target forwards per 100 tokens after the prefill
    trips_per_100     of them, those that the client waited for a round trip
    server_s_per_100  seconds of the server's work per 100 tokens after the prefill. Of `stream`:
                      those with no link between, where no token waits to be taken; the work is the
                      same
    server_prefill_s  of its work for the prompt, its server half included: the mean
    up_per_token, down_per_token, prefill_up, prefill_down   bytes; of the prefill: the mean prompt
    prompt_tokens     of it
    client_ms_per_token  drafting and bookkeeping at the client
    runs, differing   how many, and of them with another text than plain local decoding
    downs             how often the link counted as lost
    """
    speeds = [pace for each in _by_repeat(records).values() if (pace := _pace(each)) is not None]
    gained = max(1, sum(sum(record["cycles"]["gained"]) for record in records))
    cycles = sum(len(record["cycles"]["gained"]) for record in records)
    count = len(records)

    def spent(*names: str) -> float:
        return sum(sum(record["cycles"][name]) for record in records for name in names)

    def mean(*names: str) -> float:
        whole: float = sum(record["prefill"][name] for record in records for name in names)
        return whole / count

    streams = records[0]["method"] == STREAM
    local = records[0]["link"] == LOCAL
    server = spent("server_us") + (spent("draft_us", "other_us") if local else 0.0)
    work = sum(record["work"] for record in records)
    return {
        "ms_per_token": median(speeds) if speeds else None,
        "ms_per_token_spread": [min(speeds), max(speeds)] if speeds else None,
        "first_ms": 1e3 * median(record["first"] for record in records),
        "connect_ms": 1e3 * median(record["connect"] for record in records),
        "tau": gained / cycles if cycles else None,
        "calls_per_100": 100 * cycles / gained,
        "trips_per_100": 0.0 if streams or local else 100 * cycles / gained,
        "server_s_per_100": server / 1e4 / gained,
        "server_prefill_s": _prefill_work(records, local, work, server),
        "up_per_token": spent("up") / gained,
        "down_per_token": spent("down") / gained,
        "prefill_up": mean("up"),
        "prefill_down": mean("down", "share_down"),
        "prompt_tokens": sum(record["prompt_tokens"] for record in records) / count,
        "client_ms_per_token": 0.0 if local else spent("draft_us", "other_us") / 1e3 / gained,
        "network_ms_per_call": spent("network_us") / 1e3 / cycles if cycles else None,
        "runs": count,
        "differing": sum(
            record["output"] != texts.get((record["repeat"], record["prompt"]), record["output"])
            for record in records
        ),
        "downs": sum(record["downs"] for record in records),
    }


def _prefill_work(records: Sequence[Record], local: bool, work: float, server: float) -> float:
    if local:
        prefills = [record["prefill"] for record in records]
        spent: float = sum(one["server_us"] + one["share_us"] for one in prefills)
        return spent / 1e6 / len(records)
    return (work - server / 1e6) / len(records)


def _stream_work(one: dict[str, Any], found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A stream's server seconds, from where they can be told from waiting."""
    if one["method"] != STREAM:
        return {}
    direct = [row for row in found if row["method"] == STREAM and row["link"] == DIRECT]
    return {"server_s_per_100": direct[0]["server_s_per_100"]} if direct else {}


def crowd_rows(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Rows of many clients at once, from link_load.crowd's records, one a cell and repeat.

    server_s_per_100 is then of all work, prefills included, per 100 tokens of all texts; tau and
    bytes are left to the rows of one client.
    """
    cells: dict[tuple[Any, ...], list[Record]] = defaultdict(list)
    for record in records:
        cells[tuple(record[name] for name in CELL)].append(record)
    return [{**dict(zip(CELL, cell, strict=True)), **_crowd(mine)} for cell, mine in cells.items()]


def _crowd(records: Sequence[Record]) -> dict[str, Any]:
    speeds = [pace for record in records if (pace := _pace(record["runs"])) is not None]
    runs = [run for record in records for run in record["runs"]]
    work, tokens = (sum(record[name] for record in records) for name in ("work", "tokens"))
    return {
        "ms_per_token": median(speeds) if speeds else None,
        "ms_per_token_spread": [min(speeds), max(speeds)] if speeds else None,
        "first_ms": 1e3 * median(run["first"] for run in runs),
        "server_s_per_100": 100 * work / max(1, tokens),
        "runs": len(runs),
        "differing": sum(run["differs"] for run in runs),
        "downs": sum(run["downs"] for run in runs),
    }


def _calls_to(
    one: dict[str, Any], cells: dict[tuple[Any, ...], list[Record]], other: str = "eagle2"
) -> dict[str, Any]:
    """How many calls a method makes for each of EAGLE-2's, on the same prompts over the same link.

    calls_to_eagle2: the ratio, and 95 % of resamples of the prompts
    """
    ours = cells[tuple(one[name] for name in CELL)]
    theirs = cells.get((other, *(one[name] for name in CELL[1:])), [])
    if not theirs or one["method"] in (other, STREAM, VANILLA) or not one["calls_per_100"]:
        return {}
    mine, others = _calls(ours), _calls(theirs)
    shared = sorted(mine.keys() & others.keys())
    if not shared:
        return {}
    a = np.array([mine[prompt] for prompt in shared], dtype=float)  # [prompts, calls and gained]
    b = np.array([others[prompt] for prompt in shared], dtype=float)
    picks = np.random.default_rng(0).integers(len(shared), size=(RESAMPLES, len(shared)))
    ratios = _ratio(a[picks].sum(1), b[picks].sum(1))
    low, high = np.quantile(ratios, (0.025, 0.975))
    return {"calls_to_eagle2": [float(_ratio(a.sum(0), b.sum(0))), float(low), float(high)]}


def _ratio(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Of calls per gained token; the last axis is [calls, gained]."""
    ratio: np.ndarray = (ours[..., 0] / ours[..., 1]) / (theirs[..., 0] / theirs[..., 1])
    return ratio


def _calls(records: Sequence[Record]) -> dict[int, tuple[int, int]]:
    found: dict[int, tuple[int, int]] = {}
    for record in records:
        calls, gained = found.get(record["prompt"], (0, 0))
        cycles = record["cycles"]["gained"]
        if cycles:
            found[record["prompt"]] = calls + len(cycles), gained + sum(cycles)
    return found


def _pace(records: Sequence[Record]) -> float | None:
    """Milliseconds a token, over all tokens of these runs; None where there are too few."""
    seconds = tokens = 0.0
    for record in records:
        late = record["method"] == STREAM
        if record["new_tokens"] > 1 + late:
            seconds += record["last"] - record["second" if late else "first"]
            tokens += record["new_tokens"] - 1 - late
    return 1e3 * seconds / tokens if tokens else None


def _by_repeat(records: Sequence[Record]) -> dict[int, list[Record]]:
    found: dict[int, list[Record]] = defaultdict(list)
    for record in records:
        found[record["repeat"]].append(record)
    return found


def scripts(records: Sequence[Record], numbers: str) -> list[dict[str, Any]]:
    """What was done and sent without any link, per method and prompt; see link_model.

    numbers  how they travelled; of the first PROMPTS prompts alone, since files are to be small.
    Times are the medians of the repeats, which what else the machine did disturbs least; bytes are
    the same in all.
    """
    groups: dict[tuple[Any, ...], list[Record]] = defaultdict(list)
    prompts = set(list(dict.fromkeys(record["prompt"] for record in records))[:PROMPTS])
    for record in records:
        here = record["link"] == LOCAL or (record["link"], record["numbers"]) == (DIRECT, numbers)
        if here and record["prompt"] in prompts:
            key = tuple(record[name] for name in ("method", "link", "prompt"))
            groups[key].append(record)
    return [_script(mine) for mine in groups.values()]


def _script(records: Sequence[Record]) -> dict[str, Any]:
    first = records[0]
    alike = [r for r in records if r["cycles"]["gained"] == first["cycles"]["gained"]]
    return {
        **{name: first[name] for name in ("method", "link", "numbers", "prompt")},
        "prompt_tokens": first["prompt_tokens"],
        "tokens": first["new_tokens"],
        "prefill": {
            name: _middle([record["prefill"][name] for record in alike])
            for name in first["prefill"]
        },
        "cycles": {
            name: [_middle(values) for values in zip(*(r["cycles"][name] for r in alike))]  # noqa: B905
            for name in first["cycles"]
        },
    }


def _middle(values: Sequence[int]) -> int:
    return round(median(values))
