"""The page's address as a way to share: settings to a query string, and back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

from demo.common.turns import MOST_REPEATS

# Longer prompts make addresses that browsers and chats cut.
LONGEST = 1500
LONGEST_NAME, MOST_NAMES = 40, 5  # of unknown settings that are told
NUMBERS: dict[str, tuple[type, float, float]] = {  # kind, lowest, highest
    "tokens": (int, 1, 512),
    "depth": (int, 1, 12),
    "breadth": (int, 1, 16),
    "budget": (int, 1, 64),
    "temperature": (float, 0, 2),
    "top_p": (float, 0.05, 1),
    "seed": (int, 0, 2**31 - 1),
    "repeats": (int, 1, MOST_REPEATS),
    "auto": (int, 0, 1),
    "auto_tree": (int, 0, 1),
}
TEXTS = ("target", "method", "methods", "link", "prompt", "pace", "trees")

# What gradio, its host and those who pass addresses on write into them: no business of ours.
FOREIGN = re.compile(r"_|utm|(view|ui|deep_link|logs|ref|source|[a-z]+clid|msclkid)$")


def query_of(settings: Mapping[str, Any]) -> str:
    """Settings as a query string; those that are empty are left out."""
    known = {name: settings.get(name) for name in (*TEXTS, *NUMBERS)}
    return urlencode({name: value for name, value in known.items() if value not in (None, "")})


def settings_of(query: Mapping[str, str]) -> tuple[dict[str, Any], list[str]]:
    """What an address sets, and a sentence for each part of it that cannot be used."""
    found: dict[str, Any] = {
        name: query[name] for name in TEXTS if len(query.get(name, "")) in range(1, 50_001)
    }
    wrong = []
    for name, (kind, low, high) in NUMBERS.items():
        if name not in query:
            continue
        try:
            value = kind(query[name])
        except ValueError:
            value = None
        if value is None or not low <= value <= high:
            wrong.append(f"{name} must be a number from {low:g} to {high:g}")
        else:
            found[name] = value
    return found, wrong + _unknown(query)


def _unknown(query: Mapping[str, str]) -> list[str]:
    """A sentence for parts of an address that are no settings of any tab."""
    known = (*TEXTS, *NUMBERS)
    names = [name for name in query if name not in ("tab", *known) and not FOREIGN.match(name)]
    if not names:
        return []
    which = ", ".join(name[:LONGEST_NAME] for name in names[:MOST_NAMES])
    return [f"there is no setting {which}, only {', '.join(known)}"]
