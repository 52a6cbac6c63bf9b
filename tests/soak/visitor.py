"""What all visitors of a soak have in common: a thread, a seed, and an end."""

from __future__ import annotations

import random
import threading
from abc import ABC, abstractmethod
from time import monotonic

from demo.examples import EXAMPLES
from tests.soak.tally import Tally

PATIENCE = 120.0  # seconds for a run to end, with all others before it
PROMPTS = list(EXAMPLES.values())
HOSTILE = "${6*7} {{x}} <script>alert(1)</script> <img src=x onerror=alert(1)> %s {0} \\u0000 ‮"
REFUSED = {  # a prompt that is refused, and how
    "empty": (" \n ", "The prompt is empty"),
    "of too many characters": ("fox " * 12_600, "characters; at most"),
    "of too many tokens": ("The fox ran. " * 900, "tokens; this target reads at most"),
}


class Visitor(threading.Thread, ABC):
    """Comes, does things at random and goes, again and again, until told to end.

    most  actions in all
    """

    def __init__(self, number: int, url: str, tally: Tally, seed: int, most: int) -> None:
        super().__init__(name=f"visitor {number}", daemon=True)
        self.url, self.tally = url, tally
        self.rng = random.Random(f"{seed}/{number}")
        self.over, self.left, self.doing = threading.Event(), most, "nothing yet"

    def run(self) -> None:
        try:
            self.come()
            while not self.over.is_set() and self.left > 0:
                self.visit()
            self.last()
        except Exception as error:
            self.wrong(f"its own end, at {self.doing!r}: {type(error).__name__}: {error}")
        finally:
            self.go()

    @property
    def wants_more(self) -> bool:
        """Whether to go on with this visit; called once before each action."""
        self.left -= 1
        return self.left > 0 and not self.over.is_set() and self.rng.random() < 0.8

    def does(self, action: str) -> None:
        """Note what comes next."""
        self.doing = action
        self.tally.did(action)

    def wrong(self, what: str) -> None:
        """Something that must not happen."""
        self.tally.wrong(what, self.name)

    def timed(self, action: str, began: float) -> None:
        """What was asked for has ended."""
        self.tally.waited(action, monotonic() - began)

    @abstractmethod
    def come(self) -> None:
        """Before the first visit."""

    @abstractmethod
    def visit(self) -> None:
        """From arriving to leaving."""

    @abstractmethod
    def last(self) -> None:
        """A simple run when all is over: it must end soon."""

    @abstractmethod
    def go(self) -> None:
        """After the last one."""
