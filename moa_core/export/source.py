"""What is exported: a drafter as its files hold it, checked against the target it is for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from moa_core.drafters.base import Drafter
from moa_core.drafters.eagle import EagleDrafter
from moa_core.drafters.known import WITHOUT_WEIGHTS
from moa_core.drafters.moa import MoADrafter
from moa_core.errors import UserError
from moa_core.export.generate import fetched
from moa_core.loading.checkpoints import drafter_name, locate
from moa_core.loading.formats import build_drafter, read_config, read_tensors
from moa_core.loading.presets import pinned
from moa_core.model.target import Target

METHODS = (*WITHOUT_WEIGHTS, "moa-auto")  # of no files, or of several drafters'
SAME_FILES = {"eagle": "eagle2"}  # EAGLE's fixed tree uses the same head


@dataclass(frozen=True)
class Source:
    """A drafter to export.

    config     its config.json as it is
    tensors    those that it needs, in the dtype in which they are stored
    embedding  the copy of the target's embeddings that EAGLE heads may bring along
    drafter    the same, loaded beside its target
    verifier   what to call the target in an export: a Hub id or a name, never a path
    place      where the target's files are, if `target` is its shape alone
    """

    name: str
    folder: Path
    config: dict[str, Any]
    tensors: dict[str, Tensor]
    embedding: Tensor | None
    drafter: Drafter
    target: Target
    verifier: str
    place: str | None = None

    @property
    def tli(self) -> int | None:
        """N, for MoA alone."""
        return self.drafter.tli if isinstance(self.drafter, MoADrafter) else None

    @property
    def ours(self) -> dict[str, Any]:
        """Our own keys of its config: target, training, tree, licence. Empty for others' files."""
        found = self.config.get("drafter")
        return found if isinstance(found, dict) else {}

    @property
    def dtype(self) -> str:
        """The dtype of its tensors, as configs name it."""
        return str(next(iter(self.tensors.values())).dtype).removeprefix("torch.")

    @property
    def kind(self) -> str:
        """What it is, in words."""
        if isinstance(self.drafter, MoADrafter):
            return f"a Mixture of Attentions drafter, TLI N = {self.tli}"
        if isinstance(self.drafter, EagleDrafter):
            return "an EAGLE-2 head"
        return f"a drafter of the method {self.ours.get('method')}"


def read_source(
    spec: str,
    target: Target,
    tli: int | None = None,
    verifier: str = "",
    place: str | None = None,
) -> Source:
    """Read a drafter: a bundled name, a folder or a Hub id. UserError if it does not fit."""
    spec = drafter_name(spec)
    spec = SAME_FILES.get(spec, spec)
    if spec in METHODS:
        raise UserError(f"{spec} has no files of its own: name a drafter that has.")
    found = locate(spec)
    folder = found if isinstance(found, Path) else fetched(found, {})
    name = folder.resolve().name if isinstance(found, Path) else found.partition("@")[0]
    config, stored = read_config(folder), read_tensors(folder, pinned(spec))
    drafter = build_drafter(config, stored, target, tli, name)
    needed = drafter.net.state_dict()
    tensors = {key: stored[key].contiguous() for key in needed}
    embedding = stored.get("embed_tokens.weight")
    named = verifier or target.name.partition("@")[0]  # without a revision
    return Source(name, folder, config, tensors, embedding, drafter, target, named, place)
