"""The tab Layers (TLI): what N means, and what each N gains and costs."""

from dataclasses import replace
from functools import partial
from html import escape
from typing import Any

import gradio as gr

from demo.common.elements import plot, words
from demo.common.figures import listed, many
from demo.common.methods import RIVAL, VANILLA, family, label, ordered, tli_of
from demo.compare import tab as compare
from demo.compare.run import MOST, recorded_time
from demo.engine import Engine
from demo.lesson.text import PRESSED
from demo.results.charts import CHARTS, spread
from demo.results.tab import FIRST, ours
from demo.results.table import UNEQUAL, level_rule, pace, papers_means
from demo.session import PRIVATE, Shared
from demo.share import address_of
from demo.tli.drawing import drawing_html
from demo.tli.stops import STOPS
from moa_core.bench.records import Recording, phase_times
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.names import method_name

ID, TITLE = "tli", "Layers (TLI)"
TREE = TreeSettings(5, 4, 11)  # one tree for all, so that only N differs
TOKENS, REPEATS = 96, 3  # of a comparison: it has many runs
RECORDED = "Same tree float32"  # the benchmark with this tree
ABOUT = (
    "A drafter may borrow the target’s last N layers: each guess then runs through them, too "
    "(target layer inference, TLI). That may make guesses better, but each takes longer. Does it "
    "pay?"
)
CARD = "drafters.txt"  # the page's copy of the drafters' card
# Of the drafters that come with the program.
TRAINED = f'<a href="{CARD}" target="_blank">{UNEQUAL}</a>, so compare N with care.'
NTH = "N\u00a0=\u00a0{}"
PALE = 0.4  # opacity


def build(shared: Shared) -> None:
    engine = shared.engine
    recorded = records()
    words(advice_html(*recorded), elem_id="layers-about")
    with gr.Row(equal_height=False):
        with gr.Column(scale=2, min_width=300):
            focus = gr.Radio(**choices(engine), elem_id="layers-focus",
                             label="Borrow the target’s last layers (N)")  # fmt: skip
            drawing = words(drawing_html(focus.value), elem_id="layers-drawing")
        with gr.Column(scale=3, min_width=320):
            if recorded:
                with gr.Row(elem_id="layers-charts"):
                    drawn = partial(charts, recorded[-1])
                    plots = [plot(figure, min_width=280, elem_id=f"layers-{name}")
                             for name, figure in drawn(focus.value).items()]  # fmt: skip
                focus.change(lambda n: [*drawn(n).values()], focus, plots, queue=False, **PRIVATE)
            if recorded:
                words(
                    f"<p>{source(recorded[-1])}</p>", elem_classes="note", elem_id="layers-source"
                )
            link = words(link_html(engine, "", *recorded[-1:]), elem_id="layers-link")
            if recorded:
                gains = words(gains_html(*recorded, chosen=focus.value), elem_id="layers-gains")
                mark = partial(gains_html, *recorded)
                focus.change(lambda n: mark(chosen=n), focus, gains, queue=False, **PRIVATE)
    shared.target.change(
        lambda target: (gr.update(**choices(engine, target)), link_html(engine, target)),
        shared.target, [focus, link], queue=False, **PRIVATE,
    )  # fmt: skip
    focus.change(drawing_html, focus, drawing, queue=False, **PRIVATE)


def records() -> list[Recording]:
    """That with one tree for all, then, of those with trees that size themselves, the one that
    Benchmarks shows first, if it has as many N as FIRST. Empty without the former."""
    there = {one.name: one for one in ours()}
    if RECORDED not in there:
        return []
    most = _by_n(there[FIRST].methods).keys() if FIRST in there else set()
    sized = [one for one in ours() if most and most <= _by_n(one.methods).keys()]
    return [there[RECORDED], *sized[:1]]


def choices(engine: Engine, target: str = "") -> dict[str, Any]:
    """Every trained N that can be drawn, or all if none is trained. The largest borrows most."""
    stops = [stop for stop in engine.stops(target) if stop in STOPS] or [*STOPS]
    return {"choices": [(f"N = {stop}", stop) for stop in stops], "value": stops[-1]}


def link_html(engine: Engine, target: str = "", found: Recording | None = None) -> str:
    """A link that compares every trained N in Side by side; "" if there is none.

    found   a recording of this target, which tells how long that takes
    """
    if not (stops := engine.stops(target)):
        return ""
    beside = [name for name in (VANILLA, RIVAL) if name in engine.methods(target)]
    methods = ordered([*(method_name("moa", stop) for stop in stops), *beside][:MOST])
    given = {"methods": methods, "repeats": REPEATS, "tokens": TOKENS, "auto_tree": True}
    _, query = address_of(compare.ID, given)
    time = recorded_time(found, methods, REPEATS, TOKENS)
    return (
        f'<p><a class="quiet-button" href="{escape(query)}" data-press="{PRESSED[compare.ID]}">'
        f"Compare these N on your own prompt: {REPEATS * len(methods)} runs →</a></p>"
        f"<p class='note'>In Side by side, {listed([*map(label, methods)])} take turns, {REPEATS} "
        f"times each, with trees that size themselves{time}.</p>"
    )


def gains_html(found: Recording, sized: Recording | None = None, chosen: int = 0) -> str:
    """What each N gains and costs, recorded with one tree for all, and in the paper.

    sized   the same with trees that size themselves
    chosen  the N whose column is marked
    """
    here, auto = _by_n(found.methods), _by_n(sized.methods) if sized else {}
    if not here:
        return ""
    theirs = _by_n(papers_means()).items()
    paper = {n: {"speedup": speedup, "tau": tau} for n, (speedup, tau) in theirs}
    pays = all(one["speedup"] < auto.get(n, one)["speedup"] for n, one in here.items())
    each = f"Always {TREE.budget} guesses a cycle{', more than pay' * pays}"
    elsewhere = f", {found.machine}" if sized and sized.machine != found.machine else ""
    groups = {
        f"Trees that size themselves{_amount(sized)}": _rows(auto) | _guessing(auto),
        f"{each}{_amount(found)}{escape(elsewhere)}": _rows(here) | _guessing(here),
        "In the paper, Llama-3-8B": _rows(paper),
    }  # fmt: skip
    every = sorted({*here, *paper})
    untrained = "<p class='note'>–: not trained.</p>" * (len(every) > len(here))

    def row(tag: str, name: str, cells: dict[int, str]) -> str:
        marked = (f"<{tag}{' class=chosen' * (n == chosen)}>{cells.get(n, '–')}</{tag}>"
                  for n in every)  # fmt: skip
        first = f'<th scope="row">{name}</th>' if name else "<td></td>"
        return f"<tr>{first}{''.join(marked)}</tr>"

    bodies = "".join(
        f'<tbody><tr><th colspan="{len(every) + 1}" scope="rowgroup">{group}</th></tr>'
        + "".join(row("td", *each) for each in rows.items()) + "</tbody>"
        for group, rows in groups.items() if rows
    )  # fmt: skip
    return (
        f'<table class="beside"><thead>{row("th", "", {n: NTH.format(n) for n in every})}</thead>'
        f"{bodies}</table>{untrained}"
    )


def _amount(found: Recording | None) -> str:
    if not found:
        return ""
    prompts = f", {many(found.methods[VANILLA]['prompts'], 'prompt')}"
    most = found.results["settings"].get("max_new_tokens")
    return f"{prompts} × {most} tokens" if most else prompts


def source(found: Recording) -> str:
    """What the charts are of, and what sets the drafters apart besides N."""
    prompts = many(found.methods[VANILLA]["prompts"], "prompt")
    return (
        f"Recorded: {escape(found.target)}, {found.precision}, {prompts}, {escape(found.machine)}. "
        "Each N has its own drafter. Speed counts the prompt’s call, a cycle’s time does not."
    )


def charts(found: Recording, chosen: int) -> dict[str, Any]:
    """Speed and the time of a cycle, for each N and without a drafter, by name; the bars of other N
    than the chosen one are pale."""
    names = [*ordered(name for name in found.methods if family(name) == "moa"), VANILLA]
    methods = {name: found.methods[name] for name in names}
    of_moa = replace(found, results={**found.results, "methods": methods})
    drawn = {name: CHARTS[name](of_moa) for name in ("speed", "times")}
    clear = label(method_name("moa", chosen)), label(VANILLA)
    for figure in filter(None, drawn.values()):
        for bar in figure.select_traces({"type": "bar"}):
            bar.marker.opacity = [1 if name in clear else PALE for name in bar.y]
    return drawn


def advice_html(found: Recording | None = None, sized: Recording | None = None) -> str:
    """What N is; which to take: the smallest that is level with the fastest; what it trades."""
    here = _by_n(found.methods) if found else {}
    if not found or len(here) < 2:
        only = "".join(f'<p class="conclusion">Only N = {n} is measured here.</p>' for n in here)
        return f"<p>{ABOUT}</p>{only}"
    raced = dict(sorted((_by_n(sized.methods if sized else {}) or here).items()))
    times = {n: one["speedup"] for n, one in raced.items()}
    best = raced[max(times, key=times.__getitem__)]
    level = [n for n, one in raced.items() if not pace(best, one)]
    (first, *more), over = level, "× as fast as plain decoding"
    if not more:
        said = f"take {NTH.format(first)}: it is the fastest, {times[first]:.2f} {over}"
    elif len(level) < len(times):
        each = ", ".join(f"{times[n]:.2f} × with {NTH.format(n)}" for n in times)
        pays = first == min(times) and f"borrowing {'more ' * bool(first)}layers does not pay"
        whole = pays or f"{NTH.format(first)} is enough"
        each = each.replace("×", "× plain decoding’s speed", 1)
        alike = f"{listed([*map(NTH.format, level)])} are level: {level_rule(sized or found)}"
        said = f"{whole}: {each} ({alike})"
    else:
        each = f"{min(times.values()):.2f} to {max(times.values()):.2f}"
        said = f"it hardly matters: every N is {each} {over}"
    least, most = (raced[end(raced)] for end in (min, max))
    before, after = (gain for one in (least, most) if (gain := spread(one, "tau")))
    unsure = " (this may be chance)" * before.overlaps(after)
    trade = (
        f"With {NTH.format(max(raced))}, a model call brings {after.middle:.2f} tokens instead of "
        f"{before.middle:.2f}{unsure}, but guessing takes {_draft_ms(most)} a cycle instead of "
        f"{_draft_ms(least)}. {TRAINED}"
    )
    concluded = f'<p class="conclusion">With these drafters, {said}.</p>'
    return f"<p>{ABOUT}</p>{concluded}<p>{trade} {_in_the_paper()}</p>"


def _in_the_paper() -> str:
    moas = {name: mean for name, mean in papers_means().items() if family(name) == "moa"}
    speeds = {tli_of(name): speed for name, (speed, _) in moas.items()}
    best, worst = (end(speeds, key=speeds.__getitem__) for end in (max, min))
    return (
        f"In the paper, with a larger model, {NTH.format(best)} is the fastest "
        f"({speeds[best]:.2f} ×), {NTH.format(worst)} the slowest ({speeds[worst]:.2f} ×)."
    )


def _draft_ms(found: dict[str, Any]) -> str:
    return f"{phase_times(found)['draft']:.1f} ms"


def _rows(methods: dict[int, dict[str, Any]]) -> dict[str, dict[int, str]]:
    """τ and speed, a cell for each N."""
    keys = {"tokens per call (τ)": "tau", "speed, × plain": "speedup"} if methods else {}
    return {
        name: {n: f"{one[key]:.2f}" for n, one in methods.items()} for name, key in keys.items()
    }


def _guessing(methods: dict[int, dict[str, Any]]) -> dict[str, dict[int, str]]:
    took = {n: _draft_ms(one) for n, one in methods.items()}
    return {"guessing, per cycle": took} if took else {}


def _by_n(methods: dict[str, dict[str, Any]]) -> dict[int, dict[str, Any]]:
    return {tli_of(name): one for name, one in methods.items() if family(name) == "moa"}
