"""Recorded benchmarks as text and tables: figures, date, machine and command."""

from __future__ import annotations

from html import escape
from typing import Any

import pandas as pd

from moa_core.bench.paper import Cell, claim, published
from moa_core.bench.records import Recording
from moa_core.bench.results import tree_text
from moa_core.drafters.names import LOOKUP, VANILLA, family, label

NOTES = {  # below each chart: how to read it
    "speed": (
        "Whole answers, the prompt’s call included. A token is a word or a part of one. Dotted: "
        "plain decoding, the model alone. In brackets: how many times as fast as that."
    ),
    "tau": (
        "What one call of the model brings on average, its own token included; alone, it is 1. "
        "Speed grows less, because guessing takes time. Thin lines: the 95\u00a0% interval over "
        "the prompts."
    ),
    "acceptance": "How often at least so many guesses in a row were right.",
    "times": "Without the prompt’s call. “Other”: acceptance, cache and so on.",
}
METHODS = (
    "<b>Plain</b>: the model alone. <b>N-gram lookup</b>: guesses by repeating the text so far. "
    "<b>MoA</b>, Mixture of Attentions: this page’s drafter, a small trained model; N: how many of "
    "the large model’s last layers it borrows. <b>EAGLE</b>: drafters by others, as large as MoA. "
    "<b>+ n-gram</b>: a drafter and n-gram lookup together. "
    "<b>transformers, llama.cpp</b>: other programs."
)
COLUMNS = (
    "× plain: speed over plain decoding’s. tokens/s: whole runs, the prompt’s call included. "
    "τ: tokens per model call; low and high: its 95\u00a0% interval. same text: share of the "
    "prompts with plain decoding’s text. tree: levels, guesses per level and guesses kept."
)


def table(recording: Recording) -> pd.DataFrame:
    """A row per kind of prompt and method, all kinds first. Empty columns are left out."""
    rows = [
        _row(name, kind, found)
        for kind in (None, *recording.kinds)
        for name in recording.methods
        if (found := recording.figures(name, kind))
    ]
    return pd.DataFrame(rows).dropna(axis="columns", how="all")


def _row(name: str, kind: str | None, found: dict[str, Any]) -> dict[str, Any]:
    whole = kind is None
    low, high = found.get("tau_spread") or (None, None)
    return {
        "method": label(name),
        "prompts": kind or "all",
        "× plain": _rounded(found.get("speedup"), 3) if whole else None,
        "tokens/s": _rounded(found.get("tokens_per_second"), 1),
        "τ": _rounded(found.get("tau"), 3),
        "same text": _rounded(found.get("identical_to_vanilla"), 4),
        "τ low": _rounded(low, 3),
        "τ high": _rounded(high, 3),
        "tokens/s after the prompt": _rounded(found.get("decode_tokens_per_second"), 1),
        "tree": tree_text(found) if whole else None,
        "trained parameters": found.get("trainable_parameters"),
        "drafts in": found.get("draft_precision"),
    }


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


PAPERS = {  # our methods' names in the authors' table
    "eagle2": "EAGLE-2, retrained by the authors", "moa-n0": "MoA, TLI N = 0",
    "moa-n1": "MoA, TLI N = 1", "moa-n3": "MoA, TLI N = 3",
}  # fmt: skip


def conclusion(recording: Recording) -> tuple[str, str]:
    """Whether drafting makes the model faster, and which drafter does, in a sentence each."""
    drafting = {name: found for name, found in recording.methods.items()
                if found.get("speedup") and found.get("tree") and name != VANILLA}  # fmt: skip
    order = sorted(drafting, key=lambda name: -drafting[name]["speedup"])
    if not order:
        return "", ""
    over = {name: f"{label(name)}, {found['speedup']:.2f} × plain decoding"
            for name, found in drafting.items()}  # fmt: skip
    first, best = (
        order[0],
        next((name for name in order if family(name.removesuffix(LOOKUP)) == "moa"), None),
    )
    said = "With these settings, no drafter makes the model faster"
    if (most := drafting[first]["speedup"]) > 1:
        said = f"With a drafter’s guesses, the model writes up to {most:.2f} times as fast"
        same = all(found.get("identical_to_vanilla") == 1 for found in drafting.values())
        said += ", and its text stays the same" * same
    which = f"Fastest: {over[first]}."
    if best and best != first:
        slower = ", so slower" * (drafting[best]["speedup"] < 1)
        which += f" Fastest MoA: {over[best]}{slower}."
    return f"{said}.", which


def papers_means() -> dict[str, Cell]:
    """Speed-up and τ of the methods that are also in the authors' table."""
    means = {row.drafter: published().mean(row) for row in published().rows}
    return {name: means[theirs] for name, theirs in PAPERS.items()}


def beside(recording: Recording | None = None) -> str:
    """Speed-up and τ of the paper's methods, here and in the paper, and whose they are, as HTML."""
    paper, rows = published(), ""
    for name, theirs in papers_means().items():
        found = recording.figures(name) if recording else {}
        cells = found.get("speedup"), found.get("tau"), *theirs
        tds = "".join(f"<td>{f'{cell:.2f}' if cell else '–'}</td>" for cell in cells)
        rows += f'<tr><th scope="row">{escape(label(name))}</th>{tds}</tr>'
    apart = ", ".join(name for at, name in enumerate(paper.data) if at not in paper.shared)
    source = ". ".join(escape(text) for text in paper.source.values())
    return f"""<div class="paper"><h2>In the paper, with a larger model</h2>
<p><b>Not measured here.</b> {escape(paper.target)}, {escape(paper.settings)}; hardware
{escape(paper.hardware)}. × plain: speed over plain decoding’s on the same machine, so compare
methods, not machines.</p>
<table class="beside"><thead><tr><th rowspan="2">Method</th><th colspan="2">Here</th>
<th colspan="2">In the paper</th></tr><tr>{"<th>× plain</th><th>τ</th>" * 2}</tr></thead>
<tbody>{rows}</tbody></table>
<p class="note">–: not trained here. The paper’s figures: means of its data sets, without
{escape(apart)}. {escape(paper.flag)} Source: {source}.</p></div>"""


def headline(recording: Recording) -> str:
    """A recording's conclusion, and how it was made, as HTML."""
    every, (short, which) = [*recording.methods.values()], conclusion(recording)
    spreads = [one.get("tokens_per_second_spread") or (0, 0) for one in every]
    said = "Each ran once, so a difference of a few percent means nothing."
    if any(low < high for low, high in spreads):
        said = "Thin lines in the chart of speeds: the slowest and the fastest run."
    return (
        f'<div class="record-claims"><p class="conclusion">{escape(short)}</p><p>{escape(which)} '
        f"Measured on {every[0]['prompts']} prompts with {escape(recording.target)}. {said}</p>"
        "<details><summary>How it was measured</summary>"
        f"<p><b>{escape(recording.name)}</b>: {escape(claim(recording))}</p>"
        f"<p>Recorded {escape(recording.date)} on {escape(recording.machine)}, "
        f"{escape(recording.precision)}, commit {escape(recording.commit)}. Compare speeds within "
        f'one recording only.</p><pre tabindex="0">{escape(recording.command)}</pre></details>'
        "</div>"
    )
