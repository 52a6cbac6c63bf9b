"""`bench --link`: what decoding over a link costs and saves, between real processes."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import transformers

from moa_core.bench.link_files import check_out, head, runs_folder, write
from moa_core.bench.link_plan import Plan
from moa_core.bench.link_rows import crowd_rows, rows, scripts
from moa_core.bench.link_scene import scene
from moa_core.bench.machine import commit
from moa_core.bench.runs import keep_settings


def run(options: argparse.Namespace) -> None:
    """Measure, write the figures, print a table."""
    path, plan = check_out(options.out), Plan(options)
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    with scene(options, plan.methods, plan.links) as stage:
        plan.read(stage)
        settings = plan.settings(stage)
        folder = runs_folder(path)
        commits = keep_settings(folder, settings, commit())
        records = plan.alone(stage, folder / "runs.jsonl")
        crowds = plan.crowds(stage, records, folder / "crowds.jsonl")
    links = {label: {"spec": one.spec, "source": one.source} for label, one in plan.links.items()}
    kept = ("max_new_tokens", "temperature", "seed", "repeat", "limit", "tree", "threads")
    more = ("server_threads", "prompts", "draft_precision")
    facts = head(
        "link", options.given, commits, machine=settings["machine"],
        target={"name": stage.whole.name, "dtype": settings["dtype"]}, links=links,
        settings={name: settings[name] for name in (*kept, *more)},
    )  # fmt: skip
    found = rows(records) + crowd_rows(crowds)
    write({**facts, "rows": found, "scripts": scripts(records, plan.numbers[0])}, path)
    print(table(found))
    print(path)


def table(found: Sequence[dict[str, Any]]) -> str:
    """The main figures as aligned text, a line per row."""
    head = ["link", "method", "numbers", "clients", "ms/token", "first ms", "tau", "calls/100",
            "server s/100", "up B", "down B", "differ"]  # fmt: skip
    names = ("ms_per_token", "first_ms", "tau", "calls_per_100", "server_s_per_100",
             "up_per_token", "down_per_token")  # fmt: skip
    digits = (1, 0, 2, 1, 3, 0, 0)
    lines = [head]
    for row in sorted(found, key=lambda row: row["link"]):
        cells = ["-" if row.get(n) is None else f"{row[n]:.{d}f}" for n, d in zip(names, digits)]  # noqa: B905
        words = [row["link"], row["method"], row["numbers"], str(row["clients"])]
        lines.append([*words, *cells, f"{row['differing']}/{row['runs']}"])
    widths = [max(len(line[at]) for line in lines) for at in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if at > 2 else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )
