"""Short descriptions of a run: counts, draft trees, and the line with model and machine."""

from __future__ import annotations

from demo.common.methods import VANILLA
from moa_core.decoding.trace import Trace
from moa_core.decoding.tree import TreeSettings
from moa_core.errors import UserError


def many(count: int, word: str, words: str = "") -> str:
    """A count with its noun: 1 token, 2 tokens. words: the plural, if it is not word + s."""
    return f"{count} {word if count == 1 else words or word + 's'}"


def name_of(trace: Trace) -> str:
    """The method of a run; a trace from the command line names only its drafter."""
    return str(trace.about.get("method") or trace.about.get("drafter") or "a drafter")


def tree_of(trace: Trace) -> TreeSettings | None:
    """The shape of a run's draft trees; None without drafts, or if the file does not say."""
    settings = trace.about.get("settings")
    given = settings.get("tree") if isinstance(settings, dict) else None
    if name_of(trace) == VANILLA:
        return None
    try:
        return TreeSettings(**given) if given else None
    except (TypeError, UserError):
        return None


def about_of(trace: Trace) -> str:
    machine = trace.about.get("machine", {})
    tree = tree_of(trace)
    parts = [
        str(trace.about.get("target", "")),
        f"tree {tree}" if tree else "",
        " ".join(str(machine.get(key, "")) for key in ("device", "dtype") if machine.get(key)),
        f"{machine['threads']} threads" if machine.get("threads", 0) > 1 else "",
    ]
    return " · ".join(part for part in parts if part)
