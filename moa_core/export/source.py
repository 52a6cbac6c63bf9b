"""What is exported: a drafter as its files hold it, checked against the target it is for.

The target needs no weights, only its config and tokenizer: a drafter of an 8B target is exported
where that target would not fit.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from moa_core.drafters.base import Drafter
from moa_core.drafters.eagle import EagleDrafter
from moa_core.drafters.known import WITHOUT_WEIGHTS
from moa_core.drafters.moa import MoADrafter
from moa_core.errors import UserError, first_line
from moa_core.loading.catalog import DERIVED, bundled_target, config_folder, drafter_name, locate
from moa_core.loading.drafter_files import build_drafter
from moa_core.loading.hub import fetch_weights, split
from moa_core.loading.load import tokenizer_in
from moa_core.loading.memory import config_of
from moa_core.loading.names import AUTO
from moa_core.loading.presets import pinned
from moa_core.loading.untrusted import read_config, read_tensors
from moa_core.model.target import Target


@dataclass(frozen=True)
class Source:
    """A drafter to export."""

    name: str
    folder: Path
    ours: dict[str, Any]  # our own keys of its config; empty for others' files
    tensors: dict[str, Tensor]  # those that it needs, in the dtype in which they are stored
    drafter: Drafter  # the same, loaded beside its target
    target: Target
    verifier: str  # what to call the target in an export: a Hub id or a name, never a path

    @property
    def kind(self) -> str:
        """What it is, in words."""
        if isinstance(self.drafter, MoADrafter):
            return f"a Mixture of Attentions drafter, TLI N = {self.drafter.tli}"
        if isinstance(self.drafter, EagleDrafter):
            return "an EAGLE-2 head"
        return f"a drafter of the method {self.ours.get('method')}"


def read_source(spec: str, target: Target, verifier: str = "") -> Source:
    """Read a drafter: a bundled name, a folder or a Hub id. UserError if it does not fit."""
    spec = drafter_name(spec)
    spec = DERIVED.get(spec, spec)
    if spec in (*WITHOUT_WEIGHTS, AUTO):
        raise UserError(f"{spec} has no files of its own: name a drafter that has.")
    found = locate(spec)
    if isinstance(found, Path):
        folder, name = found, found.resolve().name
    else:
        folder, name = fetch_weights(found, pickles=pinned(found)), split(found)[0]
    config, stored = read_config(folder), read_tensors(folder, pinned(found))
    drafter = build_drafter(config, stored, target, None, name)
    tensors = {key: stored[key].contiguous() for key in drafter.net.state_dict()}
    named = verifier or split(target.name)[0]
    return Source(name, folder, config.get("drafter") or {}, tensors, drafter, target, named)


def target_without_weights(spec: str | None) -> Target:
    """A target whose parameters take no memory: a bundled name, a folder or a Hub id.

    UserError if it cannot be had, or is no target.
    """
    place = locate(spec or bundled_target())
    folder = config_folder(spec or bundled_target())
    read_config(folder)  # its sentences are clearer than transformers' own
    config, tokenizer = config_of(folder), tokenizer_in(folder)
    try:
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config)
    except Exception as error:  # transformers raises many kinds; all mean: not usable
        raise UserError(f"The target {place} cannot be read: {first_line(error)}") from error
    name = place.resolve().name if isinstance(place, Path) else split(place)[0]
    return Target(model, tokenizer, name)
