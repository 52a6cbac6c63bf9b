"""Recorded benchmarks as a table, and as words: what, when, where, and with which command."""

from __future__ import annotations

from html import escape
from typing import Any

import pandas as pd

from demo.common.numbers import listed, number
from demo.results.charts import Chart, View, legend, shown
from moa_core.bench.paper import Cell, Paper, Row, claim, published
from moa_core.bench.records import Recording, phase_times

DEFINITION = (
    "Acceptance length τ: tokens gained per target forward after the prefill, the target’s own "
    "bonus token included. Plain decoding has τ = 1."
)
NOTES = {  # under each chart: how to read it
    "tau": (
        f"{DEFINITION} Whiskers: 95 % of resamples of the prompts. Open marks: each kind of prompt."
    ),
    "speed": (
        "New tokens over the time of the whole run, prefill and decoding. Whiskers: the slowest "
        "and the fastest of several passes, where the file has them. Dotted: plain decoding by the "
        "same program. Compare speeds within one recording only."
    ),
    "decoding": (
        "The prefill’s time and its one token left out. Whiskers: the slowest and the fastest of "
        "several passes. Dotted: plain decoding."
    ),
    "acceptance": "Share of the cycles that accepted at least that many drafts.",
    "times": (
        "Prefill left out; prompts of every kind together. “Other” is acceptance, cache and "
        "bookkeeping."
    ),
}


def table(view: View) -> pd.DataFrame:
    """The recorded figures, a row per recording, method and kind of prompt.

    Columns in which nobody has anything are left out.
    """
    rows = pd.DataFrame([row for one in view.recordings for row in _rows(view, one)])
    return rows.dropna(axis="columns", how="all")


def _rows(view: View, recording: Recording) -> list[dict[str, Any]]:
    kinds = [view.kind] if view.kind else [None, *recording.kinds]
    most = max(
        (len(listed(recording.figures(name, kind).get("acceptance_by_position")))
         for name in view.of(recording) for kind in kinds), default=0,
    )  # fmt: skip
    return [
        _row(recording, name, kind, most)
        for name in view.of(recording)
        for kind in kinds
        if recording.figures(name, kind)
    ]


def _row(recording: Recording, name: str, kind: str | None, most: int) -> dict[str, Any]:
    found = recording.figures(name, kind)
    whole = kind is None
    spent = phase_times(found) if whole else {}
    trained = found.get("training") if isinstance(found.get("training"), dict) else {}
    rates = [number(rate) for rate in listed(found.get("acceptance_by_position"))]
    return {
        "recording": recording.name,
        "method": name,
        "kind": kind or "all",
        "τ": _rounded(found.get("tau"), 3),
        **_ends("τ", found.get("tau_spread"), 3),
        "tokens/s": _rounded(found.get("tokens_per_second"), 1),
        **_ends("tokens/s", found.get("tokens_per_second_spread"), 1),
        "decoding tokens/s": _rounded(found.get("decode_tokens_per_second"), 1),
        **_ends("decoding tokens/s", found.get("decode_tokens_per_second_spread"), 1),
        "× plain": _rounded(found.get("speedup"), 3) if whole else None,
        **{f"{phase} ms": _rounded(spent.get(phase), 3) for phase in ("draft", "verify", "other")},
        "tree": _tree(found) if whole else "",
        **{
            f"accepted ≥ {at + 1}": _rounded(rates[at], 4) if at < len(rates) else None
            for at in range(most)
        },
        "same text as plain": _rounded(found.get("identical_to_vanilla"), 4),
        "repeated 8-grams": _rounded(found.get("repeats_8gram"), 4),
        "joules/token": _rounded(found.get("joules_per_token"), 3),
        "trained numbers": number(found.get("trainable_parameters")),
        "updates": number(trained.get("updates")),
        "training s": _rounded(trained.get("seconds"), 0),
        "target": recording.target,
        "machine": recording.machine,
        "precision": recording.precision,
        "drafts in": word if isinstance(word := found.get("draft_precision"), str) else None,
        "date": recording.date,
        "commit": recording.commit,
    }


def _tree(figures: dict[str, Any]) -> str:
    """5-4-12, or auto with the drafts of its mean tree."""
    tree, drafts = figures.get("tree"), number(figures.get("drafts_per_cycle"))
    if not isinstance(tree, dict):
        return ""
    if tree.get("auto"):
        return "auto" if drafts is None else f"auto ({drafts:.1f})"
    return "-".join(map(str, tree.values()))


def _ends(name: str, value: Any, digits: int) -> dict[str, float | None]:
    low, high = ([number(end) for end in listed(value)[:2]] + [None, None])[:2]
    if low is None or high is None:
        low = high = None
    return {f"{name} low": _rounded(low, digits), f"{name} high": _rounded(high, digits)}


def _rounded(value: Any, digits: int) -> float | None:
    found = number(value)
    return None if found is None else round(found, digits)


def source(view: View, name: str, chart: Chart) -> str:
    """What stands under a chart of CHARTS, as HTML: legend, how to read it, where it is from."""
    if chart.figure is None:
        return f'<div class="record-source"><p><b>{chart.title}</b>: not recorded here.</p></div>'
    lacking = ", ".join(shown(name) for name in chart.missing)
    parts = [
        _legend(view, name),
        f"<p>{escape(NOTES[name])}</p>",
        f"<p>Without such numbers: {lacking}.</p>" if lacking else "",
    ]
    return f'<div class="record-source">{"".join([*parts, *map(_made, view.recordings)])}</div>'


def _legend(view: View, name: str) -> str:
    items = "".join(
        f'<li><span aria-hidden="true" style="color: {tint or "inherit"}">{glyph}</span> '
        f"{escape(word[:24])}</li>"
        for glyph, tint, word in legend(view, name)
    )
    return f'<ul class="record-legend" aria-label="Legend">{items}</ul>' if items else ""


def _made(one: Recording) -> str:
    """When, where, at which commit and with which command."""
    return (
        f"<p><b>{escape(one.name)}</b>: recorded {escape(one.date)} on {escape(one.machine)}, "
        f"{escape(one.precision)}, target {escape(one.target)}, commit {escape(one.commit)}.</p>"
        "<details><summary>Command</summary>"
        f'<pre tabindex="0">{escape(one.command)}</pre></details>'
    )


def claims(view: View) -> str:
    """What each recording says of the paper's claim, as HTML."""
    items = [f"<li><b>{escape(one.name)}</b>: {escape(claim(one))}</li>" for one in view.recordings]
    return (
        '<div class="record-claims"><h2>What the record says of the paper’s claim</h2>'
        "<p>The paper claims that MoA gains more tokens per target forward than EAGLE-2, and is "
        f"faster. Computed from the files, over prompts of all kinds:</p><ul>{''.join(items)}</ul>"
        "</div>"
    )


def paper_section() -> str:
    """The authors' own table, apart; nothing where its file is not there."""
    paper = published()
    if paper is None:
        return ""
    apart = ", ".join(name for at, name in enumerate(paper.sets) if at not in paper.shared)
    rows = [_paper_row(paper, row) for row in paper.rows]
    head = ["drafter", *map(escape, paper.sets), f"mean without {escape(apart)}, computed here"]
    source = ". ".join(escape(text) for text in paper.source.values())
    return f"""<section class="paper">
<h2>For comparison: the authors’ published figures</h2>
<p><b>Not measured here: another model and another machine.</b> {escape(paper.target)},
{escape(paper.settings)}; hardware {escape(paper.hardware)}. Cells: speed-up over the authors’
own plain decoding / τ. Compare rows within this table, not speed-ups across tables.</p>
{_table([*head, "mean as printed"], rows, "The authors' published figures")}
<p class="note">† Left out. {escape(paper.flag)} ‡ Includes the cell left out.</p>
<p class="note">Source: {source}.</p></section>"""


def _paper_row(paper: Paper, row: Row) -> list[str]:
    """Drafter, cells, the mean of the shared data sets, and the mean that the authors print."""
    return [
        escape(row.drafter),
        *(_pair(cell) if cell else '<span class="missing">†</span>' for cell in row.cells),
        _pair(paper.mean(row)),
        _pair(row.printed) + (" ‡" if row.flagged else ""),
    ]


def _pair(cell: Cell) -> str:
    return f"{cell[0]:.2f} × / {cell[1]:.2f}"


def _table(head: list[str], rows: list[list[str]], name: str) -> str:
    """A table of cells that are HTML already, in a box that scrolls by itself."""
    top = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    body = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in rest)}</tr>'
        for first, *rest in rows
    )
    label = f'tabindex="0" role="region" aria-label="{name}"'
    return (
        f'<div class="scroll" {label}><table><thead><tr>{top}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )
