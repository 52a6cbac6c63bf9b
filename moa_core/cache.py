"""This program's folder for files that are downloaded or made once."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory


def cache_folder() -> Path:
    """MOA_CACHE, else `moa` in XDG_CACHE_HOME or ~/.cache. It need not exist."""
    named = os.environ.get("MOA_CACHE")
    above = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(os.path.expanduser(named)) if named else Path(above) / "moa"


@contextmanager
def making(folder: Path) -> Iterator[Path]:
    """A new folder beside this one, which takes its place once it is whole.

    After an error or a kill the place is as before: there is never half a folder.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    name = f".{folder.name}."
    with TemporaryDirectory(prefix=name, dir=folder.parent, ignore_cleanup_errors=True) as part:
        yield Path(part)
        try:
            os.replace(part, folder)
        except OSError:
            if not folder.is_dir():  # else another process was quicker
                raise
