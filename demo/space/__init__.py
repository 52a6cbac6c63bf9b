"""A Space's settings, and the note for its visitors. Loads nothing.

A Space's variables and secrets are environment variables. Ours start with MOA_; HF_TOKEN is the
Hub's own.
"""

import re
from collections.abc import Mapping

from moa_core.errors import UserError

GPU_PRESET = "llama3-8b"  # the default on a GPU
BUNDLE = "bundle"  # MOA_PRESET's name for the default target
# name: (default, lowest, highest)
NUMBERS = {
    "MOA_QUEUE": (16, 1, 256),  # events that may wait; gradio refuses more
    "MOA_GPU_SECONDS": (120, 30, 600),  # seconds that one run may borrow a GPU (ZeroGPU)
}


def on_space(environ: Mapping[str, str]) -> bool:
    return bool(environ.get("SPACE_ID"))


def chosen_preset(environ: Mapping[str, str], cuda: bool) -> tuple[str | None, str]:
    """The preset if the command line names none: MOA_PRESET, or what fits the Space; None: the
    default target. And a note for the page, "" for none.

    cuda  whether there is a GPU, or one can be borrowed
    """
    wanted = environ.get("MOA_PRESET", "").strip()
    if wanted == BUNDLE:
        return None, ""
    if not on_space(environ):
        return wanted or None, ""
    name = wanted or GPU_PRESET
    if not cuda:
        return None, (
            "This Space has no GPU, so the small default model runs here. With a GPU and a Hub "
            f"token, it runs the preset {name}."
        )
    if not environ.get("HF_TOKEN", "").strip():
        return None, (
            "The small default model runs here, because this Space has no secret HF_TOKEN. The "
            f"preset {name} needs the token of an account with access to its target."
        )
    return name, ""


def number(environ: Mapping[str, str], name: str) -> int:
    """A setting of NUMBERS. UserError for an invalid number."""
    default, low, high = NUMBERS[name]
    given = environ.get(name, "").strip()
    if not given:
        return default
    if not re.fullmatch(r"\d{1,9}", given) or not low <= int(given) <= high:
        raise UserError(f"{name} is {given!r:.80}: it must be a whole number from {low} to {high}.")
    return int(given)
