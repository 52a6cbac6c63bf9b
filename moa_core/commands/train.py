"""Train a target from text, or drafters against a frozen target.

Runs resume where they were after a kill: give the same command again. Several devices or processes:
accelerate launch -m moa_core train ..., with as many --rows in all as one process would take.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from moa_core.arguments import add_form
from moa_core.errors import UserError

if TYPE_CHECKING:
    from moa_core.target import Target
    from moa_core.tree import TreeSettings


SHARES = "plain=0,dialogue=0.35,reading=0.25"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Two sub-commands, target and drafters, with what they share."""
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="target|drafters")
    target = kinds.add_parser("target", help="a target and its tokenizer, from text")
    drafters = kinds.add_parser("drafters", help="drafters, all on the same batches")
    measure = kinds.add_parser("measure", help="what a target can do, as JSON")
    measure.add_argument("--data", required=True, help="folder of text, for held-out loss")
    measure.add_argument("--target", help="bundled name, folder or Hub id")
    measure.add_argument("--tasks", type=int, default=100, help="held-out tasks of each kind")
    measure.add_argument("--device", default="auto")
    measure.add_argument("--drafters", help="their acceptance instead: names, comma separated")
    measure.add_argument("--prompts", type=int, default=6, help="held-out prompts of each kind")
    measure.add_argument("--trees", default="5-4-12", help="depth-breadth-budget, comma separated")
    measure.add_argument("--threads", type=int, help="CPU threads")
    for each in (target, drafters):
        each.add_argument(
            "--data", required=True, help="folder of text; or a data set, by folder or Hub id"
        )
        each.add_argument("--out", type=Path, required=True, help="folder to train into")
        each.add_argument("--updates", type=int, help="optimiser steps")
        each.add_argument("--minutes", type=float, help="instead: as many updates as fit")
        each.add_argument("--stop-at", type=int, help="end at this update of the schedule")
        each.add_argument("--compile", action="store_true", help="torch.compile the costly parts")
        each.add_argument("--muon", action="store_true", help="Muon for the weight matrices")
        each.add_argument("--warmup", type=int, default=150, help="updates to the peak rate")
        each.add_argument("--seed", type=int, default=0)
        each.add_argument("--workers", type=int, default=2, help="processes that prepare epochs")
        each.add_argument("--device", default="auto", help="auto or cpu; accelerate picks the GPUs")
        each.add_argument(
            "--precision",
            default="auto",
            choices=("auto", "bf16", "no"),
            help="auto: accelerate's configured one, else bf16 if fast",
        )
        each.add_argument(
            "--accumulate", type=int, default=1, help="parts that a process's rows are taken in"
        )
        each.add_argument("--log-every", type=int, default=25, help="updates between log lines")
        each.add_argument(
            "--save-every", type=float, default=60, help="seconds between checkpoints"
        )
        each.add_argument(
            "--tensorboard",
            action="store_true",
            help="log for TensorBoard, too, in OUT/tensorboard",
        )
    for each, rows, length, tasks, rate in (
        (target, 16, 256, 150_000, 2.5e-3),
        (drafters, 8, 512, 20_000, 2e-3),
    ):
        each.add_argument(
            "--rows", type=int, default=rows, help="packed rows per update, over all processes"
        )
        each.add_argument("--row-length", type=int, default=length, help="tokens per row")
        each.add_argument("--tasks", type=int, default=tasks, help="generated tasks per epoch")
        each.add_argument("--shares", default=SHARES, help="kinds of document to thin out")
        each.add_argument("--rate", type=float, default=rate, help="peak learning rate")
    target.add_argument("--layers", type=int, default=12)
    target.add_argument("--width", type=int, default=256)
    target.add_argument("--context", type=int, default=1024, help="longest text it can serve")
    target.add_argument("--start", type=Path, help="go on from this target, newly scheduled")
    target.add_argument("--floor", type=float, default=0.05, help="last rate, a share of the peak")
    target.add_argument("--vocabulary", type=int, default=4096)
    drafters.add_argument("--target", help="bundled name, folder or Hub id")
    drafters.add_argument(
        "--target-dtype",
        default="auto",
        choices=("auto", "float32", "bfloat16"),
        help="auto: bfloat16 on a GPU with bf16 precision, else float32",
    )
    add_form(drafters)
    drafters.add_argument("--methods", default="moa-n0,moa-n1,eagle2", help="comma separated")
    drafters.add_argument(
        "--rates", default="", help="peak rates of single methods: moa-n0=2e-3,..."
    )
    drafters.add_argument(
        "--watch", help="suite on which acceptance is measured now and then; default: held-out data"
    )
    drafters.add_argument("--watch-times", type=int, default=8, help="how often, in all")
    drafters.add_argument("--own-tokens", type=int, default=0, help="text the target writes first")
    drafters.add_argument(
        "--start", type=Path, help="folder of drafters to go on from, newly scheduled"
    )
    drafters.add_argument("--draws", type=int, default=1, help="boundary draws per update")
    drafters.add_argument("--block", default="6-14", help="shortest-longest on-policy block")
    drafters.add_argument("--cross-entropy", type=float, default=0.1, help="weight of that loss")
    drafters.add_argument("--feature", type=float, default=1.0, help="weight of the feature loss")


def run(options: argparse.Namespace) -> None:
    """Train, then leave a loadable folder."""
    if options.kind == "measure":
        return _measure(options)
    if (options.updates is None) == (options.minutes is None):
        raise UserError("Say how long to train: give either --updates or --minutes.")
    (_target if options.kind == "target" else _drafters)(options)


def _target(options: argparse.Namespace) -> None:
    from moa_core.train.schedule import Schedule
    from moa_core.train.setup import accelerator_of, data_of
    from moa_core.train.target import TargetSizes, train_target

    heads = options.width // 32
    sizes = TargetSizes(
        layers=options.layers,
        width=options.width,
        heads=heads,
        kv_heads=max(1, heads // 2),
        inner=options.width * 2,
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
    train_target(
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


def _drafters(options: argparse.Namespace) -> None:
    from moa_core.checkpoints import load_target
    from moa_core.loading import Plan
    from moa_core.train.drafters import Plan as Training
    from moa_core.train.drafters import train_drafters
    from moa_core.train.losses import Weights
    from moa_core.train.schedule import Schedule
    from moa_core.train.setup import accelerator_of, data_of, device_map, target_dtype

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
    data = data_of(options.data, options.out, accelerator, stream=not options.own_tokens)
    train_drafters(
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
        watched=_watched(options.watch, target, data) if options.watch_times else None,
        watch_times=options.watch_times,
        log_every=options.log_every,
        save_every=options.save_every,
    )
    accelerator.end_training()


def _watched(suite: str | None, target: Target, data: Path | str) -> dict[str, list[list[int]]]:
    """Prompts by kind on which to measure drafters as they train."""
    from moa_core.train.measure import heldout_prompts

    if suite is None:
        return heldout_prompts(target, data, 2 if isinstance(data, Path) else 8)
    from moa_core.bench.suites import load_suite, suite_ids

    prompts = load_suite(suite, 2)
    watched: dict[str, list[list[int]]] = {prompt.kind: [] for prompt in prompts}
    for prompt, ids in zip(prompts, suite_ids(prompts, target), strict=True):
        watched[prompt.kind].append(ids)
    return watched


def _measure(options: argparse.Namespace) -> None:
    import json

    import torch

    from moa_core.checkpoints import load_drafter, load_target
    from moa_core.train.measure import (
        best_tree,
        heldout_loss,
        heldout_prompts,
        samples,
        task_accuracy,
    )

    if options.threads:
        torch.set_num_threads(options.threads)
    target = load_target(options.target, "float32", options.device)
    if options.drafters:
        prompts = heldout_prompts(target, Path(options.data), options.prompts)
        for name in options.drafters.split(","):
            results = best_tree(target, load_drafter(name, target), prompts, _trees(options.trees))
            print(
                json.dumps(
                    {"drafter": name, "threads": torch.get_num_threads(), "results": results}
                )
            )
        return
    report = {
        "tasks_right": task_accuracy(target, options.tasks),
        "heldout_loss": heldout_loss(target, Path(options.data)),
        "samples": samples(target) + samples(target, sample=True),
    }
    print(json.dumps(report, indent=2, ensure_ascii=False))


def _trees(text: str) -> list[TreeSettings]:
    from moa_core.tree import TreeSettings

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
