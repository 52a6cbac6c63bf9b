"""A profile of cycles that are replayed: whole pieces, each with the work of its eager parts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from moa_core.bench.profile_spans import Piece
from moa_core.bench.profile_work import Work

GRAPH = "graph"


def replayed(key: tuple[Any, ...]) -> Piece:
    """Whom a replay's time is charged to, by the key that it is known by."""
    match key:
        case ("root", *_):
            return Piece("draft", GRAPH, 0)
        case ("level", level, *_):
            return Piece("draft", GRAPH, level)
        case ("tree", *_):
            return Piece("draft", "rerank")
        case ("verify", *_):
            return Piece("verify", GRAPH)
        case ("choose", *_):
            return Piece("verify", "choice")
    return Piece("cache", "path kept")


def as_replayed(work: Mapping[Piece, Work]) -> dict[Piece, Work]:
    """Work that was counted in the eager pieces, added up to those that are replayed."""
    found: dict[Piece, Work] = defaultdict(Work)
    for piece, each in work.items():
        found[_whole(piece)] += each
    return dict(found)


def _whole(piece: Piece) -> Piece:
    if piece.phase == "draft":  # LSA over what is new goes with the root
        return piece if piece.name == "rerank" else Piece("draft", GRAPH, piece.level or 0)
    if piece.phase == "verify":
        return piece if piece.name == "choice" else Piece("verify", GRAPH)
    return Piece("cache", "path kept") if piece.phase in ("accept", "cache") else piece
