"""A drafter's attention in one cycle of a trace.

The functions below `look_inside` are pure and run no model.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from statistics import fmean

import plotly.graph_objects as go

from demo.common.figures import name_of
from demo.common.methods import family, label
from demo.engine import Engine
from demo.inside.charts import grouped, layers_read, short, text_read
from demo.inside.view import cycles_of
from demo.worker import Stop
from demo.zero import borrow
from moa_core.decoding.trace import Prefilled, Trace
from moa_core.drafters.attention import Looks, look
from moa_core.drafters.base import Drafter
from moa_core.drafters.moa import MoADrafter
from moa_core.errors import UserError
from moa_core.model.target import Target

NEAR = 24  # tokens before the root with their own row
Matrix = list[list[float]]


@dataclass(frozen=True)
class Look:
    """Attention in a cycle.

    cycle    which one, from 0
    tokens   texts of the newest verified tokens, and before them of the most read earlier one
    earlier  how many others there are before; None if not even that one
    layers   LSA over the layers, the mean of its heads: of the newest tokens [rows, L], and over
             every verified token [L]; None without LSA
    text     [H, tokens] CA over the memories of `tokens`; [H, 1 + tokens] with `earlier` ones,
             together in the first column
    tli      of the drafter
    """

    cycle: int
    tokens: list[str]
    earlier: int | None
    layers: tuple[Matrix, list[float]] | None
    text: Matrix
    tli: int


def refusal(engine: Engine, trace: Trace) -> str | None:
    """Why a trace's attention cannot be shown, as a sentence; None if it can."""
    method = name_of(trace)
    if family(method) not in ("moa", "given"):
        return f"This run was drafted by {label(method)}; only MoA has LSA and CA."
    target = _installed(engine, trace)
    if target is None:
        return f"The target {trace.about.get('target')} of this trace is not installed here."
    if method not in engine.methods(target):
        return f"The drafter {label(method)} of this trace is not installed here."
    return None


def look_inside(engine: Engine, trace: Trace, cycle: int) -> Look:
    """Run the target and the drafter over the text before a cycle, in turn with all other runs.

    UserError for a trace without this cycle, or if `refusal` has a reason.
    """
    reason, cycles = refusal(engine, trace), cycles_of(trace)
    if reason or not 0 <= cycle < len(cycles):
        raise UserError(reason or "There is no such cycle in this run.")
    name, method = _installed(engine, trace), name_of(trace)
    ids = [token for event in trace.of(Prefilled) for token in event.prompt_ids]
    ids = [*ids, *trace.output_ids][: cycles[cycle][0].position + 1]
    [looks] = borrow(engine, 1, looked, method, name, ids, should_stop=lambda: False)
    return _look(engine.target(name), engine.drafter(method, name), ids, looks, cycle)


def looked(engine: Engine, method: str, target: str, ids: list[int], _: Stop) -> Iterator[Looks]:
    """The forward whose attention is shown, in turn with all other runs."""

    def found() -> Iterator[Looks]:
        yield look(engine.target(target), engine.drafter(method, target), ids)

    yield from engine.worker.run(found())


def _installed(engine: Engine, trace: Trace) -> str | None:
    """The engine's name for a trace's target: its name or its folder."""
    wanted = str(trace.about.get("target"))
    return next((name for name in engine.installed if wanted in (name, Path(name).name)), None)


def _look(target: Target, drafter: Drafter, ids: Sequence[int], looks: Looks, cycle: int) -> Look:
    assert isinstance(drafter, MoADrafter) and target.tokenizer is not None
    texts = [target.tokenizer.decode([token]) for token in ids[:-1]]
    text = looks.text[:, -NEAR:].tolist()
    tokens, earlier = texts[-NEAR:], None
    if len(texts) > NEAR:
        before = looks.text[:, :-NEAR]
        most = int(before.mean(0).argmax())
        tokens, earlier = [texts[most], *tokens], len(texts) - NEAR - 1
        own = before[:, most]
        firsts = zip((before.sum(1) - own).tolist(), own.tolist(), text, strict=True)
        text = [[rest, one, *row] for rest, one, row in firsts]
    layers = None
    if looks.layers is not None:
        mean = looks.layers.mean(1)
        layers = mean[-NEAR:].tolist(), mean.mean(0).tolist()
    return Look(cycle, tokens, earlier, layers, text, drafter.tli)


def layers_chart(looked: Look) -> go.Figure | None:
    """LSA's chart; None without LSA."""
    return looked.layers and layers_read(*looked.layers, looked.tokens[-NEAR:], looked.tli)


def text_chart(looked: Look) -> go.Figure:
    others = [] if looked.earlier is None else [f"({looked.earlier} earlier)"]
    return text_read(looked.text, [*others, *looked.tokens], len(looked.tokens))


def takeaway(looked: Look, trace: Trace) -> str:
    """What the charts show, and of which run, as HTML."""
    said, tokens = "", looked.tokens
    if looked.layers:
        _, mean = looked.layers
        bars = {group: fmean(mean[at] for at in group) for group in grouped(len(mean), looked.tli)}
        most = max(bars, key=bars.__getitem__)
        one = len(most) == 1
        which = f"layer {most[0] + 1}" if one else f"layers {most[0] + 1} to {most[-1] + 1}"
        share = f"{bars[most]:.0%}{'' if one else ' each, on average'}"
        said = f"{which} of {len(mean)} ({share}; an even share is {1 / len(mean):.0%}) and "
    read = [fmean(column) for column in zip(*looked.text, strict=True)][-len(tokens) :]
    best = sorted(range(len(tokens)), key=lambda place: -read[place])[:2]
    named = " and ".join(
        f"“{short(tokens[place].strip() or tokens[place])}” ({read[place]:.0%})" for place in best
    )
    about = f"{trace.about.get('target')}, {label(name_of(trace))}, cycle {looked.cycle + 1}"
    return (
        f'<p class="conclusion">The drafter reads most from {said}the tokens {escape(named)}.</p>'
        f'<p class="note">{escape(about)} of “{escape(str(trace.about.get("prompt", "")))}”</p>'
    )
