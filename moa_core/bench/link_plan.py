"""Which runs `bench --link` wants, and making those that are not there yet."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tqdm import tqdm

from moa_core.bench.link_load import Part, crowd, rehearse
from moa_core.bench.link_runs import Record, run_once
from moa_core.bench.link_scene import (
    DIRECT,
    LOCAL,
    STREAM,
    Cell,
    Scene,
    counts,
    named_links,
    named_methods,
)
from moa_core.bench.machine import machine, versions
from moa_core.bench.methods import checksum
from moa_core.bench.runs import Decoding, in_turn, read_runs
from moa_core.bench.suites import load_suite, suite_hash, suite_ids
from moa_core.bench.tuning import SAME, one_tree
from moa_core.decode import Settings
from moa_core.errors import UserError
from moa_core.link.numbers import check_kind
from moa_core.names import VANILLA
from moa_core.native.blocks import draft_precision
from moa_core.tree import TreeSettings

EACH = 2  # prompts of each kind
ROOT = TreeSettings(1, 1, 1)  # plain decoding drafts nothing, and needs no room for it
KEY = ("method", "link", "numbers", "clients", "repeat", "prompt")
PLAIN = (STREAM, VANILLA)
ALIKE = (*PLAIN, "independent")  # no numbers travel


class Plan:
    """What was asked for. UserError if it cannot be measured."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.methods = named_methods(options.methods)
        self.links = named_links(options.link)
        self.numbers = [check_kind(part.strip()) for part in options.numbers.split(",")]
        self.clients = counts(options.clients)
        if options.tree in ("auto", "best"):
            raise UserError("Over a link all share a tree: --tree same, or depth-breadth-budget.")
        self.tree = SAME if options.tree == "same" else one_tree(options.tree)
        self.limit = options.limit or EACH
        self.prompts = load_suite(options.suite, self.limit)
        Decoding(options.max_new_tokens, options.temperature).settings(None, 0, 0)

    def read(self, stage: Scene) -> None:
        """The prompts as the target reads them."""
        options = self.options
        self.ids = suite_ids(self.prompts, stage.whole)
        eos_ids = () if options.ignore_eos else stage.whole.eos_ids
        self.decoding = Decoding(options.max_new_tokens, options.temperature, options.seed, eos_ids)

    def settings(self, stage: Scene) -> dict[str, Any]:
        """What a resumed run must share with its beginning."""
        options = self.options
        names = ("suite", "max_new_tokens", "temperature", "seed", "ignore_eos", "repeat")
        nets = {name: getattr(drafter, "net", None) for name, drafter in stage.drafters.items()}
        return {
            **{name: getattr(options, name) for name in names},
            "limit": self.limit, "tree": asdict(self.tree), "threads": stage.threads,
            "server_threads": stage.server_threads, "prompts": len(self.prompts),
            "suite_hash": suite_hash(self.prompts),
            "links": {label: one.spec for label, one in self.links.items()},
            "numbers": self.numbers, "clients": self.clients, "methods": self.methods,
            "draft_precision": {
                name: draft_precision(stage.target, one) for name, one in stage.drafters.items()
            },
            "dtype": str(stage.whole.dtype).removeprefix("torch."),
            "weights": {
                "target": checksum([stage.whole.head.weight]),
                **{name: checksum(net.parameters()) for name, net in nets.items() if net},
            },
            "machine": _machine(stage), "versions": versions(),
        }  # fmt: skip

    def cells(self) -> list[Cell]:
        """Every combination for one client, and local decoding."""
        drafters = [name for name in self.methods if name not in PLAIN]
        local = [Cell(name, LOCAL, "f32") for name in (VANILLA, *drafters)]
        return local + [
            Cell(method, label, kind)
            for label in self.links
            for method in self.methods
            for kind in (self.numbers[:1] if method in ALIKE else self.numbers)
        ]

    def one(self, method: str, repeat: int, place: int) -> Settings:
        """The settings of a run."""
        tree = ROOT if method in PLAIN else self.tree
        return self.decoding.settings(tree, repeat, self.prompts[place].number)

    def alone(self, stage: Scene, path: Path) -> list[Record]:
        """One client at a time: whatever the file lacks, all cells for a prompt before the next."""
        cells = self.cells()
        wanted = [
            (_key(cell, repeat, self.prompts[place].number), cell, repeat, place)
            for repeat, place, cell in in_turn(cells, self.options.repeat, self.ids)
        ]
        for cell in cells:
            if cell.link in (LOCAL, DIRECT):  # warm up
                run_once(stage, cell, self.ids[0], self.one(cell.method, 0, 0))

        def job(cell: Cell, repeat: int, place: int) -> Record:
            settings = self.one(cell.method, repeat, place)
            record = run_once(stage, cell, self.ids[place], settings)
            return {name: value for name, value in record.items() if name != "trace"}

        return _all(wanted, path, "link", job)

    def crowds(self, stage: Scene, records: Sequence[Record], path: Path) -> list[Record]:
        """Several clients at once, over every link with one."""
        cells = [
            Cell(method, label, self.numbers[0], clients)
            for clients in self.clients if clients > 1
            for label in self.links if label != DIRECT
            for method in self.methods
        ]  # fmt: skip
        if not cells:
            return []
        wanted = [
            (_key(cell, repeat, 0), cell, repeat, 0)
            for repeat, _, cell in in_turn(cells, self.options.repeat, [0])
        ]
        texts = [
            next(
                record["output"] for record in records
                if record["method"] == VANILLA
                and record["link"] == LOCAL
                and record["prompt"] == prompt.number
            )
            for prompt in self.prompts
        ]  # fmt: skip
        parts: dict[str, list[Part]] = {}

        def job(cell: Cell, repeat: int, place: int) -> Record:
            def settings(at: int) -> Settings:
                return self.one(cell.method, 0, at)

            if cell.method not in parts:
                parts[cell.method] = rehearse(stage, cell, self.ids, settings)
            return crowd(stage, cell, self.ids, parts[cell.method], settings, texts)

        return _all(wanted, path, "clients", job)


def _key(cell: Cell, repeat: int, number: int) -> tuple[Any, ...]:
    return cell.method, cell.link, cell.numbers, cell.clients, repeat, number


def _all(
    wanted: Sequence[tuple[tuple[Any, ...], Cell, int, int]], path: Path, title: str,
    job: Callable[[Cell, int, int], Record],
) -> list[Record]:  # fmt: skip
    """The records of these runs, oldest first: from the file, or else made and put there."""
    done = read_runs(path, KEY)
    missing = [each for each in wanted if each[0] not in done]
    with path.open("a", encoding="utf-8") as file:
        bar = tqdm(missing, desc=title, unit="run", initial=len(wanted) - len(missing),
                   total=len(wanted))  # fmt: skip
        for key, cell, repeat, place in bar:
            record = {**dict(zip(KEY, key, strict=True)), **job(cell, repeat, place)}
            done[key] = record
            file.write(json.dumps(record, separators=(",", ":")) + "\n")
            file.flush()
    return [done[key] for key, *_ in wanted]


def _machine(stage: Scene) -> dict[str, Any]:
    facts = machine(stage.whole.device)
    del facts["threads"]  # two processes: see threads and server_threads
    return facts
