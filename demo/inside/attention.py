"""A drafter's attention in one cycle of a trace.

The functions below `look_inside` are pure and run no model.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate
from pathlib import Path
from statistics import fmean
from typing import Any

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
from moa_core.drafters.moa import MoADrafter
from moa_core.errors import UserError

NEAR = 24  # tokens of the visitor's prompt and the answer with their own row
Matrix = list[list[float]]


@dataclass(frozen=True)
class Look:
    """Attention in a cycle.

    cycle    which one, from 0
    root     the text of the newest token, after which is drafted
    tokens   texts of the newest tokens of prompt and answer, and before them of the most read other
    others   how many more there are, earlier or of the chat template; None if not even that one
    layers   LSA over the layers, the mean of its heads: of the newest tokens [rows, L], and over
             every verified token [L]; None without LSA
    text     [H, tokens] CA over the memories of `tokens`; [H, 1 + tokens] with the others, together
             in the first column
    tli      of the drafter
    """

    cycle: int
    root: str
    tokens: list[str]
    others: int | None
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
    asked = [token for event in trace.of(Prefilled) for token in event.prompt_ids]
    ids = [*asked, *trace.output_ids][: cycles[cycle][0].position + 1]
    [looks] = borrow(engine, 1, looked, method, name, ids, should_stop=lambda: False)
    tokenizer, drafter = engine.target(name).tokenizer, engine.drafter(method, name)
    assert isinstance(drafter, MoADrafter) and tokenizer is not None
    *texts, root = [tokenizer.decode([token]) for token in ids]
    own = own_words(texts, len(asked), str(trace.about.get("prompt", "")).strip())[-NEAR:]
    return Look(cycle, root, *_rows(texts, looks, own), drafter.tli)


def looked(engine: Engine, method: str, target: str, ids: list[int], _: Stop) -> Iterator[Looks]:
    """The forward whose attention is shown, in turn with all other runs."""

    def found() -> Iterator[Looks]:
        yield look(engine.target(target), engine.drafter(method, target), ids)

    yield from engine.worker.run(found())


def _installed(engine: Engine, trace: Trace) -> str | None:
    """The engine's name for a trace's target: its name or its folder."""
    wanted = str(trace.about.get("target"))
    return next((name for name in engine.installed if wanted in (name, Path(name).name)), None)


def own_words(texts: Sequence[str], asked: int, prompt: str) -> list[int]:
    """The places of the visitor's prompt and of the answer, without the chat template around them;
    every place if the prompt is not found. asked: how many tokens come before the answer."""
    start = "".join(texts[:asked]).rfind(prompt)
    if not prompt or start < 0:
        return [*range(len(texts))]
    stop = start + len(prompt)
    return [
        place
        for place, end in enumerate(accumulate(map(len, texts)))
        if place >= asked or (end > start and end - len(texts[place]) < stop)
    ]


def _rows(texts: Sequence[str], looks: Looks, own: Sequence[int]) -> tuple[Any, ...]:
    """The tokens with their own row, how many are together, and their weights, as in `Look`."""
    text, tokens, others = looks.text[:, own].tolist(), [texts[place] for place in own], None
    if rest := sorted({*range(len(texts))} - {*own}):
        before = looks.text[:, rest]
        most = int(before.mean(0).argmax())
        tokens, others = [texts[rest[most]], *tokens], len(rest) - 1
        one = before[:, most]
        firsts = zip((before.sum(1) - one).tolist(), one.tolist(), text, strict=True)
        text = [[together, single, *row] for together, single, row in firsts]
    layers = None
    if looks.layers is not None:
        mean = looks.layers.mean(1)
        layers = mean[own].tolist(), mean.mean(0).tolist()
    return tokens, others, layers, text


def layers_chart(looked: Look) -> go.Figure | None:
    """LSA's chart; None without LSA."""
    shown = looked.tokens[looked.others is not None :]
    return looked.layers and layers_read(*looked.layers, shown, looked.tli)


def text_chart(looked: Look) -> go.Figure:
    others = [] if looked.others is None else [f"{looked.others}\u00a0others"]
    return text_read(looked.text, [*others, *looked.tokens], len(looked.tokens))


def takeaway(looked: Look) -> str:
    """What the charts show, as HTML."""
    said, aside, tokens = "", "", looked.tokens
    if looked.layers:
        _, mean = looked.layers
        bars = {group: fmean(mean[at] for at in group) for group in grouped(len(mean), looked.tli)}
        most = max(bars, key=bars.__getitem__)
        one = len(most) == 1
        which = f"layer {most[0] + 1}" if one else f"layers {most[0] + 1} to {most[-1] + 1}"
        said = f"{which} of {len(mean)} and, of single tokens, at "
        share = f"{bars[most]:.0%}{'' if one else ' each, on average'}"
        aside = (
            f"The last layer, the only one that EAGLE-2 sees, gets {mean[-1]:.0%}; {which} "
            f"{share}; an even share is {1 / len(mean):.0%}. "
        )
    read: dict[str, float] = {}
    columns = [*zip(*looked.text, strict=True)][-len(tokens) :]
    for token, column in zip(tokens, columns, strict=True):
        read[short(token)] = max(read.get(short(token), 0.0), fmean(column))
    named = " and ".join(
        f"“{token}”" for token in sorted(read, key=read.__getitem__, reverse=True)[:2]
    )
    return (
        f'<p class="conclusion">Cycle {looked.cycle + 1}: to guess what follows '
        f"“{escape(short(looked.root))}”, the drafter looked most at {said}{escape(named)}.</p>"
        f'<p class="note">{escape(aside)}To look into another cycle, choose it and press again.</p>'
    )
