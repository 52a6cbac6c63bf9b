"""What a visitor of the Benchmarks tab looks at, and what they may choose from."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from moa_core.bench.records import Recording, read_results, recordings
from moa_core.errors import UserError

log = logging.getLogger(__name__)

ALL = "all"  # the value of a filter that leaves everything
MOST_OPENED = 8


Recordings = tuple[Recording, ...]  # what one visitor has to choose from


@dataclass(frozen=True)
class Chosen:
    """The filters' values."""

    recordings: Sequence[str]
    machine: str = ALL
    precision: str = ALL
    kind: str = ALL
    methods: Sequence[str] = ()


def first_choice(there: Recordings) -> Chosen:
    """To begin with: the first recording, which has the most methods, and every method."""
    return Chosen([one.name for one in there[:1]], methods=methods_of(there))


def methods_of(there: Recordings) -> list[str]:
    """Every method among them. What is offered only ever grows: a filter used while another is
    still being followed must not name something that was just taken away."""
    return list(dict.fromkeys(name for one in there for name in one.methods))


def kinds_of(there: Recordings) -> list[str]:
    """Every kind of prompt among them."""
    return list(dict.fromkeys(kind for one in there for kind in one.kinds))


def kept() -> Recordings:
    """Our own recordings; none, with a word in the log, where their files are damaged."""
    try:
        return tuple(recordings())
    except UserError as error:
        log.warning("no recordings: %s", error)
        return ()


def beside(there: Recordings, chosen: Chosen, added: Recording) -> tuple[Recordings, Chosen]:
    """One more recording, shown at once with whatever methods only it has."""
    known = set(methods_of(there))
    new = [name for name in added.methods if name not in known]
    return (*there, added), replace(
        chosen,
        recordings=[*chosen.recordings, added.name],
        machine=ALL,
        precision=ALL,
        methods=[*chosen.methods, *new],
    )


def opened(path: str, there: Recordings) -> Recording:
    """A visitor's file, under a name that no other recording among them has."""
    if sum(one.opened for one in there) >= MOST_OPENED:
        raise UserError(
            f"{MOST_OPENED} recordings are open already: reload the page to begin anew."
        )
    file = Path(path)
    results = read_results(file, file.name)
    taken = {one.name for one in there}
    name = f"Yours: {file.stem[:24]}"
    names = (name, *(f"{name} ({number})" for number in range(2, MOST_OPENED + 2)))
    return Recording(next(free for free in names if free not in taken), results, opened=True)


def matching(recordings: Recordings, chosen: Chosen) -> list[Recording]:
    """The recordings that were chosen and that machine and precision leave."""
    return [
        one
        for one in recordings
        if one.name in chosen.recordings
        and chosen.machine in (ALL, one.machine)
        and chosen.precision in (ALL, one.precision)
    ]


def nothing(there: Recordings, chosen: Chosen, found: list[Recording]) -> str:
    """Why nothing is shown, and what to do about it."""
    if not there:
        return "There are no recordings here: open one, made by python -m moa_core bench."
    if not chosen.recordings:
        return "No recording is chosen: choose one above."
    if not found:
        return (
            "None of the recordings chosen was made on this machine with this precision: choose "
            "another recording, machine or precision."
        )
    if not chosen.methods:
        return "No method is chosen: choose one above."
    return "Nothing was recorded for this choice: choose other methods or another kind of prompt."
