"""`bench --profile`: where the time of a cycle goes.

Parts of a cycle come from the decode loop's own clock, operators from torch.profiler. What
onnxruntime runs is no operator of torch: its time is in draft and verify alone.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile
from transformers import AutoModelForCausalLM, PretrainedConfig

from moa_core.bench.machine import commit, machine, versions
from moa_core.bench.methods import Method, Ours, Record
from moa_core.bench.results import aligned, shown, speed, tau
from moa_core.bench.run import Contender, in_turn
from moa_core.bench.tuning import one_tree, same_trees
from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Verified
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.base import Drafter
from moa_core.drafters.eagle import EagleDrafter
from moa_core.drafters.known import WITHOUT_WEIGHTS
from moa_core.drafters.moa import MoADrafter
from moa_core.engine import with_graphs
from moa_core.errors import UserError
from moa_core.loading.formats import bare_net
from moa_core.loading.load import Plan, pick_device, pick_dtype
from moa_core.loading.memory import check_room, config_of, planned
from moa_core.loading.names import tli_of
from moa_core.loading.presets import preset
from moa_core.model.target import Target

PARTS = ("draft", "verify", "other")
MOST_OPERATORS = 10
PROFILED = 32  # cycles at most


def run(
    options: argparse.Namespace,
    target: Target,
    methods: Mapping[str, Method],
    prompts: Sequence[Sequence[int]],
) -> None:
    """Measure, print tables, and write --out if it is given.

    prompts  token ids; with --contexts random ones of those lengths take their place
    """
    contenders = _contenders(options, methods)
    lengths: list[Any] = contexts(options.contexts)
    if lengths and lengths[-1] + options.max_new_tokens > target.context:
        raise UserError(
            f"{target.name} has {target.context:,} positions, prompt and "
            f"{options.max_new_tokens} new tokens together: choose smaller --contexts."
        )
    eos_ids = () if options.ignore_eos or options.shape else target.eos_ids
    settings = {
        name: Settings(options.max_new_tokens, one.tree or TreeSettings(), eos_ids=eos_ids)
        for name, one in contenders.items()
    }
    cycles, found_operators = list[Record](), dict[str, Any]()
    for length in lengths or [None]:
        texts = prompts if length is None else [random_ids(length, target)]
        for name, found in times(methods, texts, settings, options.repeat).items():
            tree = str(settings[name].tree) if methods[name].trees else "-"
            cycles.append({"method": name, "tree": tree, "context": length, **found})
    for name, method in methods.items() if not lengths else ():
        assert method.drafter is not None
        found_operators[name] = operators(target, method.drafter, prompts[0], settings[name])
    report = {
        "version": 2, "target": target.name, "dtype": str(target.dtype).removeprefix("torch."),
        "machine": machine(target.device), "versions": versions(), "commit": commit(),
        "cycles": cycles, "operators": found_operators,
    }  # fmt: skip
    print(text(report))
    if options.shape:
        print("\nWeights are random: times hold, τ and tokens/s do not.")
    if options.out:
        words = json.dumps(report, indent=1, ensure_ascii=False)
        options.out.expanduser().write_text(words + "\n", encoding="utf-8")


def check(options: argparse.Namespace) -> None:
    """UserError for what cannot be measured, before any model is loaded."""
    out: Path | None = options.out and options.out.expanduser().absolute()
    if out and (out.is_dir() or not out.parent.is_dir()):
        raise UserError(f"{out} cannot be written: name a file in a folder that exists.")
    if options.tree == "best" or options.grid:
        raise UserError("A profile has one tree for each method: leave out --tree best and --grid.")
    if options.shape and (options.target or options.preset):
        raise UserError("--shape takes the place of a model: leave out --target and --preset.")
    contexts(options.contexts)


def contexts(words: str | None) -> list[int]:
    """Context lengths, ascending. UserError for anything else than whole numbers."""
    parts = [part.strip() for part in (words or "").split(",") if part.strip()]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise UserError(f"--contexts {words} must be whole numbers, as in 256,1024,4096.")
    return sorted(set(map(int, parts)))


def random_ids(count: int, target: Target) -> list[int]:
    """Token ids that mean nothing; the same for the same count."""
    draw = random.Random(count)
    return [draw.randrange(target.config.vocab_size) for _ in range(count)]


def times(
    methods: Mapping[str, Method],
    prompts: Sequence[Sequence[int]],
    settings: Mapping[str, Settings],
    repeats: int,
) -> dict[str, dict[str, Any]]:
    """Of each method: milliseconds of a mean cycle by part, τ and tokens/s. Methods take turns."""
    for name, method in methods.items():
        method.run(prompts[0], settings[name])  # warms up: caches, CUDA graphs
    runs: dict[str, list[Record]] = {name: [] for name in methods}
    for _, place, name in in_turn(list(methods), repeats, prompts):
        runs[name].append(methods[name].run(prompts[place], settings[name]))
    return {
        name: {"ms": parts(found), "tau": tau(found), "tokens_per_second": speed(found)}
        for name, found in runs.items()
    }


def parts(runs: Sequence[Record]) -> dict[str, float]:
    """Milliseconds of a mean cycle by part."""
    cycles = [record["cycles"] for record in runs]
    count = max(1, sum(len(one["gained"]) for one in cycles))
    return {part: sum(sum(one[f"{part}_us"]) for one in cycles) / count / 1e3 for part in PARTS}


def operators(
    target: Target, drafter: Drafter, ids: Sequence[int], settings: Settings
) -> list[dict[str, Any]]:
    """The operators that take most time themselves, largest first: name, ms and calls of a cycle.

    On a GPU its kernels. The first cycle of the text is left out.
    """
    gpu = target.device.type == "cuda"
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if gpu else [])]
    seen, cycles = profile(activities=activities), -1
    with ExitStack() as stack:
        for event in decode(target, drafter, ids, settings):
            if isinstance(event, Verified):
                cycles += 1
                if cycles == 0:
                    stack.enter_context(seen)
                if cycles == PROFILED:
                    break
    if cycles < 1:
        return []
    found = [
        {
            "operator": one.key,
            "ms": (one.self_device_time_total if gpu else one.self_cpu_time_total) / cycles / 1e3,
            "calls": one.count / cycles,
        }
        for one in seen.key_averages()
        if not gpu or one.device_type.name == "CUDA"
    ]
    return sorted(found, key=lambda one: -one["ms"])[:MOST_OPERATORS]


def text(report: Mapping[str, Any]) -> str:
    """The report's tables for a terminal."""
    heads = ["method", "tree", "context", *PARTS, "cycle ms", "τ", "tokens/s"]
    rows = [
        [
            one["method"], one["tree"], "-" if one["context"] is None else f"{one['context']:,}",
            *(f"{ms:.2f}" for ms in one["ms"].values()), f"{sum(one['ms'].values()):.2f}",
            shown(one["tau"], 2), shown(one["tokens_per_second"], 0),
        ]
        for one in report["cycles"]
    ]  # fmt: skip
    tables = [aligned([heads, *rows])]
    for name, found in report["operators"].items():
        lines = [[one["operator"], f"{one['ms']:.3f}", f"{one['calls']:.1f}"] for one in found]
        tables.append(aligned([[f"{name}: operator", "ms a cycle", "calls a cycle"], *lines]))
    return "\n\n".join(tables)


def _contenders(options: argparse.Namespace, methods: Mapping[str, Method]) -> dict[str, Contender]:
    """Each method with the tree of --tree, or else its own: with --shape the preset's."""
    if not all(isinstance(method, Ours) for method in methods.values()):
        raise UserError("A profile is of our own loop: leave out hf-generate and the like.")
    if options.tree:
        return same_trees(methods, one_tree("5-4-12" if options.tree == "same" else options.tree))
    if options.shape:
        return same_trees(methods, TreeSettings(*preset(options.shape).tree))
    return {
        name: Contender(method, method.drafter.tree if method.drafter and method.trees else None)
        for name, method in methods.items()
    }


def random_methods(
    shape: str, names: Sequence[str], context: int, dtype: str, device: str, eager: bool = False
) -> tuple[Target, dict[str, Method]]:
    """A preset's target with random weights, and drafters for it by their methods' names.

    context  positions that the target must have at least. UserError if all of it cannot fit.
    eager    no CUDA graphs
    """
    chosen, where = preset(shape), pick_device(device)
    config = config_of(chosen.configs[chosen.target])
    drafted = [chosen.configs[spec] for spec in chosen.by_method.values()]
    needs = [planned(published, config) for published in drafted]
    check_room(shape, config, pick_dtype(dtype, where), where, Plan(), needs)
    target = random_target(shape, context, dtype, device)
    target = target if eager else with_graphs(target)
    return target, {name: Ours(name, target, random_drafter(name, target, shape)) for name in names}


def random_target(shape: str, context: int, dtype: str, device: str) -> Target:
    """The target of a preset with random weights."""
    chosen, where = preset(shape), pick_device(device)
    config = config_of(chosen.configs[chosen.target])
    config.max_position_embeddings = max(context, config.max_position_embeddings)
    torch.manual_seed(0)
    with torch.device(where):
        model = AutoModelForCausalLM.from_config(config, dtype=pick_dtype(dtype, where))
    return Target(model.requires_grad_(False), name=f"{shape} with random weights")


def random_drafter(method: str, target: Target, shape: str) -> Drafter:
    """A preset's drafter with random weights: plain decoding, ngram, eagle2 or MoA with any N."""
    if method in WITHOUT_WEIGHTS:
        return WITHOUT_WEIGHTS[method]()
    chosen = preset(shape)
    tli = tli_of(method)
    if method != "eagle2" and method != f"moa-n{tli}":
        raise UserError(f"{shape} has no {method}: choose from vanilla, ngram, eagle2, moa-n0 ...")
    spec = chosen.by_method.get(method if method == "eagle2" else "moa-n0")
    if spec is None:
        raise UserError(f"{shape} has no {method}: choose from {', '.join(chosen.by_method)}.")
    net: Any = random_net(chosen.configs[spec], target.config, target.dtype, target.device)
    return EagleDrafter(net, target) if method == "eagle2" else MoADrafter(net, target, tli, method)


def random_net(
    published: Mapping[str, Any],
    target: PretrainedConfig,
    dtype: torch.dtype = torch.float32,
    device: str | torch.device = "cpu",
) -> nn.Module:
    """A drafter's net of a published config with random weights."""
    torch.manual_seed(3)
    net = bare_net(published, target).to(dtype).to_empty(device=device)
    with torch.no_grad():
        for name, weight in net.named_parameters():
            if weight.ndim == 1:
                weight.fill_(float("norm" in name))
            else:
                weight.normal_(std=weight.shape[1] ** -0.5)
    return net.requires_grad_(False).eval()
