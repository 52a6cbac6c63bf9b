"""A Space: what its settings decide, and what its visitors are told. Nothing here loads anything.

A Space's variables and secrets are environment variables. Ours begin with MOA_, but for HF_TOKEN,
which is the Hub's own name for a token.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from moa_core.errors import UserError

GPU_PRESET = "llama3-8b"  # what a Space with a GPU runs
BUNDLE = "bundle"  # MOA_PRESET's word for the models that come with the program
# name: (default, lowest, highest)
NUMBERS = {
    "MOA_QUEUE": (16, 1, 256),  # events that may wait; gradio tells anyone else to come back
    "MOA_GPU_SECONDS": (120, 30, 600),  # that one press of a button may borrow a GPU (ZeroGPU)
}


@dataclass(frozen=True)
class Chosen:
    """Which preset to run, None for the bundle, and a sentence for the page, "" for none."""

    preset: str | None
    words: str = ""


def on_space(environ: Mapping[str, str]) -> bool:
    return bool(environ.get("SPACE_ID"))


def chosen_preset(environ: Mapping[str, str], cuda: bool) -> Chosen:
    """What to run if the command line does not say: MOA_PRESET, or what fits the Space.

    cuda  whether there is a GPU, or one can be borrowed
    """
    wanted = environ.get("MOA_PRESET", "").strip()
    if wanted == BUNDLE:
        return Chosen(None)
    if not on_space(environ):
        return Chosen(wanted or None)
    name = wanted or GPU_PRESET
    if not cuda:
        return Chosen(
            None,
            "This Space has no GPU, so the small bundled models run here. With a GPU and a Hub "
            f"token, it runs the preset {name}.",
        )
    if not environ.get("HF_TOKEN", "").strip():
        return Chosen(
            None,
            "The small bundled models run here, because this Space has no secret HF_TOKEN. The "
            f"preset {name} needs the token of an account with access to its target.",
        )
    return Chosen(name)


def number(environ: Mapping[str, str], name: str) -> int:
    """A setting of NUMBERS. UserError for what is no such number."""
    default, low, high = NUMBERS[name]
    given = environ.get(name, "").strip()
    if not given:
        return default
    if not re.fullmatch(r"\d{1,9}", given) or not low <= int(given) <= high:
        raise UserError(f"{name} is {given!r:.80}: it must be a whole number from {low} to {high}.")
    return int(given)
