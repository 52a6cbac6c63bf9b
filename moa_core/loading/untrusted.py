"""Files from people we do not know: configs are checked before anything is built from them, and
pickles are opened on request only. Every check of this kind is here. Imports no torch."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from moa_core.errors import UserError, first_line

LARGEST_CONFIG = 16 * 2**20  # bytes; the largest known have some 100 kB
DEEPEST = 16  # levels of nested lists in a trace or a recording
LARGEST_NUMBER = 2**62  # torch's own sums overflow beyond it
# These count modules, which are built before any weight is read, or numbers outside of weights.
PARTS = re.compile(r"(^|_)(layers?|blocks?|experts?|heads?|labels|depths?|stages)$")
MOST_PARTS = 1024
WIDE = {"head_dim": 2**16, "hidden_size": 2**24}
PICKLE = "pytorch_model.bin"  # the one pickle in common use: EAGLE heads are published as one
PICKLES = "MOA_ALLOW_PICKLE"  # an environment variable, so that processes we start obey it too


def read_json(path: Path, largest: int = LARGEST_CONFIG) -> Any:
    """What is in a JSON file. OSError if it cannot be read; ValueError if it is too large, nested
    too deep or no JSON."""
    if path.is_file() and path.stat().st_size > largest:
        raise ValueError(f"it has more than {largest / 2**20:,.0f} MiB")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def read_config(folder: Path) -> dict[str, Any]:
    """config.json of a model folder. UserError if it is missing, no JSON object, or claims sizes
    that no model has."""
    path = folder / "config.json"
    try:
        config = read_json(path)
    except FileNotFoundError:
        raise UserError(f"{folder} has no config.json: it is not a model folder.") from None
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read as JSON ({error}).") from None
    if not isinstance(config, dict):
        raise UserError(f"{path} is not a JSON object.")
    check_sizes(config, str(path))
    return config


def check_sizes(config: dict[str, Any], where: str) -> None:
    """UserError if a config has more parts, or larger numbers, than any model. where: the file."""
    waiting: list[tuple[str, Any]] = list(config.items())
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.items()
        elif isinstance(value, list):
            waiting += [(key, one) for one in value]
        elif isinstance(value, int):
            most = WIDE.get(key, MOST_PARTS if PARTS.search(key) else LARGEST_NUMBER)
            if abs(value) > most:
                shown = f"{value:,}" if abs(value) < 10**20 else "a number of more than 20 digits"
                raise UserError(f"{where} says that {key[:80]} is {shown}: no model is so large.")


def integer(config: dict[str, Any], key: str, default: Any, name: str, lowest: int = 1) -> Any:
    """A whole number of a config, or the default. UserError for anything else."""
    value = config.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < lowest:
        raise UserError(f"{name} has a config.json whose {key} is {value!r}: not a whole number.")
    return value


def size(config: dict[str, Any], key: str, name: str) -> int:
    """A whole number that a config must have."""
    value = integer(config, key, None, name)
    if value is None:
        raise UserError(f"{name} has a config.json without {key}: its shape is unknown.")
    return int(value)


def section(config: dict[str, Any], key: str, name: str) -> dict[str, Any]:
    """An object within a config, empty where there is none. UserError for anything else."""
    value = config.get(key) or {}
    if not isinstance(value, dict):
        raise UserError(f"{name} has a config.json whose {key} is {value!r}: not an object.")
    return value


def pickles_allowed(asked: bool = False) -> bool:
    """Whether a pickle of weights may be opened. asked: True for one of a preset's own."""
    return asked or os.environ.get(PICKLES) == "1"


def careful() -> dict[str, Any]:
    """Options of every `from_pretrained`: run no code of a repository, open no pickles."""
    return {
        "trust_remote_code": False,
        "use_safetensors": None if pickles_allowed() else True,
    }


def read_tensors(folder: Path, pickles: bool = False) -> dict[str, Any]:
    """All tensors of a drafter. UserError if the file is missing, truncated or no tensor file.

    pickles  whether pytorch_model.bin may be opened, as plain weights; see `PICKLES`
    """
    import torch
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path, pickle = folder / "model.safetensors", folder / PICKLE
    opened = path if path.exists() else pickle
    if not opened.exists():
        raise UserError(f"{folder} has no model.safetensors: there are no weights to load.")
    if opened is pickle and not pickles_allowed(pickles):
        raise UserError(
            f"The weights in {folder} are a pickle, {PICKLE}: it is opened only on request, by "
            f"--allow-pickle or {PICKLES}=1, and then for plain weights alone."
        )
    try:
        if opened is path:
            return load_file(path)
        found: Any = torch.load(pickle, map_location="cpu", weights_only=True)
        if isinstance(found, dict) and all(torch.is_tensor(one) for one in found.values()):
            return dict(found)
        raise TypeError
    except (SafetensorError, OSError, RuntimeError, ValueError, EOFError) as error:
        why = first_line(error)
        raise UserError(f"The weights in {folder} are damaged or cut short ({why}).") from None
    except Exception as error:  # pickle's own errors have no common base
        raise UserError(f"{opened} is not a plain weight file ({type(error).__name__}).") from None
