"""What a server holds for its clients: their sessions, and the drafters whose halves it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

from moa_core.drafters.base import Drafter, Vanilla
from moa_core.errors import UserError
from moa_core.link.session import Denied, Limits, Session, drafter_mark
from moa_core.link.visitor import Visitor


class Sessions:
    """A server's sessions: at most so many, each with at most one connection. One thread's."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.by_name: dict[str, Session] = {}
        self._here: dict[str, Visitor] = {}

    def has(self, session: Session, visitor: Visitor) -> bool:
        """Whether this connection is the session's own."""
        return self._here.get(session.name) is visitor

    def make_room(self) -> None:
        """Denied if a client is here in every place; else whoever was lost longest goes."""
        if len(self.by_name) < self._limits.sessions:
            return
        lost = [session for session in self.by_name.values() if not self._connected(session)]
        if not lost:
            places = self._limits.sessions
            raise Denied(f"All {places} places here are taken; try again later.", again=True)
        self.free(min(lost, key=lambda session: session.seen))

    def _connected(self, session: Session) -> bool:
        """Even where it is not yet noticed that a client has left: its request is in the queue."""
        visitor = self._here.get(session.name)
        return visitor is not None and visitor.here

    def take(self, session: Session, visitor: Visitor) -> None:
        """From now on the session's client is here, over this connection."""
        if old := self._here.get(session.name):
            old.transport.abort()  # the client lost it, and has noticed sooner
        self.by_name[session.name] = session
        self._here[session.name] = visitor

    def leave(self, session: Session, visitor: Visitor) -> None:
        """A connection ended. Its session stays for a while, if no other one has taken it."""
        if self.has(session, visitor):
            session.seen = monotonic()
            del self._here[session.name]

    def free(self, session: Session) -> None:
        """It is over."""
        self._here.pop(session.name, None)
        self.by_name.pop(session.name, None)

    async def stay_tidy(self) -> None:
        """Free the sessions whose clients have not come back in time, again and again."""
        while True:
            now = monotonic()
            for name, session in list(self.by_name.items()):
                if name not in self._here and now - session.seen > self._limits.keep:
                    self.free(session)
            await asyncio.sleep(min(1.0, max(self._limits.keep / 4, 0.01)))


class Drafters:
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
