"""From runs over links to figures, and the figures as text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from moa_core.loading.names import VANILLA

Record = dict[str, Any]  # see link.OverLink.run
LOCAL = "local"  # no server: target and drafter in one process
STREAM = "stream"  # plain API streaming: the server pushes each token as it writes it


def rows(records: Sequence[Record]) -> list[dict[str, Any]]:
    """A row per method and link. Bytes are those of messages, without frames and packets.

    ms_per_token      from the first token to the last, over the tokens after the first: median of
                      the repeats; its _spread: lowest and highest. Of `stream` from its second
                      token on, since here its stream is asked for only then
    first_ms          from the prompt's sending to the first token, median
    calls_per_100     target forwards per 100 tokens after the prefill
    server_s_per_100  seconds of the server's work, waiting for its turn included, per 100 tokens
    up_per_token, down_per_token, prefill_up, prefill_down   bytes; of the prefill: the mean prompt
    runs, differing   how many, and of them with another text than plain local decoding
    downs             how often the link counted as lost
    """
    cells: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        cells[record["method"]].append(record)
    plain = {_which(record): record["output"] for record in cells[f"{VANILLA}@{LOCAL}"]}
    return [
        {"method": name.split("@")[0], "link": name.split("@")[1], **_row(mine, plain)}
        for name, mine in cells.items()
    ]


def _row(records: Sequence[Record], plain: Mapping[Any, str]) -> dict[str, Any]:
    method = records[0]["method"].partition("@")[0]

    def total(name: str) -> float:
        return float(sum(record[name] for record in records))

    gained, count = max(1, total("gained")), len(records)
    repeats = sorted({record["repeat"] for record in records})
    paces = [_pace([one for one in records if one["repeat"] == at], method) for at in repeats]
    speeds = [pace for pace in paces if pace is not None]
    return {
        "ms_per_token": median(speeds) if speeds else None,
        "ms_per_token_spread": [min(speeds), max(speeds)] if speeds else None,
        "first_ms": 1e3 * median(record["first"] for record in records),
        "calls_per_100": 100 * total("calls") / gained,
        "server_s_per_100": 100 * total("server") / gained,
        "up_per_token": total("up") / gained,
        "down_per_token": total("down") / gained,
        "prefill_up": total("prefill_up") / count,
        "prefill_down": total("prefill_down") / count,
        "runs": count,
        "differing": sum(record["output"] != plain[_which(record)] for record in records),
        "downs": int(total("downs")),
    }


def _which(record: Record) -> tuple[Any, ...]:
    return record["repeat"], record["prompt"]


def _pace(records: Sequence[Record], method: str) -> float | None:
    """Milliseconds a token, over all tokens of these runs; None where there are too few."""
    first, skipped = ("second", 2) if method == STREAM else ("first", 1)
    long = [record for record in records if record["new_tokens"] > skipped]
    tokens = sum(record["new_tokens"] - skipped for record in long)
    return 1e3 * sum(record["last"] - record[first] for record in long) / tokens if long else None


def table(found: Sequence[dict[str, Any]]) -> str:
    """The main figures as aligned text, a line per row."""
    digits = {"ms_per_token": 1, "first_ms": 0, "calls_per_100": 1,
              "server_s_per_100": 3, "up_per_token": 0, "down_per_token": 0}  # fmt: skip
    lines = [f"{'link':<24}{'method':<14}" + "".join(f"{name:>18}" for name in digits)]
    for row in found:
        cells = ("-" if row[name] is None else f"{row[name]:.{d}f}" for name, d in digits.items())
        line = f"{row['link']:<24}{row['method']:<14}" + "".join(f"{cell:>18}" for cell in cells)
        lines.append(f"{line}   {row['differing']}/{row['runs']} texts differ")
    return "\n".join(lines)
