"""A table as the text of a CSV file."""

from __future__ import annotations

import csv
import io
from typing import Any

import pandas as pd

from moa_core.bench.outputs import no_formula


def csv_text(rows: pd.DataFrame) -> str:
    """The table as CSV. A cell that a spreadsheet would take for a formula gets an apostrophe."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(rows.columns)
    for row in rows.itertuples(index=False):
        writer.writerow([_cell(value) for value in row])
    return out.getvalue()


def _cell(value: Any) -> Any:
    if value is None or (isinstance(value, float) and pd.isna(value)):
        return ""
    return no_formula(value)
