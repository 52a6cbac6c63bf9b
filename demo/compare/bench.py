"""What the measuring tabs share: Run, Stop, progress and results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import Any

import gradio as gr

from demo.common.by_method import RATE, TAU, figures, times
from demo.common.charts import PATTERNS, signed
from demo.common.elements import STOPPING, plot, say, status_line, words
from demo.common.figures import about_of
from demo.compare.race import race_view, recorded_race
from demo.compare.rows import Row, rows, table
from demo.compare.run import Comparison, Plan, compare
from demo.compare.verdict import verdict
from demo.engine import Engine
from demo.session import Shared, Visit, connect, show_results

OLDER = "<b>The results below are those from before.</b>"
WIDTHS = {"Method": 140, "τ": 60, "Tokens/s (min–max)": 180, "Tree": 130, "Runs": 60}  # pixels
TABLE_NOTE = (
    "τ: acceptance length, new tokens per model call after the prompt’s, the model’s own token "
    "included. Figures are from each method’s run with the median tokens/s (of two runs, the "
    "slower); ranges cover all runs. Tokens/s include the prompt’s call; decoding alone does not. "
    "Acceptance rate: accepted guesses of all. Tree: depth-breadth-budget, or auto with the mean "
    "number of guesses. Rounding can change a text where two tokens are almost equally probable; "
    "then the gap between their logits is small."
)
Draw = Callable[[Comparison, list[Row]], dict[str, Any]]  # what else a comparison shows, by name


class Bench:
    """The components, whose ids start with the prefix; `parts` are in the order of outputs."""

    def __init__(self, prefix: str, verb: str, said: str = "") -> None:
        self.prefix = prefix
        with gr.Row(elem_classes="buttons"):
            self.run = gr.Button(verb, variant="primary", elem_id=f"{prefix}run")
            self.stop = gr.Button("Stop", interactive=False, elem_id=f"{prefix}stop")
        self.status = status_line(said, elem_id=f"{prefix}status")
        self.parts: dict[str, Any] = {"status": self.status}

    def results(self, *charts: Sequence[str], race: bool = False) -> None:
        """Lay out the results, a row per sequence of charts. Before the first comparison, only a
        recorded race is visible."""
        prefix, parts, replayed = self.prefix, self.parts, recorded_race() if race else None
        with gr.Column(
            visible=bool(replayed), elem_id=f"{prefix}results", elem_classes="recorded"
        ) as parts["box"]:
            parts["verdict"] = words("", elem_id=f"{prefix}verdict", elem_classes="verdict")
            if race:
                parts["race"] = race_view(replayed, elem_id=f"{prefix}race")
            for row in charts:
                with gr.Row():
                    for name in row:
                        parts[name] = plot(min_width=200, elem_id=f"{prefix}{name}")
            parts["table"] = gr.Dataframe(
                interactive=False, wrap=True, label="Table", show_label=False, buttons=["copy"],
                elem_id=f"{prefix}table", elem_classes="wide-table",
            )  # fmt: skip
            words(f"<p>{TABLE_NOTE}</p>", elem_classes="note")

    def wire(
        self,
        shared: Shared,
        inputs: Sequence[Any],
        plan: Callable[..., Plan],
        draw: Draw | None = None,
    ) -> None:
        """Connect the events. plan: made from the inputs; UserError if it cannot be compared."""

        def work(visit: Visit, stop: Callable[[], bool], *given: Any) -> Iterator[Any]:
            del visit
            for changed in run(shared.engine, Comparison(plan=plan(*given)), stop, draw):
                yield tuple(changed.get(name, gr.skip()) for name in self.parts)

        outputs = list(self.parts.values())
        ended = connect(shared, self.run, self.stop, work, list(inputs), outputs)
        show_results(ended, f"{self.prefix}results")


def run(
    engine: Engine, comparison: Comparison, should_stop: Callable[[], bool],
    draw: Draw | None = None,
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """Run one comparison. Yields changed outputs by name; older results stay until new ones come,
    marked as such."""
    for step in compare(engine, comparison, should_stop):
        said = STOPPING if should_stop() else step.words
        yield {"status": say(said, "wait", step.share), "verdict": OLDER}
    found, status = rows(comparison), say(ended(comparison), "done")
    if not found:
        yield {"status": status}
        return
    shape, about = table(found, comparison.plan.sampling.greedy), sign(comparison)
    yield {
        "status": status,
        "box": gr.update(visible=True, elem_classes=""),
        "verdict": told(verdict(found)),
        **{name: signed(figure, about) for name, figure in charts(found).items()},
        **(draw(comparison, found) if draw else {}),
        "table": gr.update(value=shape, column_widths=[WIDTHS.get(name, 100) for name in shape]),
    }


def told(said: Sequence[str]) -> str:
    """A verdict as HTML: a headline, then short facts."""
    facts = "".join(f"<b>{escape(fact)}</b>" for fact in said[1:])
    return f'<p class="conclusion">{escape(said[0])}</p>{facts}' if said else ""


def charts(rows: Sequence[Row]) -> dict[str, Any]:
    """τ, speed, and where a cycle's time goes, by name."""
    rates = {row.method: row.rate for row in rows if row.rate}
    spent = {
        row.method: {name: 1000 * row.seconds.get(name, 0.0) / row.cycles for name in PATTERNS}
        for row in rows
        if row.cycles > 0
    }
    return {
        "tau": figures({row.method: row.tau for row in rows if row.tau}, *TAU),
        "rate": figures(rates, *RATE[:2], 1),
        "phases": times(spent),
    }


def ended(comparison: Comparison) -> str:
    done, wanted = comparison.finished, comparison.wanted
    if not done:
        return "Stopped before a counted run was finished: there is nothing new to show."
    if done < wanted:
        return f"Stopped: {done} of {wanted} runs had finished; these are shown."
    return f"All {wanted} runs are done."


def sign(comparison: Comparison) -> str:
    runs = [trace for found in comparison.traces.values() for trace in found]
    return max(map(about_of, runs), key=len)  # plain decoding's names no tree
