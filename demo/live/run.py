"""What the Live tab's buttons do: run, compare with plain decoding, show a saved trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from typing import Any

import gradio as gr

from demo.common.downloads import download
from demo.common.figures import CUT, many, stats, tree_of, tree_words, was_cut
from demo.common.measure import Measured, compare_texts, measure
from demo.common.methods import VANILLA, label
from demo.common.spread import Spread
from demo.common.status import STOPPING, say
from demo.common.tokens.view import ENDINGS, Feed, paced
from demo.engine import Engine, Request
from demo.live.charts import CHARTS
from demo.session import Visit
from moa_core.decoding.trace import Trace
from moa_core.decoding.verify import Exactness
from moa_core.errors import UserError
from moa_core.text import RecordedText, TokenText, record_words

REPEATS = 3  # of plain decoding and of the method it is compared with
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
    feed = Feed(token_hex(4), TokenText(target.tokenizer), pace, drafted_by(trace))
    visit.shown = Shown(feed, trace, request)
    # Nothing is skipped while it streams: see `session.connect`.
    try:
        for batch in paced(prepared.events):
            yield say(STOPPING if stop() else ""), feed.add(batch)
    except Exception:
        yield gr.skip(), feed.broken()
        raise
    record_words(trace, target.tokenizer)
    visit.trace = trace
    yield say(summary(trace), "done"), feed.ndjson


def compare(visit: Visit, engine: Engine, stop: Stop) -> Iterator[Any]:
    """Decode the shown prompt plainly and as before, in turns: yields (status, view)."""
    shown, ours = _comparable(visit)
    requests = {ours.method: ours, VANILLA: replace(ours, method=VANILLA, tree=None)}
    measured, feed = Measured(), shown.feed
    said = say("Decoding the same prompt plainly and as before, in turns.", "wait")
    try:
        for step in measure(engine, requests, REPEATS, measured, stop):
            yield said, feed.measuring(step.words)
    except Exception:
        yield gr.skip(), feed.measuring("")
        raise
    if not all(measured.traces.values()):
        said = say("Stopped before there was anything to compare.", "done")
        yield said, feed.measuring("")
        return
    base = measured.traces[VANILLA]
    verdict = compare_texts(engine, ours, shown.trace.output_ids, base[0].output_ids)
    plain = plainly(base, measured.traces[ours.method], shown.trace, verdict)
    yield say(f"{plain['exact_words']} {plain['speed_words']}", "done"), feed.plain(plain)


def _comparable(visit: Visit) -> tuple[Shown, Request]:
    """What is shown, and how to run it again. UserError where there is nothing to compare."""
    shown = visit.shown
    if shown is None:
        raise UserError("Run a prompt first: then its text and speed can be compared.")
    if shown.request is None:
        raise UserError("This trace was opened from a file. Run its prompt here to compare it.")
    if shown.request.method == VANILLA:
        raise UserError("This run is plain decoding itself: run a method that drafts to compare.")
    return shown, shown.request


def plainly(
    base: Sequence[Trace], ours: Sequence[Trace], shown: Trace, verdict: Exactness
) -> dict[str, Any]:
    """The view's `plain` line: ratio of speeds in words, a range where it cannot be told which is
    faster; whether it is sure that ours is slower; whether the texts agree; and all of it in words.

    base, ours  runs of plain decoding and of the method, made in turns
    shown       the run that the view shows
    """
    slow, fast = _speeds(base), _speeds(ours)
    ratio, slower, speed = None, False, "Too short a text to time."
    if slow and fast:
        times, slower = fast.over(slow), fast.high < slow.low
        unsure = fast.overlaps(slow) and times.known
        ratio = f"{times.middle:.2f} ×"
        if unsure:
            ratio = f"{times.low:.2f}–{times.high:.2f} ×"
        words = "Too close to call." if unsure else "Slower than plain decoding." if slower else ""
        speed = (
            f"{method_of(shown)} {_ranged(fast)} tokens/s, plain decoding {_ranged(slow)} (prefill "
            f"included; median of {many(len(ours), 'run')} each). {words}".strip()
        )
    count = len(shown.output_ids)
    exact = f"Identical to plain decoding ({count} of {many(count, 'token')})."
    if verdict.at is not None:
        exact = (
            f"The texts part at token {verdict.at + 1}: there plain decoding’s token leads by "
            f"{verdict.gap:.2g} in logit; near 0 is a tie that rounding decides."
        )
    return {
        "ratio": ratio, "slower": slower, "same": verdict.same, "speed_words": speed,
        "exact_words": exact,
    }  # fmt: skip


def _speeds(traces: Sequence[Trace]) -> Spread | None:
    rates = [rate for trace in traces if (rate := trace.tokens_per_second)]
    return Spread.of(rates) if rates else None


def _ranged(speed: Spread) -> str:
    ends = f"{speed.low:.0f}–{speed.high:.0f}"
    return f"{speed.middle:.0f} ({ends})" if speed.known else f"{speed.middle:.0f}"


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
    feed = Feed(token_hex(4), RecordedText(trace), pace, drafted_by(trace))
    value = feed.add(trace.events)
    visit.begin()  # a run that goes on ends: the view now shows something else
    visit.shown, visit.trace = Shown(feed, trace, None), trace
    target = trace.about.get("target", "a target")
    about = f"Opened: {method_of(trace)} for {target}, recorded elsewhere or earlier. "
    return say(about + summary(trace), "done"), value


def aside(visit: Visit) -> tuple[Any, ...]:
    """What goes with the trace that the view shows: (charts, raw prompt, file to save)."""
    if visit.shown is None or "words" not in visit.shown.trace.about:
        return (gr.skip(),) * (len(CHARTS) + 2)
    trace = visit.shown.trace
    charts = [gr.skip()] * len(CHARTS)
    if trace.accepted_lengths:
        charts = [gr.update(value=draw(trace), visible=True) for draw in CHARTS.values()]
    file = saved(trace) if visit.shown.request else gr.skip()
    return *charts, str(trace.about["words"].get("prompt", "")), file


def saved(trace: Trace) -> Any:
    """The trace as a file to download."""
    path = download(f"trace-{trace.about.get('method', 'run')}.json", trace.to_json())
    return gr.update(value=str(path), interactive=True)


def method_of(trace: Trace) -> str:
    """What a run's method is called; a trace of the command line names its drafter alone."""
    return label(str(trace.about.get("method", trace.about.get("drafter", "a drafter"))))


def drafted_by(trace: Trace) -> str:
    """Method and tree: τ depends on both."""
    tree = tree_of(trace)
    if tree and tree.auto:
        shape = ", trees sized automatically: compare τ only between runs of one fixed tree"
    else:
        shape = f", tree {tree_words(tree)} (depth-breadth-budget)" if tree else ""
    return method_of(trace) + shape


def summary(trace: Trace) -> str:
    """A finished run in one sentence."""
    figures = stats(trace)
    parts = [f"{many(figures['tokens'], 'token')} in {many(figures['calls'], 'target call')}"]
    if figures["tau"] is not None:
        gained, cycles = sum(trace.accepted_lengths), many(figures["cycles"], "call")
        cut = f"; {CUT}" if was_cut(trace) else ""
        parts.append(f"τ {figures['tau']:.2f} ({gained} gained in {cycles} after the prefill{cut})")
    if figures["decode_rate"] is not None:  # else the prefill's token is the only one
        parts.append(
            f"{figures['rate']:.1f} tokens per second, prefill included, and "
            f"{figures['decode_rate']:.1f} while decoding"
        )
    return f"{', '.join(parts)}. Ended: {ENDINGS.get(trace.reason or '', trace.reason)}."
