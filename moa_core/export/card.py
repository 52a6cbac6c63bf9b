"""The README.md of an export: a model card with what its files are, and for whom."""

from __future__ import annotations

import json
import re
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from moa_core.drafters.eagle import EagleDrafter
from moa_core.drafters.moa import MoADrafter
from moa_core.export.hub import DISTRIBUTION
from moa_core.export.source import Source
from moa_core.loading.checkpoints import bundled

PAPERS = {MoADrafter: "2410.03804", EagleDrafter: "2406.16858"}
ELSEWHERE = re.compile(r"^see \.\./README\.md$")
COPIED = "SOURCE.md"  # the card of the models from which this one was taken
LICENCE = re.compile(r"\A---\n(?:.*\n)*?license: ([\w.-]+)\n")  # in a card's front matter
HUB_LICENCES = {"apache-2.0", "mit", "llama3", "cc-by-4.0", "cc-by-sa-4.0", "openrail"}

TAGS = {"eagle2", "medusa", "glide", "independent"}
LONGEST = 2000  # characters of what a config says of itself

CARDS = Path(__file__).parent / "cards"  # how each export is used
SERVING = {  # by whether a head has a bias where it joins embedding and feature
    True: (
        "SGLang reads it (vLLM's class has no place for this head's bias)",
        "python -m sglang.launch_server --model-path $verifier --speculative-algorithm EAGLE "
        "--speculative-draft-model-path FOLDER --speculative-num-steps $depth "
        "--speculative-eagle-topk $breadth --speculative-num-draft-tokens $nodes",
    ),
    False: (
        "vLLM reads it (SGLang's class wants a bias, which this head lacks)",
        "vllm serve $verifier --speculative-config "
        """'{"method": "eagle", "model": "FOLDER", "num_speculative_tokens": $depth}'""",
    ),
}
RECORDED = Path(__file__).parents[2] / "assets" / "results" / "same-tree" / "summary.json"


def card(source: Source, kind: str, licence: str | None) -> str:
    """README.md of an export, from what the drafter's config says.

    kind     its format
    licence  of the weights, where the config does not say it
    """
    parts = [
        _front(source, kind, licence),
        f"# {source.name.rsplit('/', 1)[-1]}, for {source.verifier}\n",
        f"{source.kind[0].upper()}{source.kind[1:]}{_paper(source)}, for the target "
        f"{source.verifier} and no other. Speculative decoding: it drafts, the target verifies, "
        "and the text is the target's own.\n",
        "## Use\n\n" + _use(source, kind) + "\n",
        "## Facts\n\n" + "\n".join(f"- {fact}" for fact in _facts(source, licence)) + "\n",
    ]
    return "\n".join(parts)


def notes_beside(source: Source) -> dict[str, bytes]:
    """Files that a config points to with "see ../README.md": that card, and its credits."""
    said = (source.ours.get("licence"), source.ours.get("data"))
    above = source.folder.resolve().parent
    if not any(_elsewhere(text) for text in said) or not (above / "README.md").is_file():
        return {}
    credits = sorted((above / "credits").glob("*")) if (above / "credits").is_dir() else []
    found = {COPIED: (above / "README.md").read_bytes()}
    return found | {f"credits/{path.name}": path.read_bytes() for path in credits}


def _elsewhere(text: Any) -> bool:
    return isinstance(text, str) and bool(ELSEWHERE.match(text))


def _front(source: Source, kind: str, licence: str | None) -> str:
    tags = ["speculative-decoding"]
    moa = isinstance(source.drafter, MoADrafter)
    method = source.ours.get("method", "eagle2")
    tags.append("mixture-of-attentions" if moa else method if method in TAGS else "drafter")
    tags += ["custom_generate"] if kind == "custom-generate" else []
    lines = ["---", "library_name: transformers", f"tags: [{', '.join(tags)}]"]
    if "/" in source.verifier:
        lines.append(f"base_model: {source.verifier}")
    known = licence or _said(source, "licence")
    if known and known.lower() in HUB_LICENCES:
        lines.append(f"license: {known.lower()}")
    elif known:
        lines += ["license: other", "license_name: as-stated-below"]
    return "\n".join([*lines, "---\n"])


def _said(source: Source, key: str) -> str | None:
    """What the config says about itself; a pointer to the card beside it follows that card."""
    text = source.ours.get(key)
    if _elsewhere(text):
        beside = notes_beside(source).get(COPIED)
        named = LICENCE.search(beside.decode()) if beside and key == "licence" else None
        return named[1] if named else f"see {COPIED}" if beside else None
    return plain(text) if isinstance(text, str) and text.strip() else None


def plain(text: str) -> str:
    """Words of a stranger's config as one line of Markdown that is nothing but text."""
    line = escape(" ".join(text.split())[:LONGEST], quote=False)
    return re.sub(r"([\\`*\[\]|])", r"\\\1", line)


def _paper(source: Source) -> str:
    for kind, paper in PAPERS.items():
        if isinstance(source.drafter, kind):
            return f" ([arXiv {paper}](https://arxiv.org/abs/{paper}))"
    return ""


def _use(source: Source, kind: str) -> str:
    moa = isinstance(source.drafter, MoADrafter)
    path = CARDS / f"{kind}.md"
    if not path.exists():
        path = CARDS / f"{kind}-{'moa' if moa else 'eagle'}.md"
    engine, command = SERVING["fc.bias" in source.tensors]
    tree = source.drafter.tree
    facts = {
        "verifier": source.verifier, "tli": source.tli, "distribution": DISTRIBUTION,
        "depth": tree.depth, "breadth": tree.breadth, "nodes": tree.budget + 1, "engine": engine,
    }  # fmt: skip
    facts["command"] = Template(command).substitute(facts)
    return Template(path.read_text(encoding="utf-8")).substitute(facts).strip()


def _facts(source: Source, licence: str | None) -> list[str]:
    count = sum(tensor.numel() for tensor in source.tensors.values())
    tree = source.drafter.tree
    facts = [f"{count:,} parameters, {source.dtype}; embeddings and head are the target's."]
    if source.tli is not None:
        layers = "last layer finishes" if source.tli == 1 else f"last {source.tli} layers finish"
        reused = (
            f"the target's {layers} each draft" if source.tli else "no layer of the target drafts"
        )
        facts.append(f"TLI N = {source.tli}: {reused}.")
    if source.ours.get("tree"):
        facts.append(
            f"Its own draft tree: {tree.depth} levels, {tree.breadth} wide, {tree.budget} nodes."
        )
    known = licence or _said(source, "licence")
    facts.append(f"Licence: {known or 'its config states none'}.".replace("..", "."))
    facts.append(f"Training data: {_said(source, 'data') or 'its config states none'}.")
    if tau := _recorded(source):
        facts.append(tau)
    return facts


def _recorded(source: Source) -> str | None:
    """The recorded τ of a bundled drafter with its target; None for any other."""
    if not bundled(source.folder) or not RECORDED.is_file():
        return None
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    figures = recorded["methods"].get(source.name)
    if figures is None or recorded["target"]["name"] != source.target.name:
        return None
    precision = figures.get("draft_precision")
    drafts = f"drafts in {precision}, " if precision else ""
    return (
        f"τ {figures['tau']:.2f} (tokens gained per target forward after the prefill, bonus "
        f"included) over {figures['prompts']} prompts, {drafts}{recorded['date'][:10]}, commit "
        f"{recorded['commit']}: `{recorded['command']}`."
    )
