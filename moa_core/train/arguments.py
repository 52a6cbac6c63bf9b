"""The options of `train`, their checks, and what a command prints at its end.

Imports nothing heavy, so that --help is quick.
"""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moa_core.arguments import SPEC, Defaults, add_form
from moa_core.errors import UserError

if TYPE_CHECKING:
    from accelerate import Accelerator

    from moa_core.train.corpus import Document

# Rows and their length by default: the same number of tokens in an update of either.
ROWS = {"target": (16, 256), "drafters": (8, 512)}
# The smallest numbers that mean anything; `minutes` and `rate` must be above 0.
_AT_LEAST = {
    "updates": 1, "stop_at": 1, "warmup": 0, "workers": 1, "accumulate": 1, "log_every": 1,
    "save_every": 0, "rows": 1, "row_length": 2, "tasks": 0, "layers": 1, "width": 32, "heads": 1,
    "context": 2, "vocabulary": 262, "watch_times": 0, "own_tokens": 0, "draws": 1, "threads": 1,
    "prompts": 1,
}  # fmt: skip
_WORDS = 8  # of a document, to prompt with


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Sub-commands target, drafters and measure."""
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="target|drafters|measure")

    def command(name: str, text: str) -> argparse.ArgumentParser:
        return kinds.add_parser(name, help=text, description=text, formatter_class=Defaults)

    _add_training(command("target", "Train a target and its tokenizer on text of yours."), False)
    _add_training(command("drafters", "Train drafters for a target on text of yours."), True)
    _add_measure(command("measure", "Tell what a target, or drafters, can do, as JSON."))


def _add(group: Any, name: str, default: Any, text: str, **more: Any) -> None:
    """An option; its type is that of its default, or the default itself where that is a type."""
    if default is False:
        group.add_argument(f"--{name}", action="store_true", help=text)
    elif isinstance(default, type):
        group.add_argument(f"--{name}", type=default, help=text, **more)
    else:
        group.add_argument(f"--{name}", type=type(default), default=default, help=text, **more)


def _add_training(parser: argparse.ArgumentParser, drafters: bool) -> None:
    # fmt: off
    rows, length = ROWS["drafters" if drafters else "target"]
    text = parser.add_argument_group("text")
    _add(text, "data", str, "folder of .txt, .txt.gz, .jsonl or .jsonl.gz files; or a data set, by "
         "folder or Hub id", required=True)
    _add(text, "tasks", 0, "generated tasks (sums, lists, numbers) in an epoch, beside the text")
    _add(text, "shares", "", "parts of the text to take, by kind: plain=0,dialogue=0.35; kinds "
         "that are not named are taken whole")
    if drafters:
        _add(text, "own-tokens", 0, "tokens that the target writes first; they then are half of "
             "what is learnt")
    _add(text, "rows", rows, "packed rows per update, over all processes")
    _add(text, "row-length", length, "tokens per row")
    _add(text, "seed", 0, "of order, first weights and all draws")

    run = parser.add_argument_group("length of the run", "--updates or --minutes is needed")
    _add(run, "updates", int, "optimiser steps")
    _add(run, "minutes", float, "instead: as many updates as fit")
    _add(run, "stop-at", int, "end at this update of the schedule")

    model = parser.add_argument_group("model")
    _add(model, "out", Path, "folder to train into", required=True)
    if drafters:
        _add(model, "target", str, f"{SPEC}; default: the bundled one")
        _add(model, "methods", "moa-n0,moa-n1,eagle2", "comma separated")
        _add(model, "start", Path, "folder of drafters to go on from, newly scheduled")
        _add(model, "watch", str, "suite (bundled, tuning or a file) on which acceptance is "
             "measured as they train; default: held-out text")
        _add(model, "watch-times", 8, "how often, in all; 0: the last weights are kept")
        _add(model, "draws", 1, "boundary draws per update")
        _add(model, "block", "6-14", "shortest-longest on-policy block, tokens")
    else:
        _add(model, "start", Path, "go on from this target, newly scheduled")
        _add(model, "layers", 12, "decoder layers")
        _add(model, "width", 256, "hidden size")
        _add(model, "heads", int, "attention heads; default: heads of 64. Half as many for K and V")
        _add(model, "context", 1024, "longest text it can serve")
        _add(model, "vocabulary", 4096, "tokens of its tokenizer")

    optimiser = parser.add_argument_group("optimiser")
    _add(optimiser, "rate", 2e-3 if drafters else 2.5e-3, "peak learning rate")
    if drafters:
        _add(optimiser, "rates", "", "peak rates of single methods: moa-n0=2e-3,...")
        _add(optimiser, "cross-entropy", 0.1, "weight of that loss")
        _add(optimiser, "feature", 1.0, "weight of the feature loss")
    else:
        _add(optimiser, "floor", 0.05, "last rate, a share of the peak")
    _add(optimiser, "warmup", 150, "updates to the peak rate")
    _add(optimiser, "muon", False, "Muon for the weight matrices, else AdamW for all")

    machine = parser.add_argument_group("machine")
    _add(machine, "device", "auto", "accelerate picks the GPUs", choices=("auto", "cpu"))
    _add(machine, "precision", "auto", "auto: accelerate's configured one, else bf16 if fast",
         choices=("auto", "bf16", "no"))
    if drafters:
        _add(machine, "target-dtype", "auto", "auto: bfloat16 on a GPU with bf16 precision, else "
             "float32", choices=("auto", "float32", "bfloat16"))
        add_form(machine)
    _add(machine, "compile", False, "torch.compile the costly parts")
    _add(machine, "workers", 2, "processes that prepare text")
    _add(machine, "accumulate", 1, "parts that a process's rows are taken in")
    _add(machine, "save-every", 60.0, "seconds between checkpoints")
    _add(machine, "log-every", 25, "updates between log lines")
    _add(machine, "tensorboard", False, "log for TensorBoard, too, in OUT/tensorboard")
    # fmt: on


def _add_measure(parser: argparse.ArgumentParser) -> None:
    # fmt: off
    _add(parser, "data", str, "folder of text, for its held-out documents", required=True)
    _add(parser, "target", str, f"{SPEC}; default: the bundled one")
    _add(parser, "tasks", 0, "held-out generated tasks of each kind to answer")
    _add(parser, "device", "auto", "auto, cpu, cuda, mps")
    _add(parser, "drafters", str, "their acceptance instead: names, comma separated")
    _add(parser, "prompts", 6, "held-out prompts of each kind")
    _add(parser, "trees", "5-4-12", "depth-breadth-budget, comma separated")
    _add(parser, "threads", int, "CPU threads")
    # fmt: on


def check(options: argparse.Namespace) -> None:
    """UserError, naming the option, for a number that means nothing."""
    for name, least in _AT_LEAST.items():
        value = getattr(options, name, None)
        if value is not None and value < least:
            raise UserError(f"--{name.replace('_', '-')} must be at least {least}.")
    for name in ("minutes", "rate"):
        value = getattr(options, name, None)
        if value is not None and value <= 0:
            raise UserError(f"--{name} must be above 0.")
    if options.kind != "measure" and (options.updates is None) == (options.minutes is None):
        raise UserError("Say how long to train: give either --updates or --minutes.")


def data_of(name: str, out: Path, accelerator: Accelerator, stream: bool) -> Path | str:
    """A folder of text, or the name of a data set to stream; or the folder it was fetched into.

    A folder without text files is a data set's, laid out as on the Hub.
    """
    from moa_core.train.corpus import fetch, has_text

    folder = Path(name).expanduser()
    if folder.is_dir():
        if has_text(folder):
            return folder
        name = str(folder)
    elif folder.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1:
        raise UserError(f"There is no folder {name}.")
    if stream:
        return name
    with accelerator.main_process_first():
        return fetch(name, out / "data")


def target_dtype(options: argparse.Namespace, accelerator: Accelerator) -> str:
    """By default a frozen target has the precision of the computation."""
    mixed = accelerator.mixed_precision == "bf16"
    if options.target_dtype == "bfloat16" and not mixed:
        raise UserError("A target in bfloat16 needs --precision bf16.")
    if options.target_dtype != "auto":
        return str(options.target_dtype)
    return "bfloat16" if mixed and accelerator.device.type == "cuda" else "float32"


def device_map(options: argparse.Namespace, accelerator: Accelerator) -> str | None:
    """One process may spread its target over devices. UserError with several processes."""
    if options.device_map and accelerator.num_processes > 1:
        raise UserError(
            "Each process has a target of its own: leave out --device-map, or start one process. "
            "--load-in-4bit makes a target small enough for most GPUs."
        )
    device_map: str | None = options.device_map
    return device_map


def accelerator_of(options: argparse.Namespace) -> Accelerator:
    """The processes, precision, accumulation and trackers that were asked for."""
    import torch
    from accelerate import Accelerator
    from accelerate.utils import InitProcessGroupKwargs, is_tensorboard_available

    if options.tensorboard and not is_tensorboard_available():
        raise UserError(
            "TensorBoard is not installed: pip install tensorboard, or leave out --tensorboard; "
            "the same figures are in log.jsonl."
        )
    cpu = options.device == "cpu" or not torch.cuda.is_available()
    fast = not cpu or torch.ops.mkldnn._is_mkldnn_bf16_supported()
    configured = os.environ.get("ACCELERATE_MIXED_PRECISION", "no")  # by accelerate launch
    wanted = options.precision
    if wanted == "auto":
        wanted = configured if configured != "no" else ("bf16" if fast else "no")
    # The others wait while the main process writes the target's own text or measures acceptance.
    patience = InitProcessGroupKwargs(timeout=timedelta(hours=6))
    accelerator = Accelerator(
        cpu=options.device == "cpu",
        mixed_precision=wanted,
        gradient_accumulation_steps=options.accumulate,
        log_with="tensorboard" if options.tensorboard else None,
        project_dir=options.out,
        kwargs_handlers=[patience],
    )
    accelerator.init_trackers("tensorboard")
    return accelerator


def next_after_target(options: argparse.Namespace, example: Document | None) -> str:
    """Where the target is, and what to type next. example: a document that was trained on."""
    named = ("--target", str(options.out))
    drafters = options.out.with_name(f"{options.out.name}-drafters")
    length = ("--minutes", f"{options.minutes:g}") if options.minutes else ()
    rows, row_length = options.rows, options.row_length
    if (rows, row_length) == ROWS["target"]:
        rows, row_length = ROWS["drafters"]
    row_length = min(row_length, options.context)
    smaller = ("--rows", str(rows), "--row-length", str(row_length))  # for want of text, say
    lines = (
        ("generate", *named, "--drafter", "none", *_prompt(example)),
        ("train", "drafters", *named, "--data", options.data, "--out", str(drafters),
         *(length or ("--updates", str(options.updates))),
         *(() if (rows, row_length) == ROWS["drafters"] else smaller)),
    )  # fmt: skip
    return _next(f"The target is in {options.out}.", lines)


def next_after_drafters(
    options: argparse.Namespace, methods: Sequence[str], example: Document | None
) -> str:
    """Where the drafters are, and what to type next."""
    folders = [str(options.out / method) for method in methods]
    named = ("--target", options.target) if options.target else ()
    form = (f"--load-in-{options.bits}bit",) if options.bits else ()
    line = ("generate", *named, *form, "--drafter", folders[0], *_prompt(example))
    be = "The drafter is in" if len(folders) == 1 else "The drafters are in"
    return _next(f"{be} {', '.join(folders)}.", (line,))


def _prompt(example: Document | None) -> tuple[str, ...]:
    """The first words of a document: for a text to go on from, or what a chat began with."""
    text = ""
    raw: tuple[str, ...] = ()
    if example and example.messages:
        text = next((m["content"] for m in example.messages if m["role"] == "user"), "")
    elif example:
        text, raw = example.text or "", ("--raw",)
    words = " ".join(text.split()[:_WORDS]) or "Once upon a time"
    return (*raw, *((f"--prompt={words}",) if words.startswith("-") else ("--prompt", words)))


def _next(result: str, lines: Sequence[Sequence[str]]) -> str:
    program = ("python", "-m", "moa_core")
    commands = "\n".join(f"  {shlex.join((*program, *line))}" for line in lines)
    return f"{result} Next:\n\n{commands}"
