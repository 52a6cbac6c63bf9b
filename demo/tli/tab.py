"""The tab Layers (TLI): what N means, and what each N gains and costs."""

from collections.abc import Iterable
from functools import partial
from html import escape
from typing import Any

import gradio as gr

from demo.common.elements import words
from demo.common.figures import Spread, leaders, listed, many
from demo.common.methods import RIVAL, VANILLA, family, label, ordered, tli_of
from demo.compare import tab as compare
from demo.compare.run import MOST, recorded_time
from demo.engine import Engine
from demo.lesson.text import PRESSED
from demo.results.tab import FIRST, ours
from demo.results.table import papers_means
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
    "<p>A drafter may send each guess through the large model’s last N layers (target layer "
    "inference, TLI). Guesses may get better, but take longer. The text stays the large model’s "
    "own.</p>"
)
CARD = "drafters.txt"  # the page's copy of the drafters' card
# Of the drafters that come with the program.
TRAINED = (
    f'<a href="{CARD}" target="_blank">N\u00a0=\u00a01 was trained least, N\u00a0=\u00a03 longest'
    "</a>: that is part of the difference."
)
NTH = "N\u00a0=\u00a0{}"


def build(shared: Shared) -> None:
    engine = shared.engine
    there = {one.name: one for one in ours()}
    recorded = [there[name] for name in (RECORDED, FIRST) if name in there and RECORDED in there]
    words(ABOUT + advice_html(*recorded), elem_id="layers-about")
    with gr.Row(equal_height=False):
        with gr.Column(scale=2, min_width=300):
            focus = gr.Radio(**choices(engine), elem_id="layers-focus",
                             label="Borrow the target’s last layers (N)")  # fmt: skip
            drawing = words(drawing_html(focus.value), elem_id="layers-drawing")
        with gr.Column(scale=3, min_width=320):
            if recorded:
                gains = words(gains_html(*recorded, chosen=focus.value), elem_id="layers-gains")
                mark = partial(gains_html, *recorded)
                focus.change(lambda n: mark(chosen=n), focus, gains, queue=False, **PRIVATE)
            link = words(link_html(engine, "", *recorded[:1]), elem_id="layers-link")
    shared.target.change(
        lambda target: (gr.update(**choices(engine, target)), link_html(engine, target)),
        shared.target, [focus, link], queue=False, **PRIVATE,
    )  # fmt: skip
    focus.change(drawing_html, focus, drawing, queue=False, **PRIVATE)


def choices(engine: Engine, target: str = "") -> dict[str, Any]:
    """Every trained N that can be drawn; all of them if none is trained."""
    stops = [stop for stop in engine.stops(target) if stop in STOPS] or [*STOPS]
    return {"choices": [(f"N = {stop}", stop) for stop in stops], "value": stops[0]}


def link_html(engine: Engine, target: str = "", found: Recording | None = None) -> str:
    """A link that compares every trained N, with one tree, in Side by side; "" if there is none.

    found   a recording of this target, which tells how long that takes
    """
    if not (stops := engine.stops(target)):
        return ""
    beside = [name for name in (VANILLA, RIVAL) if name in engine.methods(target)]
    methods = ordered([*(method_name("moa", stop) for stop in stops), *beside][:MOST])
    given = {"methods": methods, "repeats": REPEATS, "tokens": TOKENS, **TREE.as_dict()}
    _, query = address_of(compare.ID, given)
    time = recorded_time(found, methods, REPEATS, TOKENS)
    return (
        f'<p><a class="quiet-button" href="{escape(query)}" data-press="{PRESSED[compare.ID]}">'
        f"Compare these N on your own prompt: {REPEATS * len(methods)} runs →</a></p>"
        f"<p class='note'>In Side by side, {listed([*map(label, methods)])} take turns, {REPEATS} "
        f"times each, with one tree for all{time}.</p>"
    )


def gains_html(found: Recording, sized: Recording | None = None, chosen: int = 0) -> str:
    """What each N gains and costs, recorded with one tree for all, and in the paper.

    sized   the same with trees that size themselves
    chosen  the N whose column is marked
    """
    known = found.methods, papers_means(), sized.methods if sized else {}
    here, paper, auto = map(_by_n, known)
    if not here:
        return ""
    drafting = {n: phase_times(one)["draft"] for n, one in here.items()}
    fixed = f"Always {TREE.budget} guesses, so that only N differs"
    free = "As many guesses as pay off"
    gain, speed = "tokens per call (τ)", "× plain decoding"
    groups = {
        free: {gain: _column(auto, "tau"), speed: _column(auto, "speedup")},
        fixed: {
            gain: _column(here, "tau"), speed: _column(here, "speedup"),
            "guessing, per cycle": {n: f"{spent:.1f} ms" for n, spent in drafting.items()},
        },
        "In the paper, a larger model": {
            gain: {n: f"{tau:.2f}" for n, (_, tau) in paper.items()},
            speed: {n: f"{times:.2f}" for n, (times, _) in paper.items()},
        },
    }  # fmt: skip
    every = sorted({*here, *paper})

    def row(tag: str, name: str, cells: Iterable[str]) -> str:
        shown = zip(every, cells, strict=True)
        marked = (f"<{tag}{' class=chosen' * (n == chosen)}>{cell}</{tag}>" for n, cell in shown)
        first = f'<th scope="row">{name}</th>' if name else "<td></td>"
        return f"<tr>{first}{''.join(marked)}</tr>"

    bodies = "".join(
        f'<tbody><tr><th colspan="{len(every) + 1}" scope="rowgroup">{group}</th></tr>'
        + "".join(row("td", name, (cells.get(n, "–") for n in every))
                  for name, cells in rows.items())
        + "</tbody>"
        for group, rows in groups.items() if any(rows.values())
    )  # fmt: skip
    return (
        f'<table class="beside"><thead>{row("th", "", (NTH.format(n) for n in every))}</thead>'
        f"{bodies}</table><p class='note'>Recorded: {escape(found.target)}, {found.precision}, "
        f"{many(found.methods[VANILLA]['prompts'], 'prompt')}. "
        "Each N has its own drafter." + " –: not trained." * bool({*paper} - {*here}) + "</p>"
    )


def advice_html(found: Recording | None = None, sized: Recording | None = None) -> str:
    """Which N to take, or that none is clearly the fastest; then what a larger N trades."""
    here = _by_n(found.methods) if found else {}
    if not found or len(here) < 2:
        return "".join(f'<p class="conclusion">Only N = {n} is measured here.</p>' for n in here)
    raced = _by_n(sized.methods if sized else {}) or here
    rates = {n: Spread(one["tokens_per_second"], *one["tokens_per_second_spread"])
             for n, one in raced.items()}  # fmt: skip
    (fastest, *level), few, most = leaders(rates), min(here), max(here)
    times = sorted(one["speedup"] for one in raced.values())
    said = f"Take {NTH.format(fastest)}: it is the fastest here ({times[-1]:.2f} × plain decoding)."
    if level:
        said = (
            f"Here no N is clearly the fastest: {times[0]:.2f} to {times[-1]:.2f} × plain decoding."
        )
    ends = [here[n] for n in (few, most)]
    gains = [Spread(one["tau"], *one["tau_spread"]) for one in ends]
    drafting = [phase_times(one)["draft"] for one in ends]
    way, but = ("rise", "but") if gains[1].middle > gains[0].middle else ("fall", "and")
    unsure = f" (perhaps by chance: {many(ends[0]['prompts'], 'prompt')})"
    trade = (
        f"With {TREE.budget} guesses a cycle, tokens per model call {way} from "
        f"{gains[0].middle:.2f} with {NTH.format(few)} to {gains[1].middle:.2f} with "
        f"{NTH.format(most)}{unsure * gains[0].overlaps(gains[1])}, {but} the guesses take "
        f"{drafting[1]:.1f} ms instead of {drafting[0]:.1f}."
    )
    theirs = _by_n(papers_means())
    (before, fewer), (after, more) = theirs[min(theirs)], theirs[max(theirs)]  # speed, tau
    known = (
        f"In the paper, tokens go from {fewer:.2f} to {more:.2f}, speed from {before:.2f} to "
        f"{after:.2f} ×."
    )
    return f'<p class="conclusion">{said}</p><p>{trade} {known} {TRAINED}</p>'


def _column(methods: dict[int, dict[str, Any]], key: str) -> dict[int, str]:
    return {n: f"{one[key]:.2f}" for n, one in methods.items()}


def _by_n(methods: dict[str, dict[str, Any]]) -> dict[int, dict[str, Any]]:
    return {tli_of(name): one for name, one in methods.items() if family(name) == "moa"}
