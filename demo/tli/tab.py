"""The tab Layers (TLI): every N against EAGLE-2 on the visitor's prompt, and what N means."""

from __future__ import annotations

from functools import partial
from html import escape
from typing import Any

import gradio as gr

from demo.common.controls import control, prompt_box
from demo.common.elements import words
from demo.common.figures import Spread, many
from demo.common.methods import RIVAL, VANILLA, family, tli_of
from demo.compare.bench import Bench, told
from demo.compare.run import Plan
from demo.compare.verdict import NTH, leaders, listed, which_n
from demo.engine import Engine
from demo.results.tab import FIRST, ours
from demo.results.table import papers_means
from demo.session import PRIVATE, Shared
from demo.share import address_of, brought, load_address, named, share_fold, values_of
from demo.tli.drawing import drawing_html
from demo.tli.stops import STOPS
from moa_core.bench.records import Recording, phase_times
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.names import method_name
from moa_core.errors import UserError

ID, TITLE = "tli", "Layers (TLI)"
LONGEST = 256  # new tokens per run: a sweep has many runs
TREE = TreeSettings(5, 4, 11)  # one tree for all, so that only N differs
NAMES = ("prompt", "tokens", "repeats", "target")  # of the settings, in the order of events
RECORDED = "Same tree float32"  # the benchmark with this tree
ABOUT = (
    "<p>N is how many of the target’s last layers each guess also runs through: guesses may get "
    "better, but take longer. For every N, the text is the target’s own.</p>"
)
CARD = "drafters.txt"  # the page's copy of the drafters' card
LINKED = ("tokens", "repeats")  # what an address sets here


def build(demo: gr.Blocks, shared: Shared) -> gr.Textbox:
    engine = shared.engine
    there = {one.name: one for one in ours()}
    recorded = [there[name] for name in (RECORDED, FIRST) if name in there and RECORDED in there]
    words(advice_html(*recorded) + ABOUT, elem_id="sweep-about")
    with gr.Row(equal_height=False):
        with gr.Column(scale=2, min_width=300):
            focus = gr.Radio(**choices(engine), elem_id="sweep-focus",
                             label="Borrow the target’s last layers (N)")  # fmt: skip
            drawing = words(drawing_html(focus.value), elem_id="sweep-drawing")
        with gr.Column(scale=3, min_width=320):
            if recorded:
                words(gains_html(*recorded), elem_id="sweep-gains")
            settings = {"prompt": prompt_box("sweep-", "sweeps", lines=2, max_lines=10)}
            with gr.Row():
                settings["tokens"] = control(
                    "tokens", "sweep-", minimum=8, maximum=LONGEST, step=8, value=96
                )
                settings["repeats"] = control("repeats", "sweep-")
            bench = Bench("sweep-", "Measure every N on your prompt")
    bench.results(("tau", "rate"), ("phases",))
    settings["target"] = shared.target
    own = [settings[name] for name in NAMES]
    bench.wire(
        shared, own, partial(plan_of, engine), lambda _, found: {"verdict": told(which_n(found))}
    )
    share_fold("sweep-", bench.status, address, own)
    linked = [settings[name] for name in LINKED]
    load_address(demo, partial(from_address, engine), [bench.status, *linked])
    shared.target.change(
        lambda target: gr.update(**choices(engine, target)), shared.target, focus, queue=False,
        **PRIVATE,
    )  # fmt: skip
    focus.change(drawing_html, focus, drawing, queue=False, **PRIVATE)
    return settings["prompt"]


def choices(engine: Engine, target: str = "") -> dict[str, Any]:
    """Every trained N that can be drawn; all of them if none is trained."""
    stops = [stop for stop in engine.stops(target) if stop in STOPS] or [*STOPS]
    return {"choices": [(f"N = {stop}", stop) for stop in stops], "value": stops[-1]}


def address(*values: Any) -> tuple[Any, str]:
    return address_of(ID, dict(zip(NAMES, values, strict=True)))


def from_address(engine: Engine, request: gr.Request) -> tuple[Any, ...]:
    """Settings of the page's address: status, then a value for each of LINKED."""
    given, wrong = brought(engine, named(ID, request))
    if not 8 <= given.get("tokens", 8) <= LONGEST:
        wrong.append(f"tokens must be a number from 8 to {LONGEST}")
        del given["tokens"]
    return values_of(given, wrong, LINKED)


def plan_of(engine: Engine, prompt: str, tokens: int, repeats: int, target: str = "") -> Plan:
    """The plan: plain decoding, EAGLE-2 and every trained N. UserError if there is no N."""
    stops = engine.stops(target)
    if not stops:
        raise UserError(
            "There is no MoA drafter for this target, so there is no N to sweep: choose another "
            "target, or train drafters with python -m moa_core train drafters"
        )
    methods = [VANILLA, RIVAL] if RIVAL in engine.methods(target) else [VANILLA]
    methods += [method_name("moa", stop) for stop in stops]
    return Plan(
        prompt, tuple(methods), int(repeats), int(tokens), tree=TREE, target=target,
        most=len(methods),
    )  # fmt: skip


def gains_html(found: Recording, sized: Recording | None = None) -> str:
    """What each N gains and costs, recorded with one tree for all, and in the paper.

    sized  the same with trees that size themselves
    """
    known = found.methods, papers_means(), sized.methods if sized else {}
    here, paper, auto = map(_by_n, known)
    if not here:
        return ""
    drafting = {n: phase_times(one)["draft"] for n, one in here.items()}
    passes = many(found.results["settings"]["repeat"], "pass", "passes")
    rows = {
        "Gain: acceptance length (τ, tokens per model call)": {
            n: f"{one['tau']:.2f}" for n, one in here.items()
        },
        "Cost: drafting, per cycle": {n: f"{spent:.1f} ms" for n, spent in drafting.items()},
        f"Speed over plain decoding, {TREE.budget} guesses for all": {
            n: f"{one['speedup']:.2f} ×" for n, one in here.items()
        },
        "Speed, trees that size themselves": {
            n: f"{one['speedup']:.2f} ×" for n, one in auto.items()
        },
        "In the paper, a larger model: τ": {n: f"{tau:.2f}" for n, (_, tau) in paper.items()},
        "In the paper: speed": {n: f"{speed:.2f} ×" for n, (speed, _) in paper.items()},
    }
    every = sorted({*here, *paper})
    body = "".join(
        f'<tr><th scope="row">{name}</th>'
        + "".join(f"<td>{cells.get(n, '–')}</td>" for n in every) + "</tr>"
        for name, cells in rows.items() if cells
    )  # fmt: skip
    taus = [here[n]["tau"] for n in sorted(here)]
    why = ", so a larger N does not always gain here" * (taus != sorted(taus))
    return (
        '<table class="beside"><thead><tr>'
        f"<td></td>{''.join(f'<th>N = {n}</th>' for n in every)}</tr></thead><tbody>{body}</tbody>"
        f"</table><p class='note'>Recorded: {escape(found.target)}, {found.precision}, tree "
        f"{TREE}, {found.methods[VANILLA]['prompts']} prompts, {passes}. "
        + "–: not trained. "
        * bool({*paper} - {*here})
        + "Each N has its own drafter, "
        f'<a href="{CARD}" target="_blank">not all trained equally long</a>{why}.</p>'
    )


def advice_html(found: Recording | None = None, sized: Recording | None = None) -> str:
    """Which N to take and why; what would settle it, where it is too close to call."""
    here = _by_n(found.methods) if found else {}
    if not found or len(here) < 2:
        return "".join(f'<p class="conclusion">Only N = {n} is measured here.</p>' for n in here)
    raced = _by_n(sized.methods if sized else {}) or here
    taus, rates = (
        {NTH.format(n): Spread(one[key], *one[f"{key}_spread"]) for n, one in of.items()}
        for key, of in (("tau", here), ("tokens_per_second", raced))
    )
    (fastest, *level), (most, *close) = leaders(rates), leaders(taus)
    times = next(one["speedup"] for n, one in raced.items() if NTH.format(n) == fastest)
    gains = f"the most tokens per model call ({taus[most].middle:.2f})"
    why = f" and gains {gains}" if most == fastest else f"; {most} gains {gains}"
    said = f"Take {fastest}: it is the fastest here ({times:.2f} × plain decoding){why}."
    doubt = f" Speed: {listed(level)} may be as fast, the passes overlap." if level else ""
    if close:
        prompts = found.methods[VANILLA]["prompts"]
        enough = max(_enough(taus[most], taus[name], prompts) for name in close)
        doubt += (
            f" Tokens per call: {many(prompts, 'prompt')} cannot tell {most} from {listed(close)}; "
            f"about {enough} could, if they differ as much as here."
        )
    return f'<p class="conclusion">{said}</p>' + f"<p><b>Not certain.</b>{doubt}</p>" * bool(doubt)


def _enough(best: Spread, other: Spread, prompts: int) -> int:
    """How many prompts would part two means: a range narrows with the root of their number."""
    apart = best.middle - best.low + other.high - other.middle
    return round(prompts * (apart / max(best.middle - other.middle, 0.01)) ** 2)


def _by_n(methods: dict[str, dict[str, Any]]) -> dict[int, dict[str, Any]]:
    return {tli_of(name): one for name, one in methods.items() if family(name) == "moa"}
