"""What `train` takes, and what cannot be. Imports nothing heavy."""

from __future__ import annotations

import argparse
from pathlib import Path

from moa_core.arguments import SPEC, Defaults, add_form
from moa_core.errors import UserError

# Rows and their length by default: the same number of tokens in an update of either.
ROWS = {"target": (16, 256), "drafters": (8, 512)}
_RATES = {"target": 2.5e-3, "drafters": 2e-3}
# The smallest numbers that mean anything; `0 <` is said of the others.
_AT_LEAST = {
    "updates": 1, "stop_at": 1, "warmup": 0, "workers": 1, "accumulate": 1, "log_every": 1,
    "save_every": 0, "rows": 1, "row_length": 2, "tasks": 0, "layers": 1, "width": 32, "context": 2,
    "vocabulary": 262, "watch_times": 0, "own_tokens": 0, "draws": 1, "threads": 1, "prompts": 1,
}  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Sub-commands target, drafters and measure."""
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="target|drafters|measure")

    def command(name: str, text: str) -> argparse.ArgumentParser:
        return kinds.add_parser(name, help=text, description=text, formatter_class=Defaults)

    target = command("target", "Train a target and its tokenizer on text of yours.")
    drafters = command("drafters", "Train drafters for a target on text of yours.")
    for parser, add_model in ((target, _add_target), (drafters, _add_drafters)):
        kind = parser.prog.split()[-1]
        _add_text(parser, kind)
        _add_length(parser)
        add_model(parser)
        _add_optimiser(parser, kind)
        _add_machine(parser)
    _add_measure(command("measure", "Tell what a target, or drafters, can do, as JSON."))


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
    if getattr(options, "width", 32) % 32:
        raise UserError("--width must be a multiple of 32, the size of a head.")
    if options.kind != "measure" and (options.updates is None) == (options.minutes is None):
        raise UserError("Say how long to train: give either --updates or --minutes.")


def _add_text(parser: argparse.ArgumentParser, kind: str) -> None:
    rows, length = ROWS[kind]
    text = parser.add_argument_group("text")
    text.add_argument(
        "--data", required=True,
        help="folder of .txt, .txt.gz, .jsonl or .jsonl.gz files; or a data set, by folder or Hub "
        "id",
    )  # fmt: skip
    text.add_argument(
        "--tasks", type=int, default=0,
        help="generated tasks (sums, lists, numbers) in an epoch, beside the text",
    )  # fmt: skip
    text.add_argument(
        "--shares", default="",
        help="parts of the text to take, by kind: plain=0,dialogue=0.35; all that is not named is "
        "taken whole",
    )  # fmt: skip
    if kind == "drafters":
        text.add_argument(
            "--own-tokens", type=int, default=0,
            help="tokens that the target writes first; they then are half of what is learnt",
        )  # fmt: skip
    text.add_argument(
        "--rows", type=int, default=rows, help="packed rows per update, over all processes"
    )
    text.add_argument("--row-length", type=int, default=length, help="tokens per row")
    text.add_argument("--seed", type=int, default=0, help="of order, first weights and all draws")


def _add_length(parser: argparse.ArgumentParser) -> None:
    length = parser.add_argument_group("length of the run", "--updates or --minutes is needed")
    length.add_argument("--updates", type=int, help="optimiser steps")
    length.add_argument("--minutes", type=float, help="instead: as many updates as fit")
    length.add_argument("--stop-at", type=int, help="end at this update of the schedule")


def _add_target(parser: argparse.ArgumentParser) -> None:
    model = parser.add_argument_group("model")
    _add_out(model)
    model.add_argument("--start", type=Path, help="go on from this target, newly scheduled")
    model.add_argument("--layers", type=int, default=12, help="decoder layers")
    model.add_argument("--width", type=int, default=256, help="hidden size, a multiple of 32")
    model.add_argument("--context", type=int, default=1024, help="longest text it can serve")
    model.add_argument("--vocabulary", type=int, default=4096, help="tokens of its tokenizer")


def _add_out(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--out", type=Path, required=True, help="folder to train into")


def _add_drafters(parser: argparse.ArgumentParser) -> None:
    model = parser.add_argument_group("model")
    _add_out(model)
    model.add_argument("--target", help=f"{SPEC}; default: the bundled one")
    model.add_argument("--methods", default="moa-n0,moa-n1,eagle2", help="comma separated")
    model.add_argument(
        "--start", type=Path, help="folder of drafters to go on from, newly scheduled"
    )
    model.add_argument(
        "--watch",
        help="suite (bundled, tuning or a file) on which acceptance is measured as they train; "
        "default: held-out text",
    )
    model.add_argument(
        "--watch-times", type=int, default=8, help="how often, in all; 0: the last weights are kept"
    )
    model.add_argument("--draws", type=int, default=1, help="boundary draws per update")
    model.add_argument("--block", default="6-14", help="shortest-longest on-policy block, tokens")


def _add_optimiser(parser: argparse.ArgumentParser, kind: str) -> None:
    optimiser = parser.add_argument_group("optimiser")
    optimiser.add_argument("--rate", type=float, default=_RATES[kind], help="peak learning rate")
    if kind == "drafters":
        optimiser.add_argument(
            "--rates", default="", help="peak rates of single methods: moa-n0=2e-3,..."
        )
        optimiser.add_argument(
            "--cross-entropy", type=float, default=0.1, help="weight of that loss"
        )
        optimiser.add_argument(
            "--feature", type=float, default=1.0, help="weight of the feature loss"
        )
    else:
        optimiser.add_argument(
            "--floor", type=float, default=0.05, help="last rate, a share of the peak"
        )
    optimiser.add_argument("--warmup", type=int, default=150, help="updates to the peak rate")
    optimiser.add_argument(
        "--muon", action="store_true", help="Muon for the weight matrices, else AdamW for all"
    )


def _add_machine(parser: argparse.ArgumentParser) -> None:
    machine = parser.add_argument_group("machine")
    machine.add_argument(
        "--device", default="auto", choices=("auto", "cpu"), help="accelerate picks the GPUs"
    )
    machine.add_argument(
        "--precision", default="auto", choices=("auto", "bf16", "no"),
        help="auto: accelerate's configured one, else bf16 if fast",
    )  # fmt: skip
    if parser.prog.endswith("drafters"):
        machine.add_argument(
            "--target-dtype", default="auto", choices=("auto", "float32", "bfloat16"),
            help="auto: bfloat16 on a GPU with bf16 precision, else float32",
        )  # fmt: skip
        add_form(machine)
    machine.add_argument("--compile", action="store_true", help="torch.compile the costly parts")
    machine.add_argument("--workers", type=int, default=2, help="processes that prepare text")
    machine.add_argument(
        "--accumulate", type=int, default=1, help="parts that a process's rows are taken in"
    )
    machine.add_argument("--save-every", type=float, default=60, help="seconds between checkpoints")
    machine.add_argument("--log-every", type=int, default=25, help="updates between log lines")
    machine.add_argument(
        "--tensorboard", action="store_true", help="log for TensorBoard, too, in OUT/tensorboard"
    )


def _add_measure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", required=True, help="folder of text, for its held-out documents")
    parser.add_argument("--target", help=f"{SPEC}; default: the bundled one")
    parser.add_argument(
        "--tasks", type=int, default=0, help="held-out generated tasks of each kind to answer"
    )
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, mps")
    parser.add_argument("--drafters", help="their acceptance instead: names, comma separated")
    parser.add_argument("--prompts", type=int, default=6, help="held-out prompts of each kind")
    parser.add_argument("--trees", default="5-4-12", help="depth-breadth-budget, comma separated")
    parser.add_argument("--threads", type=int, help="CPU threads")
