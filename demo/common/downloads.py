"""Files that visitors may fetch: traces, tables."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd

FORMULAS = ("=", "+", "-", "@", "\t", "\r")  # what a spreadsheet takes for a formula begins so


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


def csv_text(rows: pd.DataFrame) -> str:
    """The table as CSV. A cell that a spreadsheet would take for a formula gets an apostrophe."""
    cells = [[_no_formula(value) for value in row] for row in rows.itertuples(index=False)]
    safe = pd.DataFrame(cells, columns=rows.columns, dtype=object)
    return safe.to_csv(index=False, lineterminator="\n")


def _no_formula(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULAS) else value
