"""Recorded benchmarks as text and tables: figures, date, machine and command."""

from __future__ import annotations

from html import escape
from typing import Any

import pandas as pd

from moa_core.bench.paper import Cell, claim, published
from moa_core.bench.records import Recording
from moa_core.bench.results import tree_text
from moa_core.drafters.names import label

NOTES = {  # below each chart: how to read it
    "tau": (
        "Tokens gained per target call after the prefill, bonus included. Plain decoding: τ = 1. "
        "Whiskers: 95\u00a0% interval, by resampling the prompts."
    ),
    "speed": (
        "New tokens per second of the whole run, prefill included. Whiskers, where each ran "
        "several times: slowest and fastest. Dotted: plain decoding."
    ),
    "acceptance": "Share of cycles that accepted at least this many drafts.",
    "times": (
        "Without the prefill; all kinds of prompt together. “Other”: acceptance, cache and so on."
    ),
}


def table(recording: Recording) -> pd.DataFrame:
    """A row per method and kind of prompt. Empty columns are left out."""
    rows = [
        _row(name, kind, found)
        for name in recording.methods
        for kind in (None, *recording.kinds)
        if (found := recording.figures(name, kind))
    ]
    return pd.DataFrame(rows).dropna(axis="columns", how="all")


def _row(name: str, kind: str | None, found: dict[str, Any]) -> dict[str, Any]:
    whole = kind is None
    low, high = found.get("tau_spread") or (None, None)
    return {
        "method": label(name),
        "kind": kind or "all",
        "τ": _rounded(found.get("tau"), 3),
        "τ low": _rounded(low, 3),
        "τ high": _rounded(high, 3),
        "tokens/s": _rounded(found.get("tokens_per_second"), 1),
        "decoding tokens/s": _rounded(found.get("decode_tokens_per_second"), 1),
        "× plain": _rounded(found.get("speedup"), 3) if whole else None,
        "tree": tree_text(found) if whole else None,
        "same text as plain": _rounded(found.get("identical_to_vanilla"), 4),
        "repeated 8-grams": _rounded(found.get("repeats_8gram"), 4),
        "parameters": found.get("trainable_parameters"),
        "drafts in": found.get("draft_precision"),
    }


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


PAPERS = {  # our methods' names in the authors' table
    "vanilla": "", "eagle2": "EAGLE-2, retrained by the authors", "moa-n0": "MoA, TLI N = 0",
    "moa-n1": "MoA, TLI N = 1", "moa-n3": "MoA, TLI N = 3",
}  # fmt: skip


def conclusion(recording: Recording) -> str:
    """The fastest method, the one that accepts most, and where MoA stands, in two sentences."""
    speed = {name: found["speedup"] for name, found in recording.methods.items()
             if found.get("speedup")}  # fmt: skip
    tau = {name: found["tau"] for name, found in recording.methods.items() if found.get("tau")}
    moa = {name: value for name, value in tau.items() if name.startswith("moa")}
    if not speed or not moa:
        return ""
    fastest, most = max(speed, key=speed.__getitem__), max(tau, key=tau.__getitem__)
    best = max(moa, key=moa.__getitem__)
    low, high = recording.methods[fastest].get("tokens_per_second_spread") or (0, 0)
    once = "" if low < high else ", in one pass"
    said = f"Fastest here{once}: {label(fastest)}, {speed[fastest]:.2f} × plain decoding. "
    if most == best:
        return f"{said}{label(most)} gains most per call (τ {tau[most]:.2f})."
    there = f"at {speed.get(best, 0):.2f} × plain decoding’s speed."
    if f"{tau[most]:.2f}" == f"{tau[best]:.2f}":
        both = f"{label(most)} and {label(best)} gain most per call (τ {tau[most]:.2f}), the latter"
        return f"{said}{both} {there}"
    most_of = f"{label(most)} gains most per call (τ {tau[most]:.2f})"
    return f"{said}{most_of}; {label(best)} {tau[best]:.2f}, {there}"


def beside(recording: Recording) -> str:
    """τ and speed-up of a recording beside the authors' means, as an HTML table."""
    paper = published()
    sets = f"{len(paper.shared)} of its {len(paper.data)} sets"
    means = {row.drafter: paper.mean(row) for row in paper.rows}
    rows = []
    for name, found in recording.methods.items():
        theirs = (1.0, 1.0) if name == "vanilla" else means.get(PAPERS.get(name, ""))
        ours = (found.get("speedup"), found.get("tau"))
        cells = [*ours, *(theirs or (None, None))]
        texts = [f"{cell:.2f}" if cell else "–" for cell in cells]
        texts = [f"{text} ×" if at % 2 == 0 and text != "–" else text
                 for at, text in enumerate(texts)]  # fmt: skip
        tds = "".join(f"<td>{text}</td>" for text in (texts[1], texts[0], texts[3], texts[2]))
        rows.append(f'<tr><th scope="row">{escape(label(name))}</th>{tds}</tr>')
    return (
        '<div class="wide" tabindex="0" role="group" aria-label="Here and in the paper">'
        '<table class="beside"><thead><tr><th rowspan="2">Method</th>'
        f'<th colspan="2">Here: {escape(recording.target)}</th>'
        f'<th colspan="2">The paper: {escape(paper.target)}, {sets}</th></tr>'
        "<tr><th>τ</th><th>speed-up</th><th>τ</th><th>speed-up</th></tr></thead>"
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def headline(recording: Recording) -> str:
    """A recording's conclusion about MoA and EAGLE-2, and how it was made, as HTML."""
    return (
        f'<div class="record-claims"><p class="conclusion">{escape(conclusion(recording))}</p>'
        f"{beside(recording)}<p><b>{escape(recording.name)}</b>: {escape(claim(recording))}</p>"
        f"<p class='note'>Recorded {escape(recording.date)} on {escape(recording.machine)}, "
        f"{escape(recording.precision)}, target {escape(recording.target)}, commit "
        f"{escape(recording.commit)}. Compare speeds within one recording only.</p>"
        "<details><summary>Command</summary>"
        f'<pre tabindex="0">{escape(recording.command)}</pre></details></div>'
    )


def paper_words() -> tuple[str, str]:
    """What is said above and below the authors' own table."""
    paper = published()
    source = ". ".join(escape(text) for text in paper.source.values())
    return (
        f"""<h2>For comparison: the authors’ published figures</h2>
<p><b>Not measured here: another model and another machine.</b> {escape(paper.target)},
{escape(paper.settings)}; hardware {escape(paper.hardware)}. Cells: speed-up over the authors’
own plain decoding / τ. Compare rows within this table, not speed-ups across tables.</p>""",
        f"<p>† Left out. {escape(paper.flag)} ‡ Includes the cell left out.</p>"
        f"<p>Source: {source}.</p>",
    )


def paper_table() -> pd.DataFrame:
    """Drafter, cells, the mean of the shared data sets, and the mean that the authors print."""
    paper = published()
    apart = ", ".join(name for at, name in enumerate(paper.data) if at not in paper.shared)
    rows = [
        {
            "drafter": row.drafter,
            **dict(
                zip(paper.data, [_pair(cell) if cell else "†" for cell in row.cells], strict=True)
            ),
            f"mean without {apart}, computed here": _pair(paper.mean(row)),
            "mean as printed": _pair(row.printed_mean) + " ‡" * row.mean_includes_flagged,
        }
        for row in paper.rows
    ]
    return pd.DataFrame(rows)


def _pair(cell: Cell) -> str:
    return f"{cell[0]:.2f} × / {cell[1]:.2f}"
