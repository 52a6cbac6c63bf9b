"""What happened in a soak, as its threads tell it: counts, sentences, waits, texts, trouble."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from threading import Lock
from time import monotonic

# What the program means to say when somebody asks for what cannot be had. No more than this.
INTENDED = (
    r"The prompt is empty: ",
    r"The prompt has [\d,]+ characters; at most 50,000 are read\. Shorten it\.",
    r"The prompt has [\d,]+ tokens; this target reads at most [\d,]+ and needs room",
    r"Choose 2 to 4 methods to compare: ",
    r"At most 512 new tokens are decoded in one run\.",
    r"The number of new tokens must be a whole number, at least 1\.",
    r"The number of repeats must be a whole number, 1 to 5\.",
    r"Temperature must be a number from 0 \(greedy\) to 100\.",
    r"Top-p must be above 0 and at most 1\.",
    r"Tree (depth|breadth|budget) must be a whole number from 1 to \d+\.",
    r"There is no .+ drafter for this target: choose from ",
    r"Not all of the address could be used: ",
    r"Nothing passes this link, so the prompt cannot reach the server\.",
    r"Run a prompt first: then ",
    r"This run is plain decoding itself: ",
    r"This trace was opened from a file\.",
    r"Stopped before the first cycle\.",
    r"This file (is not|is no|has) ",
    r"results\.json is not a benchmark's results \(",
    r"There is no server at ws://127\.0\.0\.1:\d+",
    r"The server at ws://127\.0\.0\.1:\d+ does not answer over this link: ",
)


class Tally:
    """Takes what all threads have to tell. `trouble` is what makes the soak fail."""

    def __init__(self) -> None:
        self.began = monotonic()
        self.actions: Counter[str] = Counter()
        self.sentences: Counter[str] = Counter()
        self.waits: dict[str, list[float]] = defaultdict(list)
        self.trouble: list[str] = []
        self._texts: dict[tuple[str, ...], str] = {}
        self._lock = Lock()

    @property
    def now(self) -> float:
        """Seconds since the soak began."""
        return monotonic() - self.began

    def did(self, action: str) -> None:
        """Somebody did something of this kind."""
        with self._lock:
            self.actions[action] += 1

    def said(self, sentence: str, who: str) -> None:
        """The program told somebody of an error; trouble unless it meant to say this."""
        if not any(re.match(one, sentence) for one in INTENDED):
            self.wrong(f"an error that is not meant: {sentence}", who)
            return
        with self._lock:
            self.sentences[re.sub(r"[\d,]*\d", "#", sentence)[:90]] += 1

    def waited(self, action: str, seconds: float) -> None:
        """Somebody waited so long for the end of what they asked for."""
        with self._lock:
            self.waits[action].append(seconds)

    def wrote(self, key: tuple[str, ...], text: str, who: str) -> None:
        """A finished greedy text: all of one prompt and length must agree."""
        with self._lock:
            known = self._texts.setdefault(key, text)
        if known != text:
            self.wrong(f"two texts for {key}: {known!r} and {text!r}", who)

    @property
    def compared(self) -> int:
        """How many different texts there are to agree with."""
        return len(self._texts)

    def wrong(self, what: str, who: str) -> None:
        """Something that must not happen."""
        with self._lock:
            self.trouble.append(f"[{self.now:.0f} s, {who}] {what}")
