"""Values of files that others wrote. Any of them may be missing or odd: it is left out."""

from __future__ import annotations

import math
from typing import Any


def number(value: Any) -> float | None:
    """A finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if math.isfinite(value) else None


def positive(value: Any) -> float | None:
    """A number where 0 can only mean that nothing was measured."""
    found = number(value)
    return found if found and found > 0 else None


def listed(value: Any) -> list[Any]:
    """A list, empty if it is none."""
    return list(value) if isinstance(value, list | tuple) else []
