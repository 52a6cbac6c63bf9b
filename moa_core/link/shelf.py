"""The drafters whose server halves a server has."""

from __future__ import annotations

from collections.abc import Callable

from moa_core.drafters.base import Drafter, Vanilla
from moa_core.errors import UserError
from moa_core.link.session import Denied, drafter_mark


class Shelf:
    """Drafters, each loaded when it is first asked for.

    load  from a name; UserError if there is none. It says which names are good: a client's name
          must not make this machine open a folder or download.
    """

    def __init__(self, load: Callable[[str], Drafter]) -> None:
        self._load = load
        self._drafters: dict[str, tuple[Drafter, str]] = {"none": (Vanilla(), "")}

    def __contains__(self, name: str) -> bool:
        return name in self._drafters

    def fetch(self, name: str) -> None:
        """Load it, which may take seconds. Twice is once. Denied if there is none."""
        if name in self._drafters:
            return
        try:
            drafter = self._load(name)
        except UserError as error:
            raise Denied(f"The server has no drafter {name!r}: {error}") from None
        self._drafters[name] = drafter, drafter_mark(drafter)

    def take(self, name: str, mark: str) -> Drafter:
        """A loaded one. Denied if the client's has other weights."""
        drafter, ours = self._drafters[name]
        if mark != ours:
            raise Denied(f"The server's {name} has other weights than the client's.")
        return drafter
