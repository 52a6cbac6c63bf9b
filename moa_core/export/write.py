"""An export for `generate` of transformers: a drafter's weights, a file that imports ours, a card.

The target needs no weights, only its config and tokenizer: a drafter of an 8B target is exported
where that target would not fit.
"""

from __future__ import annotations

import json
from pathlib import Path
from string import Template

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

from moa_core.drafters.names import family, label, method_name
from moa_core.errors import UserError, saying
from moa_core.loading.catalog import config_folder, files_of, locate, with_files
from moa_core.loading.drafter_files import build_drafter, drafter_config
from moa_core.loading.hub import split
from moa_core.loading.load import is_whole_model, tokenizer_in
from moa_core.loading.memory import config_of
from moa_core.loading.presets import pinned
from moa_core.model.target import Target
from moa_core.untrusted import read_config, read_tensors

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
PAPERS = {"moa": ("mixture-of-attentions", "2410.03804"), "eagle2": ("eagle2", "2406.16858")}


def target_without_weights(spec: str | None) -> Target:
    """A target whose parameters take no memory: a bundled name, a folder or a Hub id.

    UserError if it is not there, or is no target.
    """
    place, folder = locate(spec), config_folder(spec)
    config, tokenizer = config_of(folder), tokenizer_in(folder)
    with saying(f"The target {place} cannot be read"), torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    return Target(model, tokenizer, _name(place))


def export(spec: str, target: Target, folder: Path) -> str:
    """Write a drafter, a bundled name, a folder or a Hub id; returns its name and method in words.

    The target's name goes into the export. UserError if the drafter does not fit the target.
    """
    found = locate(with_files(spec))
    source, name = files_of(found), _name(found)
    stored = read_config(source)
    if "drafter" not in stored and is_whole_model(source):
        raise UserError(f"{name} is a whole language model: `generate` takes it without an export.")
    tensors = read_tensors(source, pinned(found))
    drafter = build_drafter(stored, tensors, target, None, name)
    ours = stored.get("drafter") or {}
    kept = {key: one for key, one in ours.items() if key not in ("method", "tli", "target")}
    config = drafter_config(drafter, target, kept)
    needed = {key: tensors[key].contiguous() for key in drafter.net.state_dict()}
    method = method_name(config["drafter"]["method"], drafter.tli or 0)
    count = sum(tensor.numel() for tensor in needed.values())
    notes = _notes_beside(source) if ABOVE in (ours.get("licence"), ours.get("data")) else {}
    texts = {"README.md": card(name, method, target.name, count, bool(notes)), **CODE}
    texts["config.json"] = json.dumps(config, indent=2) + "\n"
    contents = {path: text.encode() for path, text in texts.items()} | notes
    with saying(f"{folder} cannot be written to"):
        for path, content in contents.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        save_file(needed, folder / "model.safetensors", metadata={"format": "pt"})
    return f"{name} ({label(method)})"


def card(name: str, method: str, verifier: str, count: int, noted: bool) -> str:
    """README.md of an export. noted: with the card of the models that the drafter comes from."""
    tag, paper = PAPERS.get(family(method), ("", ""))
    front = ["library_name: transformers", "tags:", "- speculative-decoding", "- custom_generate"]
    front += [f"- {tag}"] if tag else []
    front += [f"base_model: {verifier}"] if "/" in verifier else []
    return Template(CARD.read_text(encoding="utf-8")).substitute(
        front="\n".join(front),
        name=name.rsplit("/", 1)[-1],
        verifier=verifier,
        method=label(method),
        cited=paper and f" ([arXiv {paper}](https://arxiv.org/abs/{paper}))",
        distribution=DISTRIBUTION,
        count=f"{count:,}",
        notes="`config.json` and `SOURCE.md`" if noted else "`config.json`, where it states them",
    )


def _notes_beside(source: Path) -> dict[str, bytes]:
    """The card of the models that a drafter comes from, and its credits."""
    above = source.resolve().parent
    files = {f"credits/{path.name}": path for path in sorted((above / "credits").glob("*"))}
    if (above / "README.md").is_file():
        files["SOURCE.md"] = above / "README.md"
    return {name: path.read_bytes() for name, path in files.items()}


def _name(place: Path | str) -> str:
    return place.resolve().name if isinstance(place, Path) else split(place)[0]
