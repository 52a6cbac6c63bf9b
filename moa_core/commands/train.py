"""Train a target from text, or drafters against a frozen target.

To continue an interrupted run, repeat the command.
"""

from __future__ import annotations

import argparse
import math
import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moa_core.arguments import SPEC, Help, add_form, check_folder, named, numbers, path
from moa_core.errors import UserError
from moa_core.loading.names import listed

if TYPE_CHECKING:
    from moa_core.model.target import Target
    from moa_core.train.loop import Machine

# The smallest value, if not 0. `minutes` and `rate` must be above 0.
AT_LEAST = {
    "updates": 1, "stop_at": 1, "workers": 1, "accumulate": 1, "rows": 1,
    "row_length": 2, "layers": 1, "width": 32, "heads": 1, "context": 2, "vocabulary": 262,
    "threads": 1,
}  # fmt: skip
NONE_HELD_OUT = (
    "{} has no held-out text to measure on: 2 % of the documents are held out, of 50 or more."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(
        dest="kind", required=True, metavar="target|drafters|export|measure"
    )

    def command(name: str, text: str) -> argparse.ArgumentParser:
        return kinds.add_parser(name, help=text, description=text, formatter_class=Help)

    _add_training(command("target", "Train a target and its tokenizer on your text."), False)
    _add_training(command("drafters", "Train drafters for a target on your text."), True)
    _add_export(command("export", "Write trained drafters in eight bits, of a run that may go on."))
    _add_measure(command("measure", "Measure what a target can do, as JSON."))


def _add(group: Any, name: str, default: Any, text: str, **more: Any) -> None:
    """An option with its default's type, or with a type and no default."""
    if default is False:
        group.add_argument(f"--{name}", action="store_true", help=text)
    elif callable(default):
        group.add_argument(f"--{name}", type=default, help=text, **more)
    else:
        group.add_argument(f"--{name}", type=type(default), default=default, help=text, **more)


def _add_training(parser: argparse.ArgumentParser, drafters: bool) -> None:
    # fmt: off
    rows, length = (8, 512) if drafters else (16, 256)  # the same number of tokens in an update
    text = parser.add_argument_group("text")
    _add(text, "data", named, "folder of .txt, .txt.gz, .jsonl or .jsonl.gz files; or a data set, "
         "by folder or Hub id", required=not drafters)
    if drafters:
        _add(text, "prompts", path, "file of JSON lines, each with a `prompt` or `messages`, which "
             "the target answers first")
        _add(text, "own-tokens", 1_000_000, "tokens of these answers; with --data, half of the "
             "training text")
        _add(text, "draft-vocabulary", 0, "draft only the most frequent tokens of the replies, "
             "this many; 0: all")
    _add(text, "rows", rows, "packed rows per update")
    _add(text, "row-length", length, "tokens per row")
    _add(text, "seed", 0, "of order, first weights and all draws")

    run = parser.add_argument_group("length of the run", "--updates or --minutes is needed")
    _add(run, "updates", int, "optimiser steps")
    _add(run, "minutes", float, "instead: as many updates as fit")
    _add(run, "stop-at", int, "end at this update of the schedule")

    model = parser.add_argument_group("model")
    _add(model, "out", path, "folder to train into", required=True)
    if drafters:
        _add(model, "target", str, f"{SPEC}; default: the bundled one")
        _add(model, "methods", "moa-n0,moa-n1,eagle2", "comma separated")
        _add(model, "start", path, "folder of drafters to go on from, newly scheduled")
        _add(model, "watch", str, "suite (bundled, tuning or a file) on which acceptance is "
             "measured as they train; default: held-out text")
        _add(model, "watch-times", 8, "how often, in all; 0: the last weights are kept")
    else:
        _add(model, "start", str, f"go on from this target, newly scheduled: {SPEC}")
        _add(model, "new-tokenizer", False, "with --start: learn a new tokenizer from the text")
        _add(model, "layers", 12, "decoder layers")
        _add(model, "width", 256, "hidden size")
        _add(model, "heads", int, "attention heads; default: heads of 64. Half as many for K and V")
        _add(model, "context", 1024, "longest text it can serve")
        _add(model, "vocabulary", 4096, "tokens of its tokenizer")

    optimiser = parser.add_argument_group("optimiser")
    _add(optimiser, "rate", 2e-3 if drafters else 2.5e-3, "peak learning rate")
    if drafters:
        _add(optimiser, "rates", "", "peak rates of some methods: moa-n0=2e-3,...")
        _add(optimiser, "cross-entropy", 0.1, "weight of that loss")
        _add(optimiser, "feature", 1.0, "weight of the feature loss")
    else:
        _add(optimiser, "floor", 0.05, "last rate, a share of the peak")
    _add(optimiser, "warmup", 150, "updates to the peak rate")
    _add(optimiser, "muon", False, "Muon for the weight matrices, else AdamW for all")

    machine = parser.add_argument_group("machine")
    _add(machine, "device", "auto", "auto: a GPU if there is one", choices=("auto", "cpu"))
    _add(machine, "precision", "auto", "auto: bf16 where it is fast",
         choices=("auto", "bf16", "no"))
    if drafters:
        add_form(machine)
        _add(machine, "workers", 2, "processes that write the target's own text")
    _add(machine, "compile", False, "torch.compile the costly parts")
    _add(machine, "accumulate", 1, "parts that the rows of an update are split into")
    _add(machine, "save-every", 60.0, "seconds between checkpoints")
    # fmt: on


def _add_export(parser: argparse.ArgumentParser) -> None:
    _add(parser, "trained", path, "folder that drafters are trained into", required=True)
    _add(parser, "out", path, "folder for a folder of each", required=True)
    _add(parser, "target", str, f"{SPEC}; default: the bundled one")


def _add_measure(parser: argparse.ArgumentParser) -> None:
    # fmt: off
    _add(parser, "data", path, "folder of text, for its held-out documents", required=True)
    _add(parser, "target", str, f"{SPEC}; default: the bundled one")
    _add(parser, "tasks", 0, "held-out generated tasks of each kind to answer")
    _add(parser, "device", "auto", "auto, cpu, cuda, mps")
    _add(parser, "threads", int, "CPU threads")
    # fmt: on


def run(options: argparse.Namespace) -> None:
    _check(options)
    if options.kind == "measure":
        return _measure(options)
    if options.kind == "export":
        return _export(options)
    if options.compile:
        print("The first update waits for torch.compile.", flush=True)
    try:
        (_target if options.kind == "target" else _drafters)(options)
    except KeyboardInterrupt as stop:
        kept = f"Stopped; the same command goes on with what {options.out} holds."
        raise KeyboardInterrupt(str(stop) or kept) from None


def _check(options: argparse.Namespace) -> None:
    """UserError, naming the option, for a number out of range."""
    for name, value in vars(options).items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        option, least = f"--{name.replace('_', '-')}", AT_LEAST.get(name, 0)
        if not math.isfinite(value):
            raise UserError(f"{option} must be a finite number.")
        if name in ("minutes", "rate") and value <= 0:
            raise UserError(f"{option} must be above 0.")
        if value < least:
            raise UserError(f"{option} must be at least {least}.")
    if options.kind == "measure":
        return
    check_folder(options.out)
    if options.kind == "export":
        return
    if options.kind == "drafters" and options.data is None and options.prompts is None:
        raise UserError("Say what to train on: give --data, --prompts or both.")
    if (options.updates is None) == (options.minutes is None):
        raise UserError("Say how long to train: give either --updates or --minutes.")
    if options.kind == "target" and options.new_tokenizer and options.start is None:
        raise UserError("--new-tokenizer goes with --start: without it every tokenizer is new.")


def _target(options: argparse.Namespace) -> None:
    from moa_core.train.loop import Schedule
    from moa_core.train.target import TargetSizes, train_target

    more = {name: getattr(options, name) for name in ("layers", "vocabulary", "context")}
    sizes = TargetSizes.of_width(options.width, options.heads, **more)
    schedule = Schedule(
        options.updates, {"": options.rate}, options.minutes, options.warmup, options.floor, 0.1,
        muon=options.muon,
    )  # fmt: skip
    data = _data(options)
    assert data is not None, "it is required"
    train_target(
        data, options.out, schedule, sizes=sizes, rows=options.rows,
        start=options.start, new_tokenizer=options.new_tokenizer, row_length=options.row_length,
        seed=options.seed, machine=_machine(options),
    )  # fmt: skip
    target = ("--target", str(options.out))
    drafters = options.out.with_name(f"{options.out.name}-drafters")
    length = "--minutes" if options.minutes else "--updates"
    _tell_next(
        f"The target is in {options.out}.",
        ("generate", *target, "--drafter", "vanilla", "--prompt", "Once upon a time"),
        ("train", "drafters", *target, "--data", options.data, "--out", str(drafters),
         length, f"{options.minutes or options.updates:g}", "--rows", str(options.rows),
         "--row-length", str(min(options.row_length, options.context))),
    )  # fmt: skip


def _drafters(options: argparse.Namespace) -> None:
    from moa_core.loading.load import load_target
    from moa_core.train.drafters import OTHERS, Plan, train_drafters
    from moa_core.train.loop import Schedule
    from moa_core.train.losses import Weights

    methods = listed(options.methods, OTHERS)
    rates = numbers("--rates", options.rates, "moa-n0=2e-3,eagle2=1e-3")
    if unknown := [name for name in rates if name not in methods]:
        raise UserError(f"--rates names {unknown[0]!r}, which is not among --methods.")
    machine = _machine(options)
    # A frozen target uses the precision of the computation.
    dtype = "bfloat16" if machine.bf16 and machine.device == "cuda" else "float32"
    target = load_target(options.target, dtype, machine.device, bits=options.bits)
    if target.tokenizer is None:
        raise UserError(f"{target.name} has no tokenizer: text cannot be turned into its tokens.")
    plan = Plan(
        methods=tuple(methods), rows=options.rows, seed=options.seed,
        row_length=options.row_length, prompts=options.prompts, own_tokens=options.own_tokens,
        words=options.draft_vocabulary, start=options.start,
        weights=Weights(options.cross_entropy, options.feature),
    )  # fmt: skip
    schedule = Schedule(
        options.updates, {"": options.rate, **rates}, options.minutes, options.warmup,
        muon=options.muon,
    )  # fmt: skip
    options.out.mkdir(parents=True, exist_ok=True)
    tokenizer = options.out / "tokenizer"
    target.tokenizer.save_pretrained(tokenizer)
    data = _data(options)
    train_drafters(
        target, data, tokenizer, options.out, schedule, plan, machine,
        _watched(options, target, data) if options.watch_times else None, options.watch_times,
    )  # fmt: skip
    folders = [str(options.out / method) for method in methods]
    form = (f"--load-in-{options.bits}bit",) if options.bits else ()
    asked = ("--target", options.target) if options.target else ()
    line = ("generate", *asked, *form, "--drafter", folders[0], "--prompt", "Once upon a time")
    _tell_next(f"Trained: {', '.join(folders)}.", line)


def _export(options: argparse.Namespace) -> None:
    from moa_core.loading.load import load_target
    from moa_core.train.drafters import export

    target = load_target(options.target, "float32", "cpu")
    names = export(target, options.trained, options.out)
    print(f"Written: {', '.join(str(options.out / name) for name in names)}.")


def _data(options: argparse.Namespace) -> Path | None:
    """The folder of text, or the one into which a data set is fetched from the Hub or a folder."""
    from moa_core.train.corpus import fetch, has_rows, has_text

    if options.data is None:
        return None
    folder, name = Path(os.path.expanduser(options.data)), options.data
    if os.path.isdir(folder):
        if has_text(folder) or not has_rows(folder):
            return folder  # reading it reports missing text
        name = str(folder)
    elif folder.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1:
        raise UserError(f"There is no folder {name}.")
    return fetch(name, options.out / "data")


def _machine(options: argparse.Namespace) -> Machine:
    import torch

    from moa_core.train.loop import Machine

    cpu = options.device == "cpu" or not torch.cuda.is_available()
    fast = not cpu or torch.cpu._is_amx_tile_supported()
    bf16 = options.precision == "bf16" or (options.precision == "auto" and fast)
    return Machine(
        "cpu" if cpu else "cuda", bf16, options.accumulate, options.compile,
        getattr(options, "workers", 1), options.stop_at, options.save_every,
    )  # fmt: skip


def _tell_next(result: str, *lines: Sequence[str]) -> None:
    commands = "\n".join(f"  {shlex.join(('python', '-m', 'moa_core', *line))}" for line in lines)
    print(f"{result} Next (--raw goes on from plain text):\n\n{commands}")


def _watched(
    options: argparse.Namespace, target: Target, data: Path | None
) -> dict[str, list[list[int]]] | None:
    """Prompts by kind for measuring drafters during training; None if there are none."""
    from moa_core.train.measure import heldout_chats, heldout_prompts

    if options.watch is None:
        if options.prompts is not None:
            return heldout_chats(target, options.prompts, 4)
        found = heldout_prompts(target, data, 2) if data else {}
        if not found:
            print(
                f"{NONE_HELD_OUT.format(options.data)} So acceptance is not measured as they "
                "train, and the last weights are kept; --watch tuning measures on other prompts."
            )
        return found or None
    from moa_core.bench.suites import load_suite, suite_ids

    prompts = load_suite(options.watch, 2)
    watched: dict[str, list[list[int]]] = {}
    for prompt, ids in zip(prompts, suite_ids(prompts, target), strict=True):
        watched.setdefault(prompt.kind, []).append(ids)
    return watched


def _measure(options: argparse.Namespace) -> None:
    import json

    import torch

    from moa_core.loading.load import load_target
    from moa_core.train import measure

    if options.threads:
        torch.set_num_threads(options.threads)
    target, data = load_target(options.target, "float32", options.device), options.data
    prompts = measure.heldout_prompts(target, data, 1)
    if not prompts:
        raise UserError(NONE_HELD_OUT.format(data))
    asked = [ids for of_kind in prompts.values() for ids in of_kind]
    right = measure.task_accuracy(target, options.tasks) if options.tasks else None
    report = {
        "tasks_right": right,
        "heldout_loss": measure.heldout_loss(target, data),
        "samples": [*measure.samples(target, asked), *measure.samples(target, asked, sample=True)],
    }
    print(json.dumps(report, indent=2, ensure_ascii=False))
