"""A client's part of a server's target: fetched once, and kept on this machine."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from moa_core.errors import UserError, first_line
from moa_core.link.connection import GONE, Address, reach
from moa_core.link.parcel import keep, open_target, target_mark
from moa_core.link.wire import VERSION, Fetch, Hello, Piece, Refused, WireError
from moa_core.target import Target

FETCH_WITHIN = 30.0  # seconds from one piece of a file to the next
MARK = re.compile("[0-9a-f]{16}-[0-9a-f]{16}")


def cache_folder() -> Path:
    """Where parcels are kept: MOA_CACHE, or a folder of the person's own."""
    return Path(os.environ.get("MOA_CACHE") or Path.home() / ".cache" / "moa")


def client_target(
    address: Address, last: int, folder: Path | None = None, drafts: str = "auto"
) -> Target:
    """A client's part of a server's target: from this machine, or fetched once and kept.

    last    layers of TLI that it shall have
    drafts  their precision: int8, float32, or auto, as each drafter says
    """
    with closing(reach(address, Hello(VERSION, address.token))) as wire:
        mark = wire.welcome.fingerprint
    if not MARK.fullmatch(mark):  # it becomes a folder's name
        raise UserError("The server says of its target what is no mark of ours.")
    place = (folder or cache_folder()) / f"{mark}-n{last}"
    try:
        if not place.exists():
            keep(fetch(address, last), place)
        target = open_target(place, last)
        if target_mark(target) != mark:
            raise UserError("What the server sent is not what its target is made of.")
    except UserError:
        shutil.rmtree(place, ignore_errors=True)  # or no better server of that mark were asked
        raise
    except OSError as error:
        raise UserError(f"What the server sent cannot be kept: {first_line(error)}") from error
    target.drafts = drafts
    return target


def fetch(address: Address, last: int) -> Iterator[Piece]:
    """What a client needs of the server's target, in pieces. UserError if it does not come."""
    with closing(reach(address, Hello(VERSION, address.token))) as wire:
        try:
            wire.send(Fetch(last))
            while True:
                message = wire.receive(FETCH_WITHIN)
                if isinstance(message, Refused):
                    raise UserError(f"The server refused: {message.reason}")
                if isinstance(message, Piece):
                    yield message
                    if not message.name:
                        return
        except GONE as error:
            raise UserError(f"The server at {address.url} is gone: {error}") from error
        except WireError as error:
            raise UserError(f"The server sent what is no message of ours: {error}") from None
