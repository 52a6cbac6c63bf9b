"""JSON files of people we do not know: sizes are looked at before anything is made of them."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from moa_core.errors import UserError

LARGEST_CONFIG = 16 * 2**20  # bytes; the largest known have some 100 kB
DEEPEST = 16  # lists in lists of what a file says of a run
LARGEST_NUMBER = 2**62  # beyond it torch's own sums overflow
# So many parts are built before any weight is read, and so many numbers outside of weights.
PARTS = re.compile(r"(^|_)(layers?|blocks?|experts?|heads?|labels|depths?|stages)$")
MOST_PARTS = 1024
PICKLE = "pytorch_model.bin"  # the one pickle that is found in the wild
PICKLES = "MOA_ALLOW_PICKLE"  # an environment variable: what we start obeys it, too
ON_REQUEST = (
    f"it is opened only on request, by --allow-pickle or {PICKLES}=1, and then for plain weights "
    "alone."
)
WIDE = {"head_dim": 2**16, "hidden_size": 2**24}


def read_json(path: Path, largest: int = LARGEST_CONFIG) -> Any:
    """What is in a JSON file. OSError if it cannot be read; ValueError if it is too large, too deep
    or no JSON."""
    if path.is_file() and path.stat().st_size > largest:
        raise ValueError(f"it has more than {largest / 2**20:,.0f} MiB")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError("its lists lie too deep in each other") from None


def check_sizes(config: dict[str, Any], where: str) -> None:
    """UserError if a config asks for more parts, or larger numbers, than any model has.

    where  names the file in the sentence
    """
    waiting: list[tuple[str, Any]] = list(config.items())
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.items()
        elif isinstance(value, list):
            waiting += [(key, one) for one in value]
        elif isinstance(value, int) and abs(value) > _most(key):
            shown = f"{value:,}" if abs(value) < 10**20 else "a number of more than 20 digits"
            raise UserError(f"{where} says that {key[:80]} is {shown}: no model is so large.")


def _most(key: str) -> int:
    return WIDE.get(key, MOST_PARTS if PARTS.search(key) else LARGEST_NUMBER)


def pickles_allowed(asked: bool = False) -> bool:
    """Whether a pickle of weights may be opened. asked: for this one, whatever is set."""
    return asked or os.environ.get(PICKLES) == "1"


def careful(pickles: bool = False) -> dict[str, Any]:
    """What every `from_pretrained` is told: to run no code of a repository, to open no pickles."""
    return {
        "trust_remote_code": False,
        "use_safetensors": None if pickles_allowed(pickles) else True,
    }


def plain(value: Any, deepest: int = DEEPEST) -> Any:
    """The same, of text that can be sent: no lone surrogates. ValueError if it is too deep."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict | list | tuple):
        if not deepest:
            raise ValueError("too deep")
        if isinstance(value, dict):
            return {plain(key): plain(one, deepest - 1) for key, one in value.items()}
        return [plain(one, deepest - 1) for one in value]
    return value
