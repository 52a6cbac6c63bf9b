"""Files that visitors may fetch."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory


@cache
def _folder() -> TemporaryDirectory[str]:
    return TemporaryDirectory(prefix="moa-files-")  # gone when this process ends


def download(name: str, text: str) -> Path:
    """The path of a file of this name and text; the same one is written once."""
    folder = Path(_folder().name) / sha256(text.encode()).hexdigest()[:16]
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path
