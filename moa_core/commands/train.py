"""Train a target from text, or drafters against a frozen target.

Runs resume where they were after a kill: give the same command again. Several devices or processes:
accelerate launch -m moa_core train ..., with as many --rows in all as one process would take.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from moa_core.errors import UserError
from moa_core.train import arguments

if TYPE_CHECKING:
    from moa_core.decoding.tree import TreeSettings
    from moa_core.model.target import Target

NONE_HELD_OUT = (
    "{} has no held-out text to measure on: 2 % of the documents are held out, of 50 or more."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Sub-commands target, drafters and measure."""
    arguments.add_arguments(parser)


def run(options: argparse.Namespace) -> None:
    """Train, then leave a loadable folder; or measure."""
    arguments.check(options)
    if options.kind == "measure":
        return _measure(options)
    if options.compile:
        print("The first update waits for torch.compile.", flush=True)
    try:
        (_target if options.kind == "target" else _drafters)(options)
    except KeyboardInterrupt as stop:
        kept = f"Stopped; the same command goes on with what {options.out} holds."
        raise KeyboardInterrupt(str(stop) or kept) from None


def _target(options: argparse.Namespace) -> None:
    from moa_core.train.arguments import accelerator_of, data_of
    from moa_core.train.loop import Schedule
    from moa_core.train.target import TargetSizes, train_target

    sizes = TargetSizes.of_width(
        options.width,
        options.heads,
        layers=options.layers,
        vocabulary=options.vocabulary,
        context=options.context,
    )
    schedule = Schedule(
        options.updates,
        {"": options.rate},
        options.minutes,
        options.warmup,
        options.floor,
        decay=0.1,
        muon=options.muon,
    )
    accelerator = accelerator_of(options)
    data = data_of(options.data, options.out, accelerator, stream=False)
    assert isinstance(data, Path)
    example = train_target(
        data,
        options.out,
        schedule,
        sizes=sizes,
        rows=options.rows,
        tasks=options.tasks,
        shares=_shares(options.shares),
        start=options.start,
        row_length=options.row_length,
        seed=options.seed,
        workers=options.workers,
        compile_model=options.compile,
        stop_at=options.stop_at,
        accelerator=accelerator,
        log_every=options.log_every,
        save_every=options.save_every,
    )
    accelerator.end_training()
    if accelerator.is_main_process:
        print(arguments.next_after_target(options, example))


def _drafters(options: argparse.Namespace) -> None:
    from moa_core.loading.load import Plan, load_target
    from moa_core.train.arguments import accelerator_of, data_of, device_map, target_dtype
    from moa_core.train.drafters import Plan as Training
    from moa_core.train.drafters import train_drafters
    from moa_core.train.loop import Schedule
    from moa_core.train.losses import Weights

    accelerator = accelerator_of(options)
    dtype = target_dtype(options, accelerator)
    plan = Plan(options.bits, device_map(options, accelerator))
    target = load_target(options.target, dtype, str(accelerator.device), plan)
    if target.tokenizer is None:
        raise UserError(f"{target.name} has no tokenizer: text cannot be turned into its tokens.")
    training = Training(
        methods=tuple(options.methods.split(",")),
        rows=options.rows,
        row_length=options.row_length,
        tasks=options.tasks,
        shares=_shares(options.shares),
        own_tokens=options.own_tokens,
        draws=options.draws,
        block=_block(options.block),
        weights=Weights(options.cross_entropy, options.feature),
        seed=options.seed,
        start=options.start,
    )
    rates = {"": options.rate, **dict(_shares(options.rates, "--rates"))}
    schedule = Schedule(options.updates, rates, options.minutes, options.warmup, muon=options.muon)
    options.out.mkdir(parents=True, exist_ok=True)
    tokenizer = options.out / "tokenizer"
    if accelerator.is_main_process:
        target.tokenizer.save_pretrained(tokenizer)
    accelerator.wait_for_everyone()
    # A streamed data set is trained on as it is: for more than that it is brought into a folder.
    whole = bool(options.own_tokens or options.tasks or training.shares)
    data = data_of(options.data, options.out, accelerator, stream=not whole)
    example = train_drafters(
        target,
        data,
        tokenizer,
        options.out,
        schedule,
        training,
        workers=options.workers,
        stop_at=options.stop_at,
        compiled=options.compile,
        accelerator=accelerator,
        watched=_watched(options, target, data) if options.watch_times else None,
        watch_times=options.watch_times,
        log_every=options.log_every,
        save_every=options.save_every,
    )
    accelerator.end_training()
    if accelerator.is_main_process:
        print(arguments.next_after_drafters(options, training.methods, example))


def _watched(
    options: argparse.Namespace, target: Target, data: Path | str
) -> dict[str, list[list[int]]] | None:
    """Prompts by kind on which to measure drafters as they train; None, said, for want of any."""
    from moa_core.train.measure import heldout_prompts

    if options.watch is None:
        found = heldout_prompts(target, data, 2 if isinstance(data, Path) else 8, options.tasks)
        if not found:
            print(
                f"{NONE_HELD_OUT.format(options.data)} So acceptance is not measured as they "
                "train, and the last weights are kept; --watch tuning measures on other prompts."
            )
        return found or None
    from moa_core.bench.suites import load_suite, suite_ids

    prompts = load_suite(options.watch, 2)
    watched: dict[str, list[list[int]]] = {prompt.kind: [] for prompt in prompts}
    for prompt, ids in zip(prompts, suite_ids(prompts, target), strict=True):
        watched[prompt.kind].append(ids)
    return watched


def _measure(options: argparse.Namespace) -> None:
    import json

    import torch

    from moa_core.loading.load import load_drafter, load_target
    from moa_core.train.measure import (
        best_tree,
        heldout_loss,
        heldout_prompts,
        samples,
        task_accuracy,
    )

    if options.threads:
        torch.set_num_threads(options.threads)
    target, data = load_target(options.target, "float32", options.device), Path(options.data)
    prompts = heldout_prompts(target, data, options.prompts, options.tasks)
    if not prompts:
        raise UserError(f"{NONE_HELD_OUT.format(data)} --tasks 100 measures on generated tasks.")
    if options.drafters:
        for name in options.drafters.split(","):
            results = best_tree(target, load_drafter(name, target), prompts, _trees(options.trees))
            print(
                json.dumps(
                    {"drafter": name, "threads": torch.get_num_threads(), "results": results}
                )
            )
        return
    asked = [ids for of_kind in prompts.values() for ids in of_kind[:1]]
    report = {
        "tasks_right": task_accuracy(target, options.tasks) if options.tasks else None,
        "heldout_loss": heldout_loss(target, data, tasks=6 * options.tasks),
        "samples": samples(target, asked) + samples(target, asked, sample=True),
    }
    print(json.dumps(report, indent=2, ensure_ascii=False))


def _trees(text: str) -> list[TreeSettings]:
    from moa_core.decoding.tree import TreeSettings

    try:
        parts = [tuple(map(int, item.split("-"))) for item in text.split(",")]
        shapes = [(depth, breadth, budget) for depth, breadth, budget in parts]
    except ValueError:
        raise UserError(f"--trees {text} must be depth-breadth-budget, as in 5-4-12.") from None
    return [TreeSettings(*shape) for shape in shapes]


def _block(text: str) -> tuple[int, int]:
    low, _, high = text.partition("-")
    if not (low.isdigit() and high.isdigit() and 0 < int(low) <= int(high)):
        raise UserError(f"--block {text} is no range: write shortest-longest, as in 6-14.")
    return int(low), int(high)


def _shares(text: str, option: str = "--shares") -> tuple[tuple[str, float], ...]:
    try:
        pairs = (item.split("=") for item in text.split(",") if item)
        return tuple((kind, float(share)) for kind, share in pairs)
    except ValueError:
        raise UserError(
            f"{option} {text} is no list of name=number, as in plain=0,dialogue=0.5."
        ) from None
