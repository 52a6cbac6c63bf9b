"""What a person asked for and cannot be had: the one exception for it, and how commands end."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable

# What only some commands need, and what brings it: see the extras of pyproject.toml.
EXTRAS = {"datasets": "datasets", "websockets": "websockets"} | dict.fromkeys(
    ("gradio", "pandas", "plotly"), "'moa-speculative[demo]'"
)


class UserError(ValueError):
    """A mistake of the person's, said in one sentence that tells what to change."""


def first_line(error: Exception) -> str:
    """The first line of an error's text, with the one that it announces; or its kind."""
    lines = [line.strip() for line in str(error).strip().splitlines()] or [type(error).__name__]
    found = " ".join(lines[: 2 if lines[0].endswith(":") else 1])
    return f"{found} is missing" if isinstance(error, KeyError) else found


def ended(run: Callable[[], object]) -> int:
    """Run a command. 0 when it went well, 2 with one sentence when a person was mistaken."""
    try:
        run()
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
    except OSError as error:  # a disk that is full, a file that is not this person's
        if error.filename is None and error.errno != errno.ENOSPC:
            raise
        what = "A file" if error.filename is None else error.filename
        print(f"error: {what} cannot be read or written: {error.strerror}.", file=sys.stderr)
        return 2
    return 0
