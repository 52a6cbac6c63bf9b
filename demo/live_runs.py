"""What the Live tab's buttons do: run, compare with plain decoding, show a saved trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from tempfile import mkdtemp
from typing import Any

import gradio as gr

from demo.charts import accepted_lengths, cumulative_latency, phases
from demo.engine import Engine, Request, Run
from demo.figures import stats
from demo.methods import label
from demo.session import Visit
from demo.status import say
from demo.trace_view import ENDINGS, Feed, paced
from moa_core.errors import UserError
from moa_core.exactness import Exactness, compare_with_plain
from moa_core.text import RecordedText, TokenText, record_words
from moa_core.trace import Trace

WARM_UP = 8  # tokens decoded before plain decoding is timed
CHARTS = (accepted_lengths, cumulative_latency, phases)
LARGEST = 20_000_000  # bytes of a trace to open
Stop = Callable[[], bool]


@dataclass
class Shown:
    """What the view shows: enough to add to it, and to run it again. request None: from a file."""

    feed: Feed
    trace: Trace
    request: Request | None


def run(visit: Visit, engine: Engine, request: Request, pace: str, stop: Stop) -> Iterator[Any]:
    """Decode before the visitor's eyes: yields (status, view)."""
    prepared = engine.prepare(request, stop)
    target, trace = prepared.target, prepared.trace
    feed = Feed(token_hex(4), TokenText(target.tokenizer), pace)
    visit.shown = Shown(feed, trace, request)
    # Nothing is skipped while it streams: see `session.connect`.
    try:
        for batch in paced(prepared.events):
            yield say(""), feed.add(batch)
    except Exception:
        yield gr.skip(), feed.broken()
        raise
    record_words(trace, target.tokenizer)
    visit.trace = trace
    yield say(summary(trace), "done"), gr.skip()


def compare(visit: Visit, engine: Engine, stop: Stop) -> Iterator[Any]:
    """Decode the shown prompt plainly, and once more as before: yields (status, view)."""
    shown = visit.shown
    if shown is None:
        raise UserError("Run a prompt first: then its text and speed can be compared.")
    if shown.request is None:
        raise UserError("This trace was opened from a file. Run its prompt here to compare it.")
    ours = shown.request
    plain = replace(ours, method="vanilla", tree=None)
    yield say("Decoding the same prompt plainly, and once more as before.", "wait"), gr.skip()
    for warm in (plain, ours):
        _whole(engine, replace(warm, max_new_tokens=min(WARM_UP, ours.max_new_tokens)), stop)
    base, again = _whole(engine, plain, stop), _whole(engine, ours, stop)
    if stop():
        yield say("Stopped before there was anything to compare.", "done"), gr.skip()
        return
    wrote = shown.trace.output_ids
    verdict = compare_with_plain(base.target, base.prompt_ids, wrote, base.trace.output_ids)
    measured = plainly(base.trace, again.trace, verdict, label(ours.method))
    yield (
        say(f"{measured['exact_words']} {measured['speed_words']}", "done"),
        shown.feed.plain(measured),
    )


def _whole(engine: Engine, request: Request, stop: Stop) -> Run:
    run = engine.prepare(request, stop)
    for _ in run.events:
        pass
    return run


def plainly(base: Trace, ours: Trace, verdict: Exactness, name: str) -> dict[str, Any]:
    """The view's `plain` line: ratio of speeds, whether the texts agree, and both in words."""
    slow, fast = base.tokens_per_second, ours.tokens_per_second
    ratio = fast / slow if slow and fast else None
    speed = "Too short a text to time."
    if ratio is not None:
        speed = f"Plain {slow:.0f} tokens/s, {name} {fast:.0f}, measured just now on this machine."
        if ratio < 1:
            speed += " Here speculation is slower than plain decoding."
    exact = f"All {len(ours.output_ids)} tokens are plain decoding’s."
    if not verdict.same:
        exact = (
            f"The texts part at token {verdict.at + 1}: there plain decoding’s token leads by "
            f"{verdict.gap:.2g} in logit; near 0 is a tie that rounding decides."
        )
    return {"ratio": ratio, "same": verdict.same, "speed_words": speed, "exact_words": exact}


def open_trace(visit: Visit, path: str | None, pace: str) -> tuple[Any, Any]:
    """Show a saved trace, without any model: (status, view)."""
    if path is None:
        return gr.skip(), gr.skip()
    if Path(path).stat().st_size > LARGEST:
        raise UserError(f"This file has more than {LARGEST // 10**6} MB: it is no trace of ours.")
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise UserError("This file is not a trace of this program (it is not text).") from None
    trace = Trace.from_json(text)
    feed = Feed(token_hex(4), RecordedText(trace), pace)
    value = feed.add(trace.events)
    visit.begin()  # a run that goes on ends: the view now shows something else
    visit.shown, visit.trace = Shown(feed, trace, None), trace
    about = f"Opened: {trace.about.get('method', trace.about.get('drafter', 'a drafter'))} for "
    about += f"{trace.about.get('target', 'a target')}, recorded elsewhere or earlier. "
    return say(about + summary(trace), "done"), value


def aside(visit: Visit) -> tuple[Any, ...]:
    """What goes with the trace that the view shows: (charts, raw prompt, file to save)."""
    skip = gr.skip()
    if visit.shown is None or "words" not in visit.shown.trace.about:
        return (skip,) * (len(CHARTS) + 2)
    trace = visit.shown.trace
    file = saved(trace) if visit.shown.request else skip
    return *charts_of(trace), str(trace.about["words"].get("prompt", "")), file


def saved(trace: Trace) -> Any:
    """The trace as a file to download."""
    name = f"trace-{trace.about.get('method', 'run')}.json"
    path = Path(mkdtemp(prefix="moa-")) / name
    path.write_text(trace.to_json(), encoding="utf-8")
    return gr.update(value=str(path), interactive=True)


def charts_of(trace: Trace) -> list[Any]:
    """The finished run's charts, if it had any cycle."""
    if not trace.accepted_lengths:
        return [gr.skip()] * len(CHARTS)
    return [gr.update(value=chart(trace), visible=True) for chart in CHARTS]


def summary(trace: Trace) -> str:
    """A finished run in one sentence."""
    figures = stats(trace)
    parts = [f"{figures['tokens']} tokens in {figures['calls']} target calls"]
    if figures["tau"] is not None:
        parts.append(f"τ {figures['tau']:.2f}")
    if figures["rate"] is not None:
        parts.append(f"{figures['rate']:.1f} tokens per second")
    return f"{', '.join(parts)}. Ended: {ENDINGS.get(trace.reason, trace.reason)}."
