"""What the tab Side by side shows of a comparison: its components, and what fills them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from html import escape
from pathlib import Path
from typing import Any

import gradio as gr

from demo.common.charts import signed
from demo.common.figures import CUT, about_of
from demo.common.measure import WARM_UP
from demo.common.methods import VANILLA
from demo.common.status import progress, say, status_line, words
from demo.compare.charts import CHARTS, cumulative, figures, phases
from demo.compare.race import race, race_view
from demo.compare.rows import Row, table
from demo.compare.run import Comparison
from demo.compare.verdict import chips, verdict

WIDTHS = {"Method": 140, "τ": 60, "Tokens/s (min–max)": 180, "Tree": 130, "Runs": 60}  # pixels
TAU_NOTE = f"τ: tokens gained per target call after the prefill, bonus included; {CUT}"
AUTO_NOTE = "Tree sizes differed, so compare τ only with one tree for all"
TABLE_NOTE = (
    "Figures are of each method’s middle run, by tokens/s (of two runs, the slower); ranges are of "
    "all. Tokens/s include the prefill; decoding alone and ms per token leave it out. Acceptance "
    "rate: accepted of all drafted nodes. Tree: depth-breadth-budget, or auto and the mean number "
    "of drafts."
)


@dataclass(frozen=True)
class Results:
    """What is shown of a comparison, in the order in which it is filled."""

    status: gr.HTML
    bar: gr.HTML
    box: gr.Column
    shown: gr.State
    chips: gr.HTML
    verdict: gr.HTML
    notes: gr.HTML
    race: gr.HTML
    tau: gr.Plot
    rate: gr.Plot
    latency: gr.Plot
    cumulative: gr.Plot
    phases: gr.Plot
    table: gr.Dataframe
    download: gr.DownloadButton


def build_results(status: gr.HTML, bar: gr.HTML) -> Results:
    """Everything below the controls; nothing of it is there before the first comparison."""
    made: dict[str, Any] = {"status": status, "bar": bar, "shown": gr.State(False)}
    with gr.Column(visible=False, elem_id="compare-results") as made["box"]:
        made["chips"] = words("", elem_id="compare-chips")
        with gr.Accordion("In words", open=False, elem_id="compare-words"):
            made["verdict"] = status_line(elem_id="compare-verdict")
            made["notes"] = status_line(elem_id="compare-notes")
        made["race"] = race_view(elem_id="compare-race")
        for row in (CHARTS, ("cumulative", "phases")):
            with gr.Row():
                for name in row:
                    made[name] = gr.Plot(
                        show_label=False, container=False, elem_id=f"compare-{name}",
                        min_width=290, elem_classes="compare-chart",
                    )  # fmt: skip
        made["table"] = gr.Dataframe(
            interactive=False, wrap=True, label="Table", show_label=False, buttons=[],
            elem_id="compare-table",
        )  # fmt: skip
        words(f"<p>{TABLE_NOTE}</p>", elem_id="compare-table-note")
        made["download"] = gr.DownloadButton("Download as CSV", size="sm", elem_id="compare-csv")
    return Results(**made)


def values(**changed: Any) -> tuple[Any, ...]:
    """Values for `Results`; what is not named stays as it is."""
    return tuple(changed.get(entry.name, gr.skip()) for entry in fields(Results))


def filled(comparison: Comparison, found: list[Row], file: Path) -> tuple[Any, ...]:
    """A comparison that has runs to show, on the page."""
    shown, about = table(found, comparison.plan.sampling.greedy), sign(comparison)
    charts = {kind: figures(found, kind) for kind in CHARTS}
    charts |= {"cumulative": cumulative(comparison), "phases": phases(found)}
    done, wanted = comparison.finished, comparison.wanted
    ended = f"All {wanted} runs are done."
    if done < wanted:
        ended = f"Stopped: {done} of {wanted} runs were finished, and are shown."
    return values(
        status=say(ended, "done"),
        bar=progress(),
        box=gr.update(visible=True),
        shown=True,
        chips="".join(f"<b>{escape(chip)}</b>" for chip in chips(found)),
        verdict=say(verdict(found)),
        notes=say(notes(comparison, found)),
        race=race(comparison, found),
        **{name: signed(drawn, about) for name, drawn in charts.items()},
        table=gr.update(value=shown, column_widths=[WIDTHS.get(name, 100) for name in shown]),
        download=str(file),
    )


def sign(comparison: Comparison) -> str:
    """Model, tree and machine of a comparison."""
    runs = [trace for found in comparison.traces.values() for trace in found]
    return max(map(about_of, runs), key=len)  # plain decoding's names no tree


def notes(comparison: Comparison, found: list[Row]) -> str:
    """What a reader should know of how this was measured, and of texts that differ."""
    plan = comparison.plan
    uncounted = f"Not counted: a warm-up of {WARM_UP} tokens for each method"
    if VANILLA not in plan.methods and comparison.reference is not None:
        uncounted += ", and one run of plain decoding for its text"
    parts = [TAU_NOTE, uncounted]
    if plan.tree and plan.tree.auto:
        parts.insert(1, AUTO_NOTE)
    texts = [{tuple(run.output_ids) for run in runs} for runs in comparison.traces.values()]
    if plan.repeats > 1 and all(len(written) <= 1 for written in texts):
        parts.append("Every repeat wrote the same text, so the spread in speed is the machine’s")
    others = [row for row in found if row.same is False]
    parts += [_parting(row) for row in others]
    if others:
        parts.append("Rounding can do that where two tokens are almost equally probable")
    elif all(row.same for row in found):
        parts.append("All methods wrote the text of plain decoding, token for token")
    return ". ".join(parts) + "."


def _parting(row: Row) -> str:
    """Where a text leaves plain decoding's, and how narrowly."""
    said = f"{row.label}’s text differs from plain decoding’s from token {row.differs} on"
    if row.gap is None:
        return said
    return f"{said}, where plain decoding’s token leads by only {row.gap:.2g} in logit (0 is a tie)"
