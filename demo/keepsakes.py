"""Files that visitors may fetch: traces, tables."""

from __future__ import annotations

from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory, mkdtemp

MOST = 256  # files that are kept: the newest
# Of this process, and those it forks where a GPU is borrowed; gone with it.
_ROOT = TemporaryDirectory(prefix="moa-files-")


def keepsake(name: str) -> Path:
    """Where to write a file of this name, in a folder of its own. The oldest folders go."""
    root = Path(_ROOT.name)
    mine = Path(mkdtemp(dir=root))
    for old in sorted(root.iterdir(), key=lambda one: one.stat().st_mtime_ns)[:-MOST]:
        if old != mine:
            rmtree(old, ignore_errors=True)
    return mine / name
