"""Options about models and how to load them, shared by all commands and the page."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moa_core.errors import UserError
from moa_core.loading.presets import PRESETS, Preset
from moa_core.untrusted import PICKLE, PICKLES

if TYPE_CHECKING:
    from moa_core.model.target import Target

TARGET = "smollm2-135m, SmolLM2-135M-Instruct"
SPEC = "name, folder, GGUF file, Hub id or id@revision"


class Help(argparse.HelpFormatter):
    """Adds an option's default to its help, unless the help names it."""

    def _get_help_string(self, action: argparse.Action) -> str:
        text, value = action.help or "", action.default
        number = isinstance(value, int | float) and not isinstance(value, bool)
        name = isinstance(value, str) and value not in ("", argparse.SUPPRESS)
        shown = (number or name) and "default" not in text
        return f"{text} (default: %(default)s)" if shown else text


def add_target(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--preset", choices=sorted(PRESETS), help="a published target with its drafters"
    )
    parser.add_argument("--target", help=f"{SPEC}; default: {TARGET}")
    parser.add_argument("--dtype", default="auto", help="auto, float32, bfloat16, float16 or int8")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, mps")
    parser.add_argument(
        "--drafts", default="auto", help="precision of drafts: float32, or int8 on a processor; "
        "auto: int8 for a float32 target, unless --dtype is named",
    )  # fmt: skip
    add_pickle(parser)
    add_form(parser)


def add_pickle(parser: argparse.ArgumentParser) -> None:
    """--allow-pickle, for this process and its children: an environment variable."""

    class Allow(argparse.Action):
        def __call__(self, *_: Any) -> None:
            os.environ[PICKLES] = "1"

    parser.add_argument(
        "--allow-pickle", action=Allow, nargs=0,
        help=f"open {PICKLE} where there are no safetensors, for plain weights alone",
    )  # fmt: skip


def add_form(parser: argparse._ActionsContainer) -> None:
    bits = parser.add_mutually_exclusive_group()
    for number in (4, 8):
        bits.add_argument(
            f"--load-in-{number}bit", dest="bits", action="store_const", const=number,
            help=f"the target's linear layers in {number} bits, by bitsandbytes",
        )  # fmt: skip


def add_token(parser: Any, what: str) -> None:
    parser.add_argument(
        "--token", help=f"{what}; better in MOA_TOKEN, as others can see a command line"
    )


def token_of(options: argparse.Namespace) -> str:
    return options.token or os.environ.get("MOA_TOKEN", "")


def chosen_preset(options: argparse.Namespace) -> Preset | None:
    """The preset, if one was named; its target takes the place of --target."""
    if options.preset is None:
        return None
    found = PRESETS[options.preset]
    if options.target:
        raise UserError("A preset has its own target: name --preset or --target, not both.")
    options.target = found.target
    return found


def loading(options: argparse.Namespace, drafters: Sequence[str] = ()) -> dict[str, Any]:
    """Options of `load_target` besides the target's name. drafters: loaded with it."""
    given = {name: getattr(options, name) for name in ("dtype", "device", "bits", "drafts")}
    return {**given, "drafters": drafters, "report": on_terminal}


def target_of(options: argparse.Namespace, drafters: Sequence[str] = ()) -> Target:
    from moa_core.loading.load import load_target

    return load_target(options.target, **loading(options, drafters))


def path(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("the name is empty")
    return Path(os.path.expanduser(text))  # unlike Path's, it leaves ~nobody as it is


def check_file(file: Path, what: str) -> None:
    """UserError unless a file can be written there."""
    folder = file.absolute().parent
    place = file if os.path.exists(file) else folder
    if os.path.isdir(file) or not os.path.isdir(folder) or not os.access(place, os.W_OK):
        raise UserError(f"No {what} can be written to {file}: name a file in a writable folder.")


def check_folder(folder: Path) -> None:
    """UserError unless files can be written to a folder, or to a new one of this name."""
    above = (folder.absolute(), *folder.absolute().parents)
    there = next(one for one in above if os.path.exists(one))
    if not os.path.isdir(there):
        raise UserError(f"{there} is a file: name a folder.")
    if not os.access(there, os.W_OK | os.X_OK):
        raise UserError(f"Nothing can be written to {there}: name a writable folder.")


def check_new(folder: Path) -> None:
    """UserError unless a folder is empty or can be made."""
    check_folder(folder)
    if os.path.isdir(folder) and os.listdir(folder):
        raise UserError(f"{folder} is not empty: name another folder.")


def on_terminal(words: str) -> None:
    """Print progress. Downloads share one line, and only on a screen."""
    screen, download = sys.stderr.isatty(), words.startswith("Downloading")
    if screen or not download:
        line, end = f"\r\x1b[K{words}" if screen else words, "" if download else "\n"
        print(line, end=end, file=sys.stderr, flush=True)
