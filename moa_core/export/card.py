"""The README.md of an export: a model card with what its files are, and for whom."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path
from string import Template

from moa_core.drafters.eagle import EagleDrafter
from moa_core.drafters.moa import MoADrafter
from moa_core.export.source import Source

DISTRIBUTION = "moa-speculative"  # this package's name for pip; transformers looks for it
ABOVE = "see ../README.md"  # in a config: the card of the models from which this one was taken
COPIED = "SOURCE.md"  # that card in an export
HUB_LICENCES = {"apache-2.0", "mit", "llama3", "cc-by-4.0", "cc-by-sa-4.0", "openrail"}
LONGEST = 2000  # characters of what a config says of itself
USE = Path(__file__).parent / "use.md"  # how an export is used


def card(source: Source) -> str:
    """README.md of an export, from what the drafter's config says."""
    licence = _said(source, "licence")
    tags, paper = "speculative-decoding", ""
    if isinstance(source.drafter, MoADrafter):
        tags, paper = f"{tags}, mixture-of-attentions", "2410.03804"
    elif isinstance(source.drafter, EagleDrafter):
        tags, paper = f"{tags}, eagle2", "2406.16858"
    use = Template(USE.read_text(encoding="utf-8").strip()).substitute(
        verifier=source.verifier, distribution=DISTRIBUTION
    )
    count = sum(tensor.numel() for tensor in source.tensors.values())
    facts = [
        f"{count:,} parameters; embeddings and head are the target's.",
        f"Licence: {(licence or 'its config states none').removesuffix('.')}.",
        f"Training data: {_said(source, 'data') or 'its config states none'}.",
    ]
    front = ["library_name: transformers", f"tags: [{tags}, custom_generate]"]
    if "/" in source.verifier:
        front.append(f"base_model: {source.verifier}")
    if licence and licence.lower() in HUB_LICENCES:
        front.append(f"license: {licence.lower()}")
    elif licence:
        front += ["license: other", "license_name: as-stated-below"]
    cited = f" ([arXiv {paper}](https://arxiv.org/abs/{paper}))" if paper else ""
    return "\n".join([
        "---", *front, f"---\n\n# {source.name.rsplit('/', 1)[-1]}, for {source.verifier}\n",
        f"{source.kind[0].upper()}{source.kind[1:]}{cited}, for the target {source.verifier} and "
        "no other. Speculative decoding: it drafts, the target verifies, and the text is the "
        "target's own.\n",
        f"## Use\n\n{use}\n\n## Facts\n", *(f"- {fact}" for fact in facts), "",
    ])  # fmt: skip


def notes_beside(source: Source) -> dict[str, bytes]:
    """The card that a config points to with "see ../README.md", and its credits."""
    above = source.folder.resolve().parent
    pointed = ABOVE in (source.ours.get("licence"), source.ours.get("data"))
    if not pointed or not (above / "README.md").is_file():
        return {}
    credits = {f"credits/{path.name}": path for path in sorted((above / "credits").glob("*"))}
    files = {COPIED: above / "README.md", **credits}
    return {name: path.read_bytes() for name, path in files.items()}


def _said(source: Source, key: str) -> str | None:
    """What the config says about itself; a pointer to the card beside it goes with that card."""
    text = source.ours.get(key)
    if text == ABOVE:
        return f"see {COPIED}" if notes_beside(source) else None
    return plain(text) if isinstance(text, str) and text.strip() else None


def plain(text: str) -> str:
    """Words of an unknown config as one line of Markdown that is nothing but text."""
    line = escape(" ".join(text.split())[:LONGEST], quote=False)
    return re.sub(r"([\\`*\[\]|])", r"\\\1", line)
