"""`bench --profile`: one cycle of each method, split into its pieces, next to what it must take."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from moa_core.arguments import target_of
from moa_core.bench.machine import commit, machine, versions
from moa_core.bench.methods import load_methods
from moa_core.bench.profile_contexts import across_contexts, random_ids, room
from moa_core.bench.profile_rates import Rates, measure_rates
from moa_core.bench.profile_runs import Contender, Profile, profile_all
from moa_core.bench.profile_shapes import random_drafter, random_target, usual_tree
from moa_core.bench.profile_spans import PYTHON, Piece
from moa_core.bench.profile_table import Report, markdown, text
from moa_core.bench.profile_work import Work
from moa_core.bench.suites import load_suite, suite_ids
from moa_core.bench.tuning import SAME, one_tree
from moa_core.checkpoints import known_drafters
from moa_core.errors import UserError
from moa_core.loading import wanted_drafts
from moa_core.names import listed
from moa_core.native.blocks import draft_precision
from moa_core.target import Target
from moa_core.tree import TreeSettings

METHODS = "vanilla,eagle2,moa-n0,moa-n1,moa-n2,moa-n3"
CYCLES = 24  # of a text of random weights


def run(options: argparse.Namespace) -> None:
    """Measure, print a table, write what was asked for. UserError for what cannot be measured."""
    _check(options)
    if options.threads:
        torch.set_num_threads(options.threads)
    lengths = contexts(options.contexts)
    target, contenders, note = _loaded(options, lengths)
    target.graphs = not options.eager
    found, rows = {}, []
    if lengths:
        rows = across_contexts(target, contenders, lengths, CYCLES, options.repeat)
        held = rows[0]["held_mb"] * 1e6
    else:
        prompts, tokens, most = _prompts(options, target, contenders)
        found = profile_all(
            target, contenders, prompts, tokens, options.repeat, most, _eos(options, target)
        )
        held = max(one.held for one in found.values())
    rates = measure_rates(target.device, target.dtype, round(held))
    report = {**_about(target, note, rates), "methods": {}, "contexts": rows}
    report["draft_precision"] = {
        name: draft_precision(target, one.drafter) for name, one in contenders.items()
    }
    for name, profile in found.items():
        report["methods"][name] = entry(profile, contenders[name].tree, name, rates)
    print(text(report))
    _write(options.json, json.dumps(report, indent=1) + "\n")
    _write(options.markdown, markdown(report))


def contexts(words: str | None) -> list[int]:
    """Context lengths, ascending. UserError for anything else than whole numbers."""
    parts = [part.strip() for part in (words or "").split(",") if part.strip()]
    if not all(part.isdigit() and int(part) > 0 for part in parts):
        raise UserError(f"--contexts {words} must be whole numbers, as in 256,1024,4096.")
    return sorted(set(map(int, parts)))


def entry(profile: Profile, tree: TreeSettings, name: str, rates: Rates) -> dict[str, Any]:
    """One method of the report."""
    seconds = profile.pieces
    order = list(dict.fromkeys([*seconds, *profile.work]))
    return {
        "tree": "-" if name == "vanilla" else str(tree),
        "tau": profile.tau,
        "cycles": len(profile.timed),
        "context": profile.context,
        "cycle_ms": 1e3 * profile.cycle,
        "rows": [row(piece, profile, seconds.get(piece, 0.0), rates) for piece in order],
    }


def row(piece: Piece, profile: Profile, seconds: float, rates: Rates) -> dict[str, Any]:
    """One piece of a method's cycle."""
    work = profile.work.get(piece, Work())
    reckons = piece.name == PYTHON and work.ops > 0  # a drafter whose parts have no timers
    return {
        "phase": piece.phase,
        "piece": "not split" if reckons else piece.name,
        "level": piece.level,
        "ms": 1e3 * seconds,
        "floor_ms": 1e3 * rates.floor(work),
        "calls": profile.calls.get(piece, 0.0),
        **asdict(work),
    }


def _check(options: argparse.Namespace) -> None:
    for name in ("repeat", "threads", "limit", "layers"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise UserError(f"--{name} must be a whole number, at least 1.")
    if options.layers and not options.shape:
        raise UserError("--layers goes with --shape: a real model has the layers it has.")
    for path in (options.json, options.markdown):
        if path and (
            path.expanduser().is_dir() or not path.expanduser().absolute().parent.is_dir()
        ):
            raise UserError(f"{path} cannot be written: name a file in a folder that exists.")


def _loaded(
    options: argparse.Namespace, lengths: list[int]
) -> tuple[Target, dict[str, Contender], str]:
    """Target, drafters with their trees, and what must be said of them."""
    names = listed(options.methods or METHODS, known_drafters())
    shape, longest = options.shape, max(lengths, default=0) + 1024
    if not shape:
        target = target_of(options)
        if not lengths or longest <= target.context:
            methods = load_methods(names, target)
            ours = {name: each.drafter for name, each in methods.items() if each.drafter}
            if len(ours) < len(methods) or any(name.startswith("hf-") for name in ours):
                raise UserError("A profile is of our own loop: leave out hf-generate and the like.")
            trees = {name: _tree(options, drafter.tree) for name, drafter in ours.items()}
            return target, _contenders(ours, trees), ""
        note = f"{target.name} has {target.context:,} positions: random weights of its shape. "
        shape = options.target or "bundle"
    else:
        note = "Random weights of this shape. "
    target = random_target(shape, options.layers, longest, options.dtype, options.device)
    target.drafts = wanted_drafts(options.drafts, options.dtype)
    ours = {name: random_drafter(name, target, shape) for name in names}
    trees = {name: _tree(options, usual_tree(name, shape)) for name in names}
    note += "Times hold; hardly a draft is accepted, and τ means nothing."
    return target, _contenders(ours, trees), note


def _contenders(ours: Mapping[str, Any], trees: Mapping[str, TreeSettings]) -> dict[str, Contender]:
    return {name: Contender(drafter, trees[name]) for name, drafter in ours.items()}


def _tree(options: argparse.Namespace, usual: TreeSettings) -> TreeSettings:
    """--tree best: the one that a drafter's config names."""
    if options.tree == "best":
        return usual
    tree = SAME if options.tree == "same" else one_tree(options.tree)
    if tree.auto:
        raise UserError("A profile is of one tree: --tree same, best or depth-breadth-budget.")
    return tree


def _prompts(
    options: argparse.Namespace, target: Target, contenders: Mapping[str, Contender]
) -> tuple[list[list[int]], int, int | None]:
    """Token ids, new tokens, and cycles of a text at most."""
    if target.tokenizer is None:
        return [random_ids(256, target)], room(contenders, CYCLES), CYCLES
    prompts = load_suite(options.suite, options.limit or 1)
    return suite_ids(prompts, target), options.max_new_tokens, None


def _eos(options: argparse.Namespace, target: Target) -> tuple[int, ...]:
    return () if options.ignore_eos else target.eos_ids


def _about(target: Target, note: str, rates: Rates) -> Report:
    """The head of a report."""
    return {
        "version": 1,
        "target": target.name,
        "dtype": str(target.dtype).removeprefix("torch."),
        "note": note,
        "machine": machine(target.device),
        "versions": versions(),
        "commit": commit(),
        "rates": {
            "gb_per_second": rates.bandwidth / 1e9,
            "memory_gb_per_second": rates.memory / 1e9,
            "gflops": rates.ops / 1e9,
            "operator_us": 1e6 * rates.operator,
            "set_mb": rates.set_bytes / 1e6,
        },
    }


def _write(path: Path | None, content: str) -> None:
    if path:
        path.expanduser().write_text(content, encoding="utf-8")
