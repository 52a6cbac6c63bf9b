"""Messages as people type them: in small letters, in capitals, without a full stop, with slips."""

import random
import re

_NO_SLIP = re.compile(r"(\[[^]]*\])|([A-Za-z]{4,})")


def styled(said: str, rng: random.Random, kept: str) -> str:
    """A message in one of many styles; no slip falls into a [topic] or a word of `kept`."""
    share = rng.random()
    if share < 0.42:
        return said
    if share < 0.68 or share > 0.96:
        said = said.lower()
    if share < 0.60 or 0.68 < share < 0.76:
        return said.rstrip(".?!") or said
    if 0.76 < share < 0.79:
        return said.upper()
    if 0.79 < share < 0.87 or share > 0.96:
        return _with_slip(said, rng, kept)
    if share > 0.87:
        return said + rng.choice(("!", "!!", "??", "?", "...", " ", "  ", " :)", " please", " pls"))
    return said


def _with_slip(said: str, rng: random.Random, kept: str) -> str:
    """A letter lost, doubled or swapped in one word."""
    found = _NO_SLIP.finditer(said)
    words = [match for match in found if match[2] and match[2].lower() not in kept.lower()]
    if not words:
        return said
    at = rng.choice(words).start() + rng.randint(1, 2)
    middle = rng.choice(("", said[at] * 2, None))
    if middle is None:
        return said[:at] + said[at + 1] + said[at] + said[at + 2 :]
    return said[:at] + middle + said[at + 1 :]
