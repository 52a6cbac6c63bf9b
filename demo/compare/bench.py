"""What Side by side shows of a comparison, while it runs and when it has ended."""

from collections.abc import Iterator, Sequence
from html import escape
from time import monotonic
from typing import Any

import gradio as gr

from demo.common.by_method import RATE, TAU, figures, times
from demo.common.charts import PATTERNS, latency, signed
from demo.common.elements import STOPPING, component, plot, say, words
from demo.common.figures import about_of, leaders, listed
from demo.common.measure import WARM_UP
from demo.common.methods import VANILLA, label
from demo.compare.race import race, recorded_race
from demo.compare.rows import Row, rows, table
from demo.compare.run import Comparison, compare
from demo.engine import Engine
from demo.live.recording import recording
from demo.worker import Stop

OLDER = "<b>The results below are those from before.</b>"
WIDTHS = {"Method": 140, "τ": 60, "Tokens/s (min–max)": 180, "Tree": 130, "Runs": 60}  # pixels
TABLE_NOTE = (
    f"Each method runs alone, after a warm-up of {WARM_UP} tokens, which is not counted. τ: "
    "acceptance length, new tokens per model call after the prompt’s, the model’s own token "
    "included. Figures are from each method’s run with the median tokens/s (of two runs, the "
    "slower); ranges cover all runs. Tokens/s include the prompt’s call; decoding alone does not. "
    "A larger tree has more guesses accepted, but a smaller share of them. Tree: "
    "depth-breadth-budget, or auto with the mean number of guesses. Rounding can change a text "
    "where two tokens are almost equally probable; then the gap between their logits is small."
)
CHARTS = ("tau", "rate"), ("latency", "phases")  # by row


def results() -> dict[str, Any]:
    """Lay out the results, by name. Before the first comparison, only a recorded race is seen."""
    parts: dict[str, Any] = {}
    replayed = recorded_race()
    with gr.Column(visible=bool(replayed), elem_id="compare-results") as parts["box"]:
        parts["verdict"] = words(
            told(recorded_verdict()), elem_id="compare-verdict", elem_classes="verdict"
        )
        template = '<section class="race tokens" aria-label="Race"></section>'
        parts["race"] = component(template, "compare/race.js", replayed, elem_id="compare-race")
    with gr.Column(visible=False, elem_id="compare-details") as parts["details"]:
        for row in CHARTS:
            with gr.Row():
                for name in row:
                    parts[name] = plot(min_width=200, elem_id=f"compare-{name}")
        parts["table"] = gr.Dataframe(
            interactive=False, wrap=True, label="Table", show_label=False, buttons=["copy"],
            elem_id="compare-table", elem_classes="wide-table",
        )  # fmt: skip
        words(f"<p>{TABLE_NOTE}</p>", elem_classes="note")
    return parts


def run(engine: Engine, comparison: Comparison, should_stop: Stop) -> Iterator[dict[str, Any]]:
    """Run one comparison. Yields changed outputs by name; older results stay until new ones come,
    marked as such."""
    begun = monotonic()
    for step in compare(engine, comparison, should_stop):
        left = (monotonic() - begun) * (1 / step.share - 1) if step.run else 0.0
        more = f" About {left:.0f} s left, less if answers end early." * (left > 1)
        said = STOPPING if should_stop() else step.words + more
        yield {"status": say(said, "wait", step.share), "verdict": OLDER}
    found, status = rows(comparison), say(ended(comparison), "done")
    if not found:
        yield {"status": status}
        return
    shape = table(found, comparison.asked.sampling.greedy)
    drawn = charts(found)
    yield {
        "status": status,
        "box": gr.update(visible=True),
        "details": gr.update(visible=True),
        "verdict": told(verdict(found)),
        "race": race(found),
        **{name: signed(figure, sign(comparison)) for name, figure in drawn.items()},
        "table": gr.update(value=shape, column_widths=[WIDTHS.get(name, 100) for name in shape]),
    }


def verdict(rows: Sequence[Row]) -> list[str]:
    """How fast MoA wrote, tokens per call, and whether the text is plain decoding's."""
    measured = [row for row in rows if row.rate and row.tau]
    drafting = [row for row in measured if row.method != VANILLA]
    if len(measured) < 2 or not drafting:
        return []
    taus = ", ".join(f"{row.label} {row.tau.middle:.2f}" for row in drafting if row.tau)
    trees = {row.tree for row in drafting}
    own = len(drafting) > 1 and (len(trees) > 1 or any(tree and tree.auto for tree in trees))
    length = f"tokens per model call: {taus}" + " (each with its own trees)" * own
    once = all(row.runs == 1 for row in measured)
    speed = _speed(measured) + " One run each: a small lead may be chance." * once
    return [speed, length, *_cost(drafting), _texts(measured)]


def recorded_verdict() -> list[str]:
    """The same of the runs that come with the program; [] without them."""
    if (kept := recording()) is None:
        return []
    lanes, over = kept.measured["lanes"], kept.measured["over"]
    speeds = [
        f"against {'plain decoding' if name == VANILLA else label(name)}, "
        + (f"{one:.2f} × as fast" if isinstance(one, float) else one or "too close to call")
        for name, one in sorted(over.items(), key=lambda item: item[0] != VANILLA)
    ]
    drafting = [lane for lane in lanes if lane["method"] != VANILLA]
    taus = ", ".join(f"{lane['label']} {lane['tau']:.2f}" for lane in drafting)
    texts = {tuple(trace.output_ids) for trace in (kept.trace, kept.rival, kept.plain)}
    same = "same text ✓" if len(texts) == 1 else "different text ✗"
    said = f"Recorded: {lanes[0]['label']} {'; '.join(speeds)}."
    return [said, f"tokens per model call: {taus}", same]


def _speed(measured: Sequence[Row]) -> str:
    """The first drafter, MoA if it ran, against plain decoding or else the best other; who won."""
    rates = {row.label: row.rate for row in measured if row.rate}
    first = next(row.label for row in measured if row.method != VANILLA)
    plain, ahead = label(VANILLA), leaders(rates)
    over = plain if plain in rates else max(set(rates) - {first}, key=lambda one: rates[one].middle)
    whose = {plain: "plain decoding"}
    times = {name: f"{one.over(rates[over]).middle:.2f} ×" for name, one in rates.items()}
    said = f"{first} reached {times[first]} {whose.get(over, over)}’s speed"
    named = [whose.get(one, one) + f" ({times[one]})" * (one not in (first, over)) for one in ahead]
    if ahead == [first]:
        said += ", the fastest here."
    elif len(ahead) == 1:
        said += f"; {named[0]} was the fastest."
    else:
        said += f"; the fastest is too close to call: runs of {listed(named)} overlap."
    behind = rates.get(plain) if plain not in ahead else None
    known = dict.fromkeys([first, *ahead])
    slow = [name for name in known if behind and rates[name].overlaps(behind)]
    return said + f" {listed(slow)} may be no faster than plain decoding." * bool(slow)


def _cost(drafting: Sequence[Row]) -> list[str]:
    """Why the method with the most tokens per call is not the fastest."""
    most = max(drafting, key=lambda row: row.tau.middle if row.tau else 0)
    best = max(drafting, key=lambda row: row.rate.middle if row.rate else 0)
    (long, drafts), (short, others) = (
        (sum(spent.values()), spent["draft"]) for spent in map(_spent, (most, best))
    )
    if most is best or long <= short:
        return []
    return [
        f"more tokens per call, yet not faster: a cycle of {most.label} takes {long:.0f} ms, "
        f"{drafts:.0f} of them to draft; one of {best.label} {short:.0f}, {others:.0f} to draft"
    ]


def _spent(row: Row) -> dict[str, float]:
    """Milliseconds of a mean cycle, by phase."""
    return {phase: 1000 * row.trace.seconds[phase] / row.cycles for phase in PATTERNS}


def _texts(rows: Sequence[Row]) -> str:
    known = {row.same for row in rows}
    if False in known:
        return "different text ✗"
    return "text not compared" if None in known else "same text ✓"


def told(said: Sequence[str]) -> str:
    """A verdict as HTML: a headline, then short facts."""
    facts = "".join(f"<b>{escape(fact)}</b>" for fact in said[1:])
    return f'<p class="conclusion">{escape(said[0])}</p>{facts}' if said else ""


def charts(rows: Sequence[Row]) -> dict[str, Any]:
    """τ, speed, when each token came, and where a cycle's time goes, by name."""
    rates = {row.method: row.rate for row in rows if row.rate}
    spent = {row.method: _spent(row) for row in rows if row.cycles > 0}
    return {
        "tau": figures({row.method: row.tau for row in rows if row.tau}, *TAU),
        "rate": figures(rates, *RATE[:2], 1),
        "latency": latency({row.method: row.trace for row in rows}),
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
