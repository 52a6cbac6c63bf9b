"""Train drafters against a frozen target.

To continue an interrupted run, repeat the command.
"""

from __future__ import annotations

import argparse
import math
import re
import shlex
from typing import TYPE_CHECKING, Any

from moa_core.arguments import SPEC, TARGET, Help, add_form, check_folder, path
from moa_core.drafters.names import listed
from moa_core.errors import UserError
from moa_core.runtime import keep_freed

if TYPE_CHECKING:
    from moa_core.train.loop import Machine

ABOVE = "minutes", "rate"  # 0
AT_LEAST = dict.fromkeys(("updates", "stop_at", "workers", "accumulate", "rows"), 1)
AT_LEAST |= {"row_length": 2}  # of all other numbers, 0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = parser.add_subparsers(dest="kind", required=True, metavar="drafters|export|words")

    def command(name: str, text: str) -> argparse.ArgumentParser:
        return kinds.add_parser(name, help=text, description=text, formatter_class=Help)

    what = "Train drafters for a target, on its own answers."
    _add_training(command("drafters", what))
    _add_export(command("export", "Write trained drafters in eight bits, of a run that may go on."))
    _add_words(command("words", "Let trained drafters draft fewer words, with the same weights."))


def _add(group: Any, name: str, default: Any, text: str, **more: Any) -> None:
    """An option with its default's type, or with a type and no default."""
    if not callable(default):
        more |= {"type": type(default), "default": default}
    group.add_argument(f"--{name}", help=text, **{"type": default, **more})


def _add_training(parser: argparse.ArgumentParser) -> None:
    # fmt: off
    text = parser.add_argument_group("text")
    _add(text, "prompts", path, "file of JSON lines, each with a `prompt` or `messages`, which the "
         "target answers first", required=True)
    _add(text, "own-tokens", 1_000_000, "tokens of these answers")
    _add(text, "draft-vocabulary", 0, "draft only the most frequent tokens of the replies, this "
         "many; 0: all")
    _add(text, "rows", 8, "packed rows per update")
    _add(text, "row-length", 512, "tokens per row")
    _add(text, "seed", 0, "of order, first weights and all draws")

    run = parser.add_argument_group("length of the run", "--updates or --minutes is needed")
    _add(run, "updates", int, "optimiser steps")
    _add(run, "minutes", float, "instead: as many updates as fit")
    _add(run, "stop-at", int, "end at this update of the schedule")

    model = parser.add_argument_group("model")
    _add(model, "out", path, "folder to train into", required=True)
    _add(model, "target", str, f"{SPEC}; default: {TARGET}")
    _add(model, "methods", "moa-n0,moa-n1,eagle2", "comma separated")
    _add(model, "start", path, "folder of drafters to go on from, newly scheduled; a MoA drafter "
         "that it lacks goes on from its moa-n0")

    optimiser = parser.add_argument_group("optimiser")
    _add(optimiser, "rate", 2e-3, "peak learning rate")
    _add(optimiser, "cross-entropy", 0.1, "weight of that loss")
    _add(optimiser, "feature", 1.0, "weight of the feature loss")
    _add(optimiser, "block", "6-14", "tokens, from-to, that MoA drafts in a row as it learns; "
         "few suit drafters that are accepted for a few")
    _add(optimiser, "warmup", 150, "updates to the peak rate")
    optimiser.add_argument("--muon", action="store_true", help="Muon for the weight matrices, else "
                           "AdamW for all")

    machine = parser.add_argument_group("machine")
    _add(machine, "device", "auto", "auto: a GPU if there is one", choices=("auto", "cpu"))
    _add(machine, "precision", "auto", "auto: bf16 where it is fast",
         choices=("auto", "bf16", "no"))
    add_form(machine)
    _add(machine, "workers", 2, "processes that write the target's own text")
    _add(machine, "accumulate", 1, "parts that the rows of an update are split into")
    _add(machine, "save-every", 60.0, "seconds between checkpoints")
    # fmt: on


def _add_export(parser: argparse.ArgumentParser) -> None:
    _add(parser, "trained", path, "folder that drafters are trained into", required=True)
    _add(parser, "out", path, "folder for a folder of each", required=True)
    _add(parser, "target", str, f"{SPEC}; default: {TARGET}")


def _add_words(parser: argparse.ArgumentParser) -> None:
    _add(parser, "drafters", path, "folder that holds a folder of each", required=True)
    _add(parser, "text", path, "own_text.npz of a training run, in which words are counted",
         required=True)  # fmt: skip
    _add(parser, "draft-vocabulary", int, "how many, the most frequent", required=True)
    _add(parser, "out", path, "folder for a folder of each", required=True)


def run(options: argparse.Namespace) -> None:
    _check(options)
    if options.kind == "words":
        return _words(options)
    if options.kind == "export":
        return _export(options)
    try:
        _drafters(options)
    except KeyboardInterrupt as stop:
        kept = f"Stopped; the same command goes on with what {options.out} holds."
        raise KeyboardInterrupt(str(stop) or kept) from None


def _check(options: argparse.Namespace) -> None:
    """UserError, naming the option, for a number out of range."""
    for name, value in vars(options).items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            continue
        above, least = name in ABOVE, AT_LEAST.get(name, 0)
        if not math.isfinite(value) or value < least or (above and value == 0):
            wanted = "above 0" if above else f"at least {least}"
            raise UserError(f"--{name.replace('_', '-')} must be a finite number, {wanted}.")
    check_folder(options.out)
    if options.kind != "drafters":
        return
    if (options.updates is None) == (options.minutes is None):
        raise UserError("Say how long to train: give either --updates or --minutes.")
    if options.seed >= 2**31:  # update and row are counted in the bits above
        raise UserError(f"--seed must be below {2**31:,}.")


def _drafters(options: argparse.Namespace) -> None:
    from moa_core.loading.load import load_target
    from moa_core.text import tokenizer_of
    from moa_core.train.drafters import OTHERS, Plan, train_drafters
    from moa_core.train.loop import Schedule
    from moa_core.train.losses import Weights
    from moa_core.train.own_text import OWN_TEXT
    from moa_core.train.prompts import prompts_in

    methods = listed(options.methods, OTHERS)
    block = re.fullmatch(r"([1-9]\d{0,3})-([1-9]\d{0,3})", options.block)
    if not block or int(block[1]) > int(block[2]):
        raise UserError(f"--block {options.block} is not from-to in tokens, as in 6-14.")
    if not (options.out / OWN_TEXT).exists():
        prompts_in(options.prompts)  # a mistake in it is told before anything is loaded
    machine = _machine(options)
    if machine.device == "cpu":
        keep_freed()
    # A frozen target uses the precision of the computation.
    dtype = "bfloat16" if machine.bf16 and machine.device == "cuda" else "float32"
    target = load_target(options.target, dtype, machine.device, bits=options.bits)
    tokenizer_of(target)  # a missing one is told before anything is written
    plan = Plan(
        options.prompts, tuple(methods), rows=options.rows, seed=options.seed,
        row_length=options.row_length, own_tokens=options.own_tokens,
        words=options.draft_vocabulary, start=options.start,
        block=(int(block[1]), int(block[2])),
        weights=Weights(options.cross_entropy, options.feature),
    )  # fmt: skip
    schedule = Schedule(
        options.updates, options.rate, options.minutes, options.warmup, options.muon
    )
    train_drafters(target, options.out, schedule, plan, machine)
    folders = [str(options.out / method) for method in methods]
    form = (f"--load-in-{options.bits}bit",) if options.bits else ()
    asked = ("--target", options.target) if options.target else ()
    line = ("generate", *asked, *form, "--drafter", folders[0], "--prompt", "Hello!")
    print(
        f"Trained: {', '.join(folders)}. Next (--raw goes on from plain text):\n\n"
        f"  {shlex.join(('python', '-m', 'moa_core', *line))}"
    )


def _export(options: argparse.Namespace) -> None:
    from moa_core.loading.load import load_target
    from moa_core.train.drafters import export

    target = load_target(options.target, "float32", "cpu")
    names = export(target, options.trained, options.out)
    print(f"Written: {', '.join(str(options.out / name) for name in names)}.")


def _words(options: argparse.Namespace) -> None:
    from moa_core.train.words import keep_words

    if not options.draft_vocabulary:
        raise UserError("--draft-vocabulary must be at least 1.")
    names = keep_words(options.drafters, options.text, options.draft_vocabulary, options.out)
    print(f"Written: {', '.join(str(options.out / name) for name in names)}.")


def _machine(options: argparse.Namespace) -> Machine:
    import torch

    from moa_core.train.loop import Machine

    cpu = options.device == "cpu" or not torch.cuda.is_available()
    # Where a processor multiplies bf16 itself, an update takes half as long.
    fast = not cpu or torch.cpu._is_amx_tile_supported() or torch.cpu._is_avx512_bf16_supported()
    bf16 = options.precision == "bf16" or (options.precision == "auto" and fast)
    return Machine(
        "cpu" if cpu else "cuda", bf16, options.accumulate, options.workers,
        options.stop_at, options.save_every,
    )  # fmt: skip
