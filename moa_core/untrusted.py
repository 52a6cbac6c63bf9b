"""Checks of untrusted files. Configs are checked before anything is built from them, and pickles
are opened only on request. Does not import torch at the top."""

import gzip
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from moa_core.errors import UserError, saying

LARGEST_CONFIG = 16 * 2**20  # bytes; the largest known configs have about 100 kB
LARGEST_NUMBER = 2**62  # torch's sums overflow beyond it
# Counts of modules, which are built before any weight is read.
PARTS = re.compile(r"(^|_)(layers?|blocks?|experts?|heads?|labels|depths?|stages)$")
MOST_PARTS = 1024
WIDE = {"head_dim": 2**16, "hidden_size": 2**24}
Whole = Annotated[int, msgspec.Meta(ge=1)]
Count = Annotated[int, msgspec.Meta(ge=0)]
Eps = Annotated[float, msgspec.Meta(gt=0, lt=1)]
PICKLE = "pytorch_model.bin"  # the one pickle in common use: EAGLE heads are published as one
PICKLES = "MOA_ALLOW_PICKLE"  # an environment variable, so that child processes obey it


def read_json(path: Path) -> Any:
    """The content of a JSON file. OSError if it cannot be read; ValueError if it is too large,
    nested too deeply or not JSON."""
    if path.is_file() and path.stat().st_size > LARGEST_CONFIG:
        raise ValueError(f"it has more than {LARGEST_CONFIG / 2**20:,.0f} MiB")
    return parsed(path.read_text(encoding="utf-8"))


def parsed(text: str) -> Any:
    """The content of a JSON text. ValueError if it is not JSON, or nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    """The number, from 1, and content of each line but empty ones, of a file that may be
    compressed. UserError if it cannot be read, and, naming the line, for one that is not JSON."""
    with saying(f"{path} cannot be read"):
        data = path.read_bytes()
        text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8-sig")
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            with saying(f"Line {number} of {path} is not JSON"):
                found = parsed(line)
            yield number, found


def read_config(folder: Path) -> dict[str, Any]:
    """config.json of a model folder. UserError if it is missing, not a JSON object, or has sizes
    that no model has."""
    path = folder / "config.json"
    with saying(f"{path} cannot be read as JSON"):
        if not path.exists():
            raise UserError(f"{folder} has no config.json: it is not a model folder.")
        config = read_json(path)
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


def value(config: Mapping[str, Any], key: str, kind: Any, name: str, *default: Any) -> Any:
    """A value of a config, or the default. UserError if it has another type, or is missing without
    a default."""
    found = config.get(key)
    if found is None:
        if not default:
            raise UserError(f"{name} has a config.json without {key}: its shape is unknown.")
        return default[0]
    try:
        return msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        raise UserError(
            f"{name} has a config.json whose {key} is {found!r:.80}: {error}."
        ) from None


def section(config: Mapping[str, Any], key: str, name: str) -> dict[str, Any]:
    """An object in a config; empty if there is none."""
    return dict(value(config, key, dict[str, Any], name, {}))


def pickles_allowed(asked: bool = False) -> bool:
    """Whether a pickle of weights may be opened. asked: True for a preset's pickle."""
    return asked or os.environ.get(PICKLES) == "1"


def careful() -> dict[str, Any]:
    """Options for every `from_pretrained`: run no code from a repository, open no pickles."""
    return {"trust_remote_code": False, "use_safetensors": None if pickles_allowed() else True}


def read_tensors(folder: Path, pickles: bool = False) -> dict[str, Any]:
    """All tensors of a drafter. UserError if the file is missing, truncated or not a tensor file.

    pickles  whether pytorch_model.bin may be opened, for plain weights only; see `PICKLES`
    """
    import torch
    from safetensors.torch import load_file

    path, pickle = folder / "model.safetensors", folder / PICKLE
    if not path.exists() and not pickle.exists():
        raise UserError(f"{folder} has no model.safetensors: there are no weights to load.")
    if not path.exists() and not pickles_allowed(pickles):
        raise UserError(
            f"The weights in {folder} are a pickle, {PICKLE}: it is opened only with "
            f"--allow-pickle or {PICKLES}=1, and then only for plain weights."
        )
    with saying(f"The weights in {folder} are damaged or cut short"):
        if path.exists():
            return load_file(path)
        found: dict[str, Any] = torch.load(pickle, map_location="cpu", weights_only=True)
        if not all(torch.is_tensor(one) for one in found.values()):
            raise TypeError("it holds more than tensors")
    return found
