"""moa <command>, or python -m moa_core <command>: the library from the command line."""

import argparse
import logging
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path

from moa_core import __version__
from moa_core.arguments import Help
from moa_core.commands import bench, export, generate, memory, serve, train
from moa_core.errors import UserError, ended


def parser() -> argparse.ArgumentParser:
    called = "moa" if Path(sys.argv[0]).stem == "moa" else "python -m moa_core"
    top = argparse.ArgumentParser(prog=called, description=__doc__)
    top.add_argument("--version", action="version", version=f"moa-speculative {__version__}")
    commands = top.add_subparsers(dest="command", required=True, metavar="command")
    for module in (generate, bench, serve, train, export, memory):
        name = module.__name__.rsplit(".", 1)[1]
        text = (module.__doc__ or "").strip()
        command = commands.add_parser(
            name, help=text.splitlines()[0], description=text, formatter_class=Help
        )
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    # The page parses its own options.
    page = commands.add_parser(
        "demo", help="The page in the browser.", add_help=False, prefix_chars="\0"
    )
    page.add_argument("words", nargs="*")
    page.set_defaults(run=_open_page)
    return top


def _open_page(options: argparse.Namespace) -> None:
    """The page is known only by an installation's entry point."""
    for point in entry_points(group="moa.commands", name="demo"):
        point.load()(options.words)
        return
    raise UserError(
        "The page is not installed: pip install '.[demo]'. In a clone, python app.py opens it."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    options = parser().parse_args(given, argparse.Namespace(given=given))
    # After its retries, we print one sentence.
    logging.getLogger("huggingface_hub").setLevel(logging.CRITICAL)
    return ended(lambda: options.run(options))


if __name__ == "__main__":
    sys.exit(main())
