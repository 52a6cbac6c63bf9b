"""moa <command>, or python -m moa_core <command>: the library from the command line."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path

from moa_core import __version__
from moa_core.commands import bench, export, generate, memory, serve, train
from moa_core.errors import UserError

# What only some commands need, and what brings it: see the extras of pyproject.toml.
EXTRAS = {"datasets": "datasets", "websockets": "websockets"} | dict.fromkeys(
    ("gradio", "pandas", "plotly"), "'moa-speculative[demo]'"
)


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    called = "moa" if Path(sys.argv[0]).stem == "moa" else "python -m moa_core"
    top = argparse.ArgumentParser(prog=called, description=__doc__)
    top.add_argument("--version", action="version", version=f"moa-speculative {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="command")
    for module in (generate, bench, serve, train, export, memory):
        name = module.__name__.rsplit(".", 1)[1]
        text = (module.__doc__ or "").strip()
        command = commands.add_parser(name, help=text.splitlines()[0], description=text)
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    # Its options are its own: no word is taken for one here.
    page = commands.add_parser(
        "demo", help="The page in the browser.", add_help=False, prefix_chars="\0"
    )
    page.add_argument("words", nargs="*")
    page.set_defaults(run=_open_page)
    return top


def _open_page(options: argparse.Namespace) -> None:
    """Only the entry point of an installation knows the page."""
    for point in entry_points(group="moa.commands", name="demo"):
        point.load()(options.words)
        return
    raise UserError(
        "The page is not installed: pip install '.[demo]'. In a clone, python app.py opens it."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. 0 when it went well, 2 with one sentence when a person was mistaken."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser().parse_args(given, argparse.Namespace(given=given))
    # Its retries end in one sentence of ours.
    logging.getLogger("huggingface_hub").setLevel(logging.CRITICAL)
    try:
        options.run(options)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        if (name := str(error.name).partition(".")[0]) not in EXTRAS:
            raise
        print(f"error: this needs {name}: pip install {EXTRAS[name]}", file=sys.stderr)
        return 2
    except KeyboardInterrupt as stop:
        print(str(stop) or "stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of a pipe went away: nobody is left to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
