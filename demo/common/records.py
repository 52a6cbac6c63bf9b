"""Bundled recordings, for the tabs that show them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from moa_core.errors import UserError

log = logging.getLogger(__name__)
T = TypeVar("T")


def kept(read: Callable[[], T], nothing: T) -> T:
    """The result of `read`; `nothing`, and a line in the log, for a damaged file."""
    try:
        return read()
    except UserError as error:
        log.warning("no recordings: %s", error)
        return nothing
