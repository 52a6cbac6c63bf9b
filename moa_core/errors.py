"""The exception for a user's mistakes, and how commands end."""

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

# Packages that only some commands need, and the extras of pyproject.toml that install them.
EXTRAS = {"websockets": "websockets"} | dict.fromkeys(
    ("gradio", "pandas", "plotly"), "'moa-speculative[demo]'"
)


class UserError(ValueError):
    """A user's mistake: one sentence that says what to change."""


def is_whole(value: object, least: float, most: float = float("inf")) -> bool:
    """Whether it is a whole number in this range; True and False are none."""
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def first_line(error: Exception) -> str:
    """The first line of an error's text, with the next one after a colon; else its type."""
    lines = [line.strip() for line in str(error).strip().splitlines()] or [type(error).__name__]
    found = " ".join(lines[: 2 if lines[0].endswith(":") else 1])
    return f"{found} is missing" if isinstance(error, KeyError) else found


@contextmanager
def saying(sentence: str) -> Iterator[None]:
    """Turn any error into a UserError: this sentence, and the first line of the error.

    For calls of libraries, which raise many kinds of errors.
    """
    try:
        yield
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"{sentence}: {first_line(error).rstrip('.')}.") from error


def ended(run: Callable[[], object]) -> int:
    """Run a command and return its exit code: 2, with one sentence, for a user's mistake."""
    try:
        run()
    except UserError as error:
        return _failed(str(error))
    except ModuleNotFoundError as error:
        if (name := str(error.name).partition(".")[0]) not in EXTRAS:
            raise
        return _failed(f"this needs {name}: pip install {EXTRAS[name]}")
    except KeyboardInterrupt as stop:
        print(str(stop) or "stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of the pipe is gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:  # a full disk, a forbidden file
        if error.filename is None and error.errno != errno.ENOSPC:
            raise
        return _failed(f"{error.filename or 'A file'} cannot be read or written: {error.strerror}.")
    return 0


def _failed(sentence: str) -> int:
    print(f"error: {sentence}", file=sys.stderr)
    return 2
