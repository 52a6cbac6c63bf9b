"""Traces as files of anybody's: every field is checked before it becomes an event.

What is shown of a trace may then rely on its types, and on its trees being trees.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import MISSING, fields
from typing import Any, NoReturn, TypeVar

from moa_core.decoding.trace import EVENTS, PHASES, VERSION, Drafted, Event, Verified
from moa_core.decoding.tree import DraftTree
from moa_core.errors import UserError
from moa_core.loading.untrusted import plain

NOT_ONE = "This file is not a trace of this program."
LARGEST = 2**53  # of any number
TREE = ("tokens", "parents", "depths", "log_probs")
T = TypeVar("T")


def read(text: str) -> tuple[dict[str, Any], list[Event]]:
    """What a file says of its run, and the events. UserError if it is no trace, or damaged."""
    try:
        data = json.loads(text, parse_constant=_no_number)
        version = data["version"]  # first: another one may have other parts
        if version != VERSION:
            raise UserError(
                f"This trace has version {version!r:.20}; this program reads {VERSION}."
            )
        about, found = data["about"], data["events"]
        if not isinstance(about, dict) or not isinstance(found, list):
            raise UserError(NOT_ONE)
        about, events = plain(about), [_event(item) for item in found]
    except UserError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(NOT_ONE) from error
    _check_order(events)
    return about, events


def fits(drafted: Drafted, verified: Verified) -> bool:
    """Whether a tree is one, and what was made of it belongs to it."""
    tree, count = drafted.tree, len(drafted.tree)
    columns = (
        tree.parents, tree.depths, tree.log_probs, verified.choices, verified.choice_probs,
        verified.draft_probs,
    )  # fmt: skip
    if not count or any(len(column) != count for column in columns):
        return False
    above = [0, *verified.path]
    return (
        tree.parents[0] == -1
        and all(0 <= parent < node for node, parent in enumerate(tree.parents) if node)
        and all(0 < node < count for node in verified.path)
        and [tree.parents[node] for node in verified.path] == above[:-1]
        # No child is more probable than its parent, but for rounding.
        and all(
            tree.log_probs[node] <= tree.log_probs[parent] + 0.001
            for node, parent in enumerate(tree.parents)
            if node
        )
    )


def _check_order(events: Iterable[Event]) -> None:
    """UserError unless each verification fits the tree that was drafted before it."""
    drafted: Drafted | None = None
    for event in events:
        if isinstance(event, Drafted):
            drafted = event
        elif isinstance(event, Verified) and not (
            drafted is not None and drafted.cycle == event.cycle and fits(drafted, event)
        ):
            raise UserError(f"This trace is damaged: its cycle {event.cycle + 1} does not fit.")


def _event(data: dict[str, Any]) -> Event:
    kind = EVENTS[data.pop("event")]
    entries = {entry.name: entry for entry in fields(kind)}
    later = {entry.name for entry in fields(kind) if entry.default is not MISSING}
    if not entries.keys() - later <= data.keys() <= entries.keys():  # older ones lack some
        raise ValueError(f"fields of {kind.__name__} do not match")
    try:
        made = {name: _READ[str(entries[name].type)](one) for name, one in data.items()}
        event: Event = kind(**made)
    except UserError:
        raise UserError(f"This trace is damaged: it has a {kind.__name__} that is none.") from None
    return event


def _whole(value: Any, lowest: int = 0) -> int:
    if type(value) is not int or not lowest <= value <= LARGEST:
        raise UserError("no whole number")
    return value


def _real(value: Any) -> float:
    if type(value) not in (int, float) or not -LARGEST <= value <= LARGEST:
        raise UserError("no number")
    return float(value)


def _listed(value: Any, read: Callable[[Any], T]) -> tuple[T, ...]:
    if not isinstance(value, list):
        raise UserError("no list")
    return tuple(read(one) for one in value)


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise UserError("neither true nor false")
    return value


def _words(value: Any) -> str:
    if not isinstance(value, str):
        raise UserError("no text")
    return str(plain(value))


def _phases(value: Any) -> dict[str, float]:
    if not isinstance(value, dict):
        raise UserError("no object")
    return {phase: _real(value[phase]) for phase in PHASES if phase in value}


def _tree(value: Any) -> DraftTree:
    tokens, parents, depths, log_probs = (value.pop(name) for name in TREE)
    if value:
        raise ValueError("fields of a tree do not match")
    return DraftTree(
        _listed(tokens, _whole),
        _listed(parents, lambda parent: _whole(parent, -1)),
        _listed(depths, _whole),
        _listed(log_probs, _real),
    )


_READ: dict[str, Callable[[Any], Any]] = {  # by a field's type, as it is written above
    "int": _whole,
    "int | None": lambda value: None if value is None else _whole(value),
    "float": _real,
    "bool": _truth,
    "str": _words,
    "tuple[int, ...]": lambda value: _listed(value, _whole),
    "tuple[float, ...]": lambda value: _listed(value, _real),
    "dict[str, float]": _phases,
    "DraftTree": _tree,
}


def _no_number(name: str) -> NoReturn:
    raise UserError(f"This trace is damaged: {name} is no number.")
