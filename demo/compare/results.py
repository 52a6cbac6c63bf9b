"""What the tab Side by side shows of a comparison: its components, and what fills them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from html import escape
from typing import Any

import gradio as gr

from demo.common.charts import Lane, latency, signed
from demo.common.figures import about_of
from demo.common.status import progress, say, words
from demo.compare.charts import CHARTS, figures, phases
from demo.compare.race import race, race_view
from demo.compare.rows import Row, table
from demo.compare.run import Comparison
from demo.compare.verdict import verdict

WIDTHS = {"Method": 140, "τ": 60, "Tokens/s (min–max)": 180, "Tree": 130, "Runs": 60}  # pixels
TABLE_NOTE = (
    "τ: tokens gained per target call after the prefill, bonus included; a last cycle that is cut "
    "short counts in full. Figures are of each method’s middle run, by tokens/s (of two runs, the "
    "slower); ranges are of all. Tokens/s include the prefill; decoding alone and ms per token "
    "leave it out. Acceptance rate: accepted of all drafted nodes. Tree: depth-breadth-budget, or "
    "auto and the mean number of drafts. Texts may differ by rounding, where two tokens are almost "
    "equally probable: then the gap between their logits is small."
)


@dataclass(frozen=True)
class Results:
    """What is shown of a comparison, in the order in which it is filled."""

    status: gr.HTML
    bar: gr.HTML
    box: gr.Column
    shown: gr.State
    verdict: gr.HTML
    race: gr.HTML
    tau: gr.Plot
    rate: gr.Plot
    latency: gr.Plot
    phases: gr.Plot
    table: gr.Dataframe


def build_results(status: gr.HTML, bar: gr.HTML) -> Results:
    """Everything below the controls; nothing of it is there before the first comparison."""
    made: dict[str, Any] = {"status": status, "bar": bar, "shown": gr.State(False)}
    with gr.Column(visible=False, elem_id="compare-results") as made["box"]:
        made["verdict"] = words("", elem_id="compare-verdict", elem_classes="verdict")
        made["race"] = race_view(elem_id="compare-race")
        for row in (CHARTS, ("latency", "phases")):
            with gr.Row():
                for name in row:
                    made[name] = gr.Plot(
                        show_label=False, container=False, elem_id=f"compare-{name}",
                        min_width=290, elem_classes="compare-chart",
                    )  # fmt: skip
        made["table"] = gr.Dataframe(
            interactive=False, wrap=True, label="Table", show_label=False,
            buttons=["copy"], elem_id="compare-table",
        )  # fmt: skip
        words(f"<p>{TABLE_NOTE}</p>", elem_classes="note")
    return Results(**made)


def values(**changed: Any) -> tuple[Any, ...]:
    """Values for `Results`; what is not named stays as it is."""
    return tuple(changed.get(entry.name, gr.skip()) for entry in fields(Results))


def filled(comparison: Comparison, found: list[Row]) -> tuple[Any, ...]:
    """A comparison that has runs to show, on the page."""
    shown, about = table(found, comparison.plan.sampling.greedy), sign(comparison)
    charts = {kind: figures(found, kind) for kind in CHARTS}
    lanes = [Lane.of(row.method, comparison.traces[row.method]) for row in found]
    charts |= {"latency": latency(lanes, "tokens", "seconds"), "phases": phases(found)}
    return values(
        status=say(ended(comparison), "done"),
        bar=progress(),
        box=gr.update(visible=True),
        shown=True,
        verdict=verdict_html(found),
        race=race(comparison, found),
        **{name: signed(drawn, about) for name, drawn in charts.items()},
        table=gr.update(value=shown, column_widths=[WIDTHS.get(name, 100) for name in shown]),
    )


def ended(comparison: Comparison) -> str:
    """How many of its runs there are."""
    done, wanted = comparison.finished, comparison.wanted
    if not done:
        return "Stopped before a counted run was finished: there is nothing new to show."
    if done < wanted:
        return f"Stopped: {done} of {wanted} runs were finished, and are shown."
    return f"All {wanted} runs are done."


def verdict_html(found: Sequence[Row]) -> str:
    """The verdict, each part in a frame of its own."""
    return "".join(f"<b>{escape(said)}</b>" for said in verdict(found))


def sign(comparison: Comparison) -> str:
    """Model, tree and machine of a comparison."""
    runs = [trace for found in comparison.traces.values() for trace in found]
    return max(map(about_of, runs), key=len)  # plain decoding's names no tree
