"""Who waits for a turn: the queue of the page's runs."""

from __future__ import annotations

from threading import Lock


class Line:
    """Who waits for a turn or has it, in the order they came."""

    def __init__(self) -> None:
        self._waiting: dict[str, None] = {}
        self._lock = Lock()

    def join(self, who: str) -> int:
        """Stand at its end, anew if one stood there; returns how many are before."""
        with self._lock:
            self._waiting.pop(who, None)
            self._waiting[who] = None
            return len(self._waiting) - 1

    def before(self, who: str) -> int:
        """How many are before them; 0 for whoever has the turn, or is not in it."""
        with self._lock:
            return list(self._waiting).index(who) if who in self._waiting else 0

    def leave(self, who: str) -> None:
        """Done, or gone."""
        with self._lock:
            self._waiting.pop(who, None)
