"""`bench --offline`: how good is what a drafter writes after the link was cut for ever?"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from tqdm import tqdm

from moa_core.arguments import target_of
from moa_core.bench.link_files import check_out, head, runs_folder, write
from moa_core.bench.machine import commit, machine, versions
from moa_core.bench.methods import checksum
from moa_core.bench.offline_rows import TASKS, TEXTS, rows
from moa_core.bench.offline_runs import (
    STOPS,
    TARGET,
    Item,
    Record,
    after_cut,
    check_able,
    fitting,
    reference,
    stopped,
    task_items,
    text_items,
    unbroken,
)
from moa_core.bench.runs import keep_settings, read_runs
from moa_core.bench.suites import load_suite, suite_hash
from moa_core.drafters.base import Drafter
from moa_core.errors import UserError
from moa_core.loading.checkpoints import bundled_drafters, known_drafters, load_drafter
from moa_core.loading.names import listed
from moa_core.model.target import Target, draft_precision

METHODS = ("moa-n0", "moa-n1", "moa-n2", "moa-n3", "eagle2", "independent", "glide")
EACH = 50  # tasks of each kind, and at most so many stories and dialogues
KEY = ("method", "kind", "item", "cut")


def run(options: argparse.Namespace) -> None:
    """Measure, write the figures, print a table."""
    path, cuts = check_out(options.out), shares(options.cuts)
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()
    if options.threads:
        torch.set_num_threads(options.threads)
    target = target_of(options)
    if target.tokenizer is None:
        raise UserError(f"{target.name} has no tokenizer: tasks are text.")
    drafters = [load_drafter(name, target) for name in methods(options.methods)]
    check_able(drafters)
    each = options.limit or EACH
    prompts = load_suite(options.suite, each)
    items = task_items(target, each, options.seed) + text_items(target, prompts)
    items = fitting(items, target, options.max_new_tokens)
    settings = {
        "suite": options.suite, "prompts": suite_hash(prompts), "each": each, "cuts": cuts,
        "max_new_tokens": options.max_new_tokens, "seed": options.seed, "target": target.name,
        "methods": [drafter.name for drafter in drafters], "weights": _weights(target, drafters),
        "draft_precision": {one.name: draft_precision(target, one) for one in drafters},
        "machine": machine(target.device), "versions": versions(),
    }  # fmt: skip
    folder = runs_folder(path)
    commits = keep_settings(folder, settings, commit())
    records = measure(target, drafters, items, cuts, options.max_new_tokens, folder / "runs.jsonl")
    kept = ("each", "cuts", "max_new_tokens", "seed", "methods", "draft_precision")
    facts = head(
        "offline", options.given, commits, machine=settings["machine"],
        target={"name": target.name}, settings={name: settings[name] for name in kept},
    )  # fmt: skip
    found = rows(records)
    write({**facts, "rows": found}, path)
    print(table(found, TASKS, "right", 100, "% right"))
    print(table(found, TEXTS, "log_prob", 1, "nats a token"))
    print(path)


def methods(text: str | None) -> list[str]:
    """The drafters to compare. UserError if one is named twice."""
    if text is None:
        known = {info.name for info in bundled_drafters()}
        return [name for name in METHODS if name in known]
    names = listed(text, known_drafters())
    if len(set(names)) < len(names) or not names:
        raise UserError("--methods names at least one drafter, and none twice.")
    return names


def shares(text: str) -> list[float]:
    """Percentages as shares: "0,25" -> [0.0, 0.25]. UserError for anything else."""
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or not all(0 <= percent < 100 for percent in found):
        raise UserError(
            f"--cuts are percentages of the answer from 0 to below 100, with commas: not {text!r}."
        )
    return [percent / 100 for percent in found]


def measure(
    target: Target,
    drafters: Sequence[Drafter],
    items: Sequence[Item],
    cuts: Sequence[float],
    most: int,
    path: Path,
) -> list[Record]:
    """Whatever the file lacks is run; returns all records."""
    done = read_runs(path, KEY)
    names = [TARGET, STOPS, *(drafter.name for drafter in drafters)]
    with path.open("a", encoding="utf-8") as file:
        for item in tqdm(items, desc="offline", unit="prompt"):
            keys = [(name, item.kind, item.number, cut) for name in names for cut in cuts]
            if all(key in done for key in keys):
                continue
            for record in _of_item(target, drafters, item, cuts, most):
                done[tuple(record[name] for name in KEY)] = record
                file.write(json.dumps(record, separators=(",", ":")) + "\n")
            file.flush()
    return list(done.values())


def _of_item(
    target: Target, drafters: Sequence[Drafter], item: Item, cuts: Sequence[float], most: int
) -> Iterator[Record]:
    own = reference(target, item, most)
    for cut in cuts:
        yield {**unbroken(target, item, own, cut), "cut": cut}
        yield {**stopped(target, item, own, cut), "cut": cut}
        for drafter in drafters:
            yield {**after_cut(target, drafter, item, own, cut, most), "cut": cut}


def _weights(target: Target, drafters: Sequence[Drafter]) -> dict[str, float]:
    nets = {drafter.name: drafter.net.parameters() for drafter in drafters}
    return {"target": checksum([target.head.weight]), **{k: checksum(v) for k, v in nets.items()}}


def table(found: Sequence[dict[str, Any]], kind: str, figure: str, scale: float, unit: str) -> str:
    """A figure as aligned text: a line per method, a column per cut."""
    mine = [row for row in found if row["kind"] == kind]
    cuts = list(dict.fromkeys(row["cut"] for row in mine))
    lines = [f"{f'{kind}, {unit}':<22}" + "".join(f"{100 * cut:>7g} %" for cut in cuts)]
    for method in dict.fromkeys(row["method"] for row in mine):
        values = [row.get(figure) for row in mine if row["method"] == method]
        cells = ["       - " if v is None else f"{scale * v:>8.2f} " for v in values]
        lines.append(f"{method:<22}" + "".join(cells))
    return "\n".join(lines)
