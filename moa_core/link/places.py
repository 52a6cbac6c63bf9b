"""Which sessions there are, and whose clients are connected."""

from __future__ import annotations

import asyncio
from time import monotonic

from moa_core.link.session import Denied, Limits, Session
from moa_core.link.visitor import Visitor


class Places:
    """A server's sessions: at most so many, each with at most one connection. One thread's."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.sessions: dict[str, Session] = {}
        self._here: dict[str, Visitor] = {}

    def has(self, session: Session, visitor: Visitor) -> bool:
        """Whether this connection is the session's own."""
        return self._here.get(session.name) is visitor

    def make_room(self) -> None:
        """Denied if a client is here in every place; else whoever was lost longest goes."""
        if len(self.sessions) < self._limits.sessions:
            return
        lost = [session for session in self.sessions.values() if not self._connected(session)]
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
        self.sessions[session.name] = session
        self._here[session.name] = visitor

    def leave(self, session: Session, visitor: Visitor) -> None:
        """A connection ended. Its session stays for a while, if no other one has taken it."""
        if self.has(session, visitor):
            session.seen = monotonic()
            del self._here[session.name]

    def free(self, session: Session) -> None:
        """It is over."""
        self._here.pop(session.name, None)
        self.sessions.pop(session.name, None)

    async def stay_tidy(self) -> None:
        """Free the sessions whose clients have not come back in time, again and again."""
        while True:
            now = monotonic()
            for name, session in list(self.sessions.items()):
                if name not in self._here and now - session.seen > self._limits.keep:
                    self.free(session)
            await asyncio.sleep(min(1.0, max(self._limits.keep / 4, 0.01)))
