"""What the Live tab's buttons do: run, compare with plain decoding, show a saved trace."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from typing import Any

import gradio as gr

from demo.common.charts import accepted_lengths, cumulative_latency, phases
from demo.common.downloads import download
from demo.common.figures import CUT, many, stats, tree_of, tree_words, was_cut
from demo.common.methods import VANILLA, label
from demo.common.spread import Spread
from demo.common.status import STOPPING, say
from demo.common.tokens.view import ENDINGS, Feed, paced
from demo.common.turns import Progress, take, tokens_of, turns
from demo.engine import Engine, Request, Run
from demo.session import Visit
from moa_core.decoding.exactness import Exactness, compare_with_plain
from moa_core.decoding.trace import Trace
from moa_core.errors import UserError
from moa_core.text import RecordedText, TokenText, record_words

REPEATS = 3  # of plain decoding and of the method it is compared with
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
    traces: dict[str, list[Trace]] = {name: [] for name in requests}

    def prepare(method: str, length: int) -> Run:
        return engine.prepare(replace(requests[method], max_new_tokens=length), stop)

    def keep(step: Progress, trace: Trace) -> None:
        traces[step.method].append(trace)

    said = say("Decoding the same prompt plainly and as before, in turns.", "wait")
    steps = turns(list(requests), REPEATS)
    try:
        for step in take(steps, ours.max_new_tokens, prepare, keep, stop):
            yield said, shown.feed.measuring(step.words)
    except Exception:
        yield gr.skip(), shown.feed.measuring("")
        raise
    base, again = traces[VANILLA], traces[ours.method]
    if not base or not again:
        said = say("Stopped before there was anything to compare.", "done")
        yield said, shown.feed.measuring("")
        return
    run = engine.prepare(ours)  # for its target; it is not made
    wrote, plain = shown.trace.output_ids, base[0].output_ids
    verdict = compare_with_plain(run.target, run.prompt_ids, wrote, plain)
    measured = plainly(base, again, shown.trace, verdict)
    said = say(f"{measured['exact_words']} {measured['speed_words']}", "done")
    yield said, shown.feed.plain(measured)


def tokens_compared(visit: Visit) -> int:
    """How many tokens `compare` decodes at most."""
    shown = visit.shown
    if shown is None or shown.request is None:
        return 0
    steps = turns([shown.request.method, VANILLA], REPEATS)
    return tokens_of(steps, shown.request.max_new_tokens)


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
        ratio, slower = _times(fast, slow), fast.high < slow.low
        speed = _speed_words(slow, fast, len(ours), shown)
    exact = f"All {len(shown.output_ids)} tokens are plain decoding’s."
    if not verdict.same:
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


def _times(fast: Spread, slow: Spread) -> str:
    ratio = fast.over(slow)
    unsure = fast.overlaps(slow) and ratio.known
    return f"{ratio.low:.2f}–{ratio.high:.2f} ×" if unsure else f"{ratio.middle:.2f} ×"


def _speed_words(slow: Spread, fast: Spread, runs: int, shown: Trace) -> str:
    """Both speeds with their ranges, what these allow to say, and how the shown run compares."""
    words = f"Prefill included, plain {_ranged(slow)} tokens/s, {method_of(shown)} {_ranged(fast)}"
    if runs > 1:
        words += f": the middle of {runs} runs each, in turn, just now on this machine."
    else:
        words += ": from one run each, just now on this machine."
    if fast.high < slow.low:
        words += " Here speculation is slower than plain decoding."
    elif fast.overlaps(slow):
        words += " The ranges overlap, so which is faster is not clear."
    if rate := shown.tokens_per_second:
        words += f" The run shown is none of these: it had {rate:.0f}."
    return words


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
    about = f"Opened: {method_of(trace)} for {trace.about.get('target', 'a target')}, recorded "
    about += "elsewhere or earlier. "
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
    path = download(f"trace-{trace.about.get('method', 'run')}.json", trace.to_json())
    return gr.update(value=str(path), interactive=True)


def charts_of(trace: Trace) -> list[Any]:
    """The finished run's charts, if it had any cycle."""
    if not trace.accepted_lengths:
        return [gr.skip()] * len(CHARTS)
    return [gr.update(value=chart(trace), visible=True) for chart in CHARTS]


def method_of(trace: Trace) -> str:
    """What a run's method is called; a trace of the command line names its drafter alone."""
    return label(str(trace.about.get("method", trace.about.get("drafter", "a drafter"))))


def drafted_by(trace: Trace) -> str:
    """Method and tree: τ depends on both."""
    tree = tree_of(trace)
    if tree and tree.auto:
        shape = ", trees sized automatically: not to be compared with another run’s τ"
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
    return f"{', '.join(parts)}. Ended: {ENDINGS.get(trace.reason, trace.reason)}."
