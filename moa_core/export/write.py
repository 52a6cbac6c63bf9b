"""An export for `generate` of transformers: a drafter's weights, a file that imports ours, a card.

The target needs no weights, only its config and tokenizer: a drafter of an 8B target is exported
where that target would not fit.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers import AutoModelForCausalLM

from moa_core.drafters.base import Drafter
from moa_core.drafters.eagle import EagleDrafter
from moa_core.drafters.moa import MoADrafter
from moa_core.errors import UserError, saying
from moa_core.loading.catalog import config_folder, locate, with_files
from moa_core.loading.drafter_files import build_drafter, drafter_config
from moa_core.loading.hub import split
from moa_core.loading.load import files_of, is_whole_model, tokenizer_in
from moa_core.loading.memory import config_of
from moa_core.loading.presets import pinned
from moa_core.loading.untrusted import read_config, read_tensors
from moa_core.model.target import Target

DISTRIBUTION = "moa-speculative"  # this package's name for pip; transformers looks for it
CODE = {
    "custom_generate/generate.py": '''"""Speculative decoding with its drafter: see README.md."""

from moa_core.export.generate import generate

__all__ = ["generate"]
''',
    "custom_generate/requirements.txt": f"{DISTRIBUTION}\n",
}
CARD = Path(__file__).parent / "card.md"
ABOVE = "see ../README.md"  # in a config: the card of the models from which this one was taken
COPIED = "SOURCE.md"  # that card in an export
HUB_LICENCES = {"apache-2.0", "mit", "llama3", "cc-by-4.0", "cc-by-sa-4.0", "openrail"}
OTHER = "other\nlicense_name: as-stated-below"
LONGEST = 2000  # characters of what a config says of itself


@dataclass(frozen=True)
class Source:
    """A drafter to export."""

    name: str
    folder: Path
    ours: dict[str, Any]  # our own keys of its config; empty for others' files
    tensors: dict[str, Tensor]  # only those that it needs, in their stored dtype
    drafter: Drafter  # the same, loaded beside its target
    target: Target  # its name goes into the export: a Hub id or a name, never a path

    @property
    def kind(self) -> str:
        if isinstance(self.drafter, MoADrafter):
            return f"a Mixture of Attentions drafter, TLI N = {self.drafter.tli}"
        if isinstance(self.drafter, EagleDrafter):
            return "an EAGLE-2 head"
        return f"a drafter of the method {self.ours.get('method')}"


def read_source(spec: str, target: Target) -> Source:
    """Read a drafter: a bundled name, a folder or a Hub id. UserError if it does not fit."""
    found = locate(with_files(spec))
    folder = files_of(found)
    name = found.resolve().name if isinstance(found, Path) else split(found)[0]
    config = read_config(folder)
    if "drafter" not in config and is_whole_model(folder):
        raise UserError(f"{name} is a whole language model: `generate` takes it without an export.")
    stored = read_tensors(folder, pinned(found))
    drafter = build_drafter(config, stored, target, None, name)
    tensors = {key: stored[key].contiguous() for key in drafter.net.state_dict()}
    return Source(name, folder, config.get("drafter") or {}, tensors, drafter, target)


def target_without_weights(spec: str | None) -> Target:
    """A target whose parameters take no memory: a bundled name, a folder or a Hub id.

    UserError if it is not there, or is no target.
    """
    place, folder = locate(spec), config_folder(spec)
    config, tokenizer = config_of(folder), tokenizer_in(folder)
    with saying(f"The target {place} cannot be read"), torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    name = place.resolve().name if isinstance(place, Path) else split(place)[0]
    return Target(model, tokenizer, name)


def export(source: Source, folder: Path) -> None:
    kept = {key: one for key, one in source.ours.items() if key not in ("method", "tli", "target")}
    config = drafter_config(source.drafter, source.target, kept)
    texts = {"README.md": card(source), **CODE}
    texts["config.json"] = json.dumps(config, indent=2) + "\n"
    contents = {path: text.encode() for path, text in texts.items()} | _notes_beside(source)
    with saying(f"{folder} cannot be written to"):
        for path, content in contents.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        save_file(source.tensors, folder / "model.safetensors", metadata={"format": "pt"})


def card(source: Source) -> str:
    """README.md of an export, from what the drafter's config says."""
    licence, verifier, paper = _said(source, "licence"), source.target.name, ""
    front = ["library_name: transformers", "tags:", "- speculative-decoding", "- custom_generate"]
    if isinstance(source.drafter, MoADrafter):
        front, paper = [*front, "- mixture-of-attentions"], "2410.03804"
    elif isinstance(source.drafter, EagleDrafter):
        front, paper = [*front, "- eagle2"], "2406.16858"
    if "/" in verifier:
        front.append(f"base_model: {verifier}")
    if licence:
        known = licence.lower() in HUB_LICENCES
        front.append(f"license: {licence.lower() if known else OTHER}")
    return Template(CARD.read_text(encoding="utf-8")).substitute(
        front="\n".join(front),
        name=source.name.rsplit("/", 1)[-1],
        verifier=verifier,
        kind=source.kind[0].upper() + source.kind[1:],
        cited=paper and f" ([arXiv {paper}](https://arxiv.org/abs/{paper}))",
        distribution=DISTRIBUTION,
        count=f"{sum(tensor.numel() for tensor in source.tensors.values()):,}",
        licence=(licence or "its config states none").removesuffix("."),
        data=_said(source, "data") or "its config states none",
    )


def _notes_beside(source: Source) -> dict[str, bytes]:
    """The card that a config points to with "see ../README.md", and its credits."""
    above = source.folder.resolve().parent
    pointed = ABOVE in (source.ours.get("licence"), source.ours.get("data"))
    if not pointed or not (above / "README.md").is_file():
        return {}
    credits = {f"credits/{path.name}": path for path in sorted((above / "credits").glob("*"))}
    files = {COPIED: above / "README.md", **credits}
    return {name: path.read_bytes() for name, path in files.items()}


def _said(source: Source, key: str) -> str | None:
    """What the config says about itself; a pointer to a card only if that card is exported too."""
    text = source.ours.get(key)
    if text == ABOVE:
        return f"see {COPIED}" if _notes_beside(source) else None
    if not isinstance(text, str) or not text.strip():
        return None
    line = escape(" ".join(text.split())[:LONGEST], quote=False)
    return re.sub(r"([\\`*\[\]|])", r"\\\1", line)  # plain text in Markdown
