"""What Side by side shows of a comparison, while it runs and when it has ended."""

import json
from collections.abc import Iterator, Sequence
from html import escape
from time import monotonic
from typing import Any

import gradio as gr

from demo.common.by_method import TAU, figures, times
from demo.common.charts import latency, signed
from demo.common.elements import STOPPING, component, plot, say, words
from demo.common.figures import Spread, about_of, leaders, listed, many, places
from demo.common.measure import WARM_UP
from demo.common.methods import VANILLA, label
from demo.compare.race import race, recorded_race, recorded_rows, so_far
from demo.compare.rows import Row, rows, table, unsteady
from demo.compare.run import Comparison, compare
from demo.engine import Engine
from demo.worker import Stop

OLDER = " The results below are from before."
WIDTHS = {"Method": 140, "τ": 60, "Tokens/s (min–max)": 180, "Tree": 130, "Runs": 60}  # pixels
TABLE_NOTE = (
    f"Each method runs alone, after a warm-up of {WARM_UP} tokens, which is not counted. τ: "
    "acceptance length, new tokens per model call after the prompt’s, the model’s own token "
    "included. Figures are from each method’s run with the median tokens/s (of two runs, the "
    "slower); ranges cover all runs. Tokens/s include the prompt’s call; decoding alone does not. "
    "Tree: depth-breadth-budget, or auto with the mean number of guesses. Rounding can change a "
    "text where two tokens are almost equally probable."
)
CHARTS, MORE = ("tau", "latency"), ("phases",)  # those of the paper's claims, and others


def results() -> dict[str, Any]:
    """Lay out the results, by name. Before the first comparison, only a recorded race is seen."""
    parts: dict[str, Any] = {}
    said, replayed = told(verdict(recorded_rows(), recorded=True), "Recorded: "), recorded_race()
    with gr.Column(visible=bool(replayed), elem_id="compare-results") as parts["box"]:
        parts["verdict"] = words(said, elem_id="compare-verdict")
        template = '<section class="race tokens" aria-label="Race"></section>'
        value = json.dumps(replayed)  # of an object, gradio would copy all of it at each progress
        parts["race"] = component(template, "compare/race.js", value, elem_id="compare-race")
    with gr.Column(visible=False, elem_id="compare-details") as parts["details"]:
        parts |= _charts(CHARTS)
        with gr.Accordion("More charts, all numbers", open=False, elem_id="compare-all"):
            parts |= _charts(MORE)
            parts["table"] = gr.Dataframe(
                interactive=False, wrap=True, label="Table", show_label=False, buttons=["copy"],
                elem_id="compare-table", elem_classes="wide-table",
            )  # fmt: skip
            words(f"<p>{TABLE_NOTE}</p>", elem_classes="note")
    return parts


def _charts(names: Sequence[str]) -> dict[str, Any]:
    with gr.Row():
        return {name: plot(min_width=200, elem_id=f"compare-{name}") for name in names}


def run(engine: Engine, comparison: Comparison, should_stop: Stop) -> Iterator[dict[str, Any]]:
    """Run one comparison. Yields changed outputs by name; older results stay until new ones come,
    marked as such. What is finished is shown though a run fails."""
    begun, shown = monotonic(), 0
    try:
        for step in compare(engine, comparison, should_stop):
            left = (monotonic() - begun) * (1 / step.share - 1) if step.run else 0.0
            more = f" About {left:.0f} s left, less if answers end early." * (left > 1)
            more = more if step.run else f" Then {many(comparison.wanted, 'run')}."
            said = STOPPING if should_stop() else step.words + more
            changed = {"status": say(said + OLDER * (not comparison.finished), "wait", step.share)}
            done, each = comparison.finished, len(comparison.methods)
            if done > shown and (done < each or done % each == 0):  # bars of as many runs each
                shown = done
                changed |= outputs_so_far(comparison)
            yield changed
    except Exception:
        yield outputs(comparison)
        raise
    yield {"status": say(ended(comparison), "done")} | outputs(comparison)


def outputs(comparison: Comparison) -> dict[str, Any]:
    """The outputs for the finished runs; none without one."""
    if not (found := rows(comparison)):
        return {}
    shape = table(found, comparison.asked.sampling.greedy)
    drawn = charts(found)
    return {
        "box": gr.update(visible=True),
        "details": gr.update(visible=True),
        "verdict": told(verdict(found)),
        "race": json.dumps(race(found)),
        **{name: signed(figure, sign(comparison)) for name, figure in drawn.items()},
        "table": gr.update(value=shape, column_widths=[WIDTHS.get(name, 100) for name in shape]),
    }


def outputs_so_far(comparison: Comparison) -> dict[str, Any]:
    """What is changed by a finished run that others follow."""
    counted = f"Not a result yet: wait for all {comparison.wanted} runs."
    return {
        "box": gr.update(visible=True),
        "details": gr.update(visible=False),
        "verdict": told([counted]),
        "race": json.dumps(so_far(rows(comparison), comparison.methods)),
    }


def verdict(rows: Sequence[Row], recorded: bool = False) -> list[str]:
    """Who was fastest, whether texts are plain's, how many calls, and what may be chance.
    recorded: on a quiet machine."""
    measured = [row for row in rows if row.rate and row.tau]
    drafting = [row for row in measured if row.method != VANILLA]
    if len(measured) < 2 or not drafting:
        return []
    unsure = ["One run each: a small lead may be chance"] * all(row.runs == 1 for row in measured)
    found = places(rates := {row.method: row.rate for row in measured if row.rate})
    if plain := rates.get(VANILLA):
        near = [row.label for row in drafting if found[row.method] < found[VANILLA]
                and plain.overlaps(rates[row.method])]  # fmt: skip
        more = f"Runs of {listed(near)} overlap plain’s: more repeats may tell"
        unsure += [more] * bool(near)
    sized = any(row.tree and row.tree.auto and row.tau and row.tau.known for row in drafting)
    varies = ["Slower checks make smaller trees, so tokens per call vary"] * sized
    worst = None if recorded else unsteady(measured)
    texts, saved = _texts(measured), _saved(measured, busy=worst is not None)
    if worst:
        assert worst.rate is not None, "rows without a speed are not compared"
        over = worst.rate.high / worst.rate.low
        apart = f"{worst.label}’s times differ {over:.1f}-fold: compare again"
        return [_likely(drafting, plain), texts, saved, apart, *varies]
    return [_speed(measured), texts, saved, *unsure, *varies]


def _likely(drafting: Sequence[Row], plain: Spread | None) -> str:
    """What runs that differ too much still tell: who was faster than plain decoding in all of them,
    or else in the middle one."""
    busy = "this machine was too busy to"
    median = "the slower of its two runs" if drafting[0].runs == 2 else "its median run"
    rates = {row.label: row.rate for row in drafting if plain and row.rate}
    for which, end, other, how in (("every run", "low", "high", "tell exactly how much"),
                                   (median, "middle", "middle", "be sure")):  # fmt: skip
        ahead = [name for name in rates if getattr(rates[name], end) > getattr(plain, other)]
        if ahead:
            who, were = listed(ahead), "was" if len(ahead) == 1 else "were each"
            if len(ahead) == len(rates) > 1:
                who, were = "Every drafter", "was"
            return f"{who} {were} faster than plain in {which}, but {busy} {how}."
    return f"Speed: {busy} tell."


def _saved(measured: Sequence[Row], busy: bool) -> str:
    """How many calls of the target, and what each took, unless other work disturbed them."""
    each = [f"{row.label} {_calls(row)}" for row in measured]
    if not busy:
        times = [sum(row.spent.values()) for row in measured]
        each = [f"{said} of {time:.0f} ms" for said, time in zip(each, times, strict=True)]
    return f"Model calls: {listed(each)}"


def _calls(row: Row) -> str:
    """Of its runs, from the fewest to the most."""
    counts = [row.trace.target_calls]
    if row.tau and row.tau.known:
        after = len(row.trace.output_ids) - 1  # tokens that calls after the prompt's bring
        counts = [1 + round(after / tau) for tau in (row.tau.high, row.tau.low)]
    return " to ".join(map(str, dict.fromkeys(counts)))


def _speed(measured: Sequence[Row]) -> str:
    """Who was fastest, or level, and how much faster than plain decoding, or else the best other;
    also the first drafter, MoA if it ran."""
    rates = {row.label: row.rate for row in measured if row.rate}
    first = next(row.label for row in measured if row.method != VANILLA)
    plain, ahead = label(VANILLA), [name for name in rates if name in leaders(rates)]
    others = {plain} & rates.keys() or rates.keys() - {ahead[0]}
    over = max(others, key=lambda name: rates[name].middle)
    whose = {plain: "plain decoding"}
    of = f" {whose.get(over, over)}’s speed"
    times = {name: f"{one.over(rates[over]).middle:.2f} ×" for name, one in rates.items()}
    if len(ahead) > 1 and over in ahead:
        raced = listed([f"{whose.get(one, one)} {times[one]}" for one in ahead if one != over])
        worth = "No drafter was clearly faster" if over == plain else "No clear winner"
        said = f"{worth}: {raced}{of}"
    elif len(ahead) > 1:
        reached = [f"{one} {'reached ' * (one == ahead[0])}{times[one]}" for one in ahead]
        said, of = f"{listed(reached)}{of}; which of them is faster is too close to tell", ""
    else:
        name = whose.get(ahead[0], ahead[0])
        said = f"{name[0].upper()}{name[1:]} was the fastest"
        if over not in ahead:
            said, of = f"{said}, at {times[ahead[0]]}{of}", ""
    return said + f"; {first} reached {times[first]}{of}" * (first not in (*ahead, over)) + "."


def _texts(rows: Sequence[Row]) -> str:
    known = {row.same for row in rows}
    if False in known:
        return "Different text ✗"
    return "Text not compared" if None in known else "Same text ✓"


def told(said: Sequence[str], lead: str = "") -> str:
    """A verdict as HTML: a headline, then short facts."""
    facts = " ".join(f"<span>{escape(fact)}</span>" for fact in said[1:])
    return f'<p class="conclusion">{lead}{escape(said[0])}</p>{facts}' if said else ""


def charts(rows: Sequence[Row]) -> dict[str, Any]:
    """τ, when each token came, and where a cycle's time goes, by name."""
    spent = {row.method: row.spent for row in rows if row.cycles > 0}
    return {
        "tau": figures({row.method: row.tau for row in rows if row.tau}, *TAU),
        "latency": latency({row.method: row.trace for row in rows}),
        "phases": times(spent),
    }


def ended(comparison: Comparison) -> str:
    done, wanted = comparison.finished, comparison.wanted
    if not done:
        return "Stopped before a counted run was finished: there is nothing new to show."
    if done < wanted:
        each = min(len(found) for found in comparison.traces.values() if found)
        return f"Stopped: {done} of {wanted} runs had finished; shown: {each} of each method."
    return f"All {wanted} runs are done."


def sign(comparison: Comparison) -> str:
    runs = [trace for found in comparison.traces.values() for trace in found]
    return max(map(about_of, runs), key=len)  # plain decoding's names no tree
