"""What the Network tab's buttons do: run over an emulated link, and once more without one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import Any

import gradio as gr

from demo.common.status import say
from demo.common.tokens.view import Feed, paced
from demo.common.turns import gained
from demo.engine import Engine, Request, Run, check_length
from demo.network.server import Client, Far
from demo.network.switch import Switch, switch
from demo.network.words import Words, able, summary, weight
from demo.session import Visit
from moa_core.decoding.decode import Settings, about, check_prompt, decode
from moa_core.decoding.exactness import Exactness, compare_with_plain
from moa_core.decoding.offline import Away
from moa_core.decoding.trace import Event, LinkBack, LinkDown, Trace, Verified
from moa_core.drafters.base import Drafter
from moa_core.errors import UserError
from moa_core.link.connection import GONE
from moa_core.link.emulator import Link
from moa_core.link.network import LinkSettings
from moa_core.link.remote import Remote
from moa_core.text import TokenText, prompt_ids, record_words

PATIENCE = 60.0  # seconds for a lost link, when there is no more to write: others wait meanwhile
WARM_UP = 8  # tokens decoded before a run without a link is timed
STARTING = "Starting the server, a process of its own with the target: some seconds, once."
REFUSED = "The server refused"
FETCHING = "Fetching what a client needs of the server’s target: once."
Stop = Callable[[], bool]


@dataclass(frozen=True)
class Asked:
    """What a visitor asks for.

    numbers      how numbers travel: bf16, int8 or f32
    keep         what was written offline stays
    cut_after    tokens after which the link is cut by itself, for `cut_for` seconds; 0: by hand
    alone_rate   tokens per second that the drafter writes alone at most; 0: as fast as it can
    """

    request: Request
    link: LinkSettings
    numbers: str = "bf16"
    keep: bool = False
    cut_after: int = 0
    cut_for: float = 4.0
    alone_rate: float = 0.0


@dataclass
class Shown:
    """What the view shows: enough to add to it, and to run it again."""

    feed: Feed
    trace: Trace
    asked: Asked
    weight: str


class Slow(Remote):
    """A client whose drafter, alone, looks so long for the link before it writes a token."""

    look = 0.0  # seconds

    def back(self, seconds: float) -> bool:
        return super().back(max(seconds, self.look))


def run(visit: Visit, engine: Engine, far: Far, asked: Asked, stop: Stop) -> Iterator[Any]:
    """Decode over a link, before the visitor's eyes: yields (status, view, switch)."""
    request = asked.request
    if refusal := engine.refusal(request.method, request.target):
        raise UserError(refusal)
    if asked.link.offline:
        raise UserError(
            "Nothing passes this link, so the prompt cannot reach the server. Choose another link, "
            "and cut it while text streams."
        )
    if not far.ready(request.target):
        yield say(FETCHING if far.named else STARTING, "load"), gr.skip(), switch()
    client = far.client(request.target)
    drafter = client.drafter(request.method, engine.spec(request.method, request.target))
    with connected(far, client, drafter, engine, asked, stop) as (prepared, link):
        feed = Feed(token_hex(4), TokenText(client.target.tokenizer))
        said = weight(client, drafter, asked.link)
        visit.far, visit.link = Shown(feed, prepared.trace, asked, said), link
        try:
            yield from _shown(prepared, link, feed, asked, Words(able(drafter), PATIENCE))
        except Exception:
            yield gr.skip(), feed.broken(), switch()
            raise
        finally:
            visit.link = None
    record_words(prepared.trace, client.target.tokenizer)
    yield say(summary(prepared.trace), "done"), feed.ndjson, switch()


def _shown(
    prepared: Run, link: Switch, feed: Feed, asked: Asked, words: Words
) -> Iterator[tuple[Any, ...]]:
    """The run, as it goes on. Nothing is skipped while it streams: see `session.connect`."""

    def urgent(event: Event) -> bool:
        return isinstance(event, LinkDown | LinkBack) or link.changed()

    yield say("The prompt is on its way to the server."), feed.ndjson, link.switch
    for batch in paced(prepared.events, urgent=urgent):
        for event in batch:
            words.add(event)
        link.lost = words.lost
        yield say(words.now), feed.add(batch), link.switch


def _cutting(events: Iterator[Event], link: Switch, asked: Asked) -> Iterator[Event]:
    """The events; after so many tokens the link is cut by itself, if that was asked for."""
    tokens, due = 0, asked.cut_after > 0
    for event in events:
        tokens += gained(event)
        if due and tokens >= asked.cut_after:
            due = False
            link.cut_for(asked.cut_for)
        yield event


@contextmanager
def connected(
    far: Far, client: Client, drafter: Drafter, engine: Engine, asked: Asked, stop: Stop
) -> Iterator[tuple[Run, Switch]]:
    """A run that has not begun, and the link that it goes over. UserError for what can be mended.

    Each run has a link of its own, so nobody's cut is another's, and each begins with the same
    delays.
    """
    request, target = asked.request, client.target
    check_length(request)
    ids = prompt_ids(target.tokenizer, request.prompt)
    check_prompt(ids, target)
    tree = engine.tree(request.method, request.target)
    away = Away(asked.keep, PATIENCE)
    settings = Settings(request.max_new_tokens, tree, request.sampling, target.eos_ids, away)
    trace = Trace({**about(target, drafter, settings), **_about(client, asked)})
    with ExitStack() as stack:
        link = Switch(stack.enter_context(Link(asked.link)))
        stack.callback(link.close)
        remote = stack.enter_context(_reached(far, link.link, client, drafter, asked))
        remote.look = 1 / asked.alone_rate if asked.alone_rate else 0.0
        events = decode(target, drafter, ids, settings, stop, remote)
        prepared = Run(
            target, ids, trace, engine.in_turn(_cutting(trace.record(events), link, asked))
        )
        stack.callback(prepared.events.close)
        yield prepared, link


def _reached(far: Far, link: Link, client: Client, drafter: Drafter, asked: Asked) -> Slow:
    """A session with the server, over the link."""
    address, streams = (
        replace(client.address, kind=asked.numbers),
        asked.request.method == "vanilla",
    )
    try:
        return Slow(address, client.target, drafter, streams, link=link)
    except UserError as error:
        if not isinstance(error.__cause__, GONE):
            far.forget()
            raise
        if str(error).startswith(REFUSED):  # all of its places are taken
            raise
        raise UserError(
            f"The server at {client.address.url} does not answer over this link: it is gone, or "
            "the link is too slow to begin with (it has 5 s). Choose another link, or try again."
        ) from error


def _about(client: Client, asked: Asked) -> dict[str, Any]:
    link, request = asked.link, asked.request
    return {
        "method": request.method,
        "prompt": request.prompt,
        "link": {
            "name": link.name, "settings": link.spec, "source": link.source,
            "numbers": asked.numbers, "server": client.address.url, "alone_rate": asked.alone_rate,
        },
    }  # fmt: skip


def compare(visit: Visit, engine: Engine, far: Far, stop: Stop) -> Iterator[Any]:
    """Decode the shown prompt once more without a link: yields (status, view)."""
    shown = visit.far
    if shown is None or shown.trace.reason is None:
        raise UserError("Run a prompt first: then it can be run without a link as well.")
    request = shown.asked.request
    if engine.borrows:
        raise UserError(
            "Without a link this would run on a borrowed GPU, and the server has none: there is "
            "nothing to compare."
        )
    if not far.same(engine.target(request.target)):
        raise UserError(
            "The server has another target than this process, so there is no run without a link to "
            "compare with."
        )
    yield say("Decoding the same prompt here, without a link.", "wait"), gr.skip()
    _whole(engine, replace(request, max_new_tokens=min(WARM_UP, request.max_new_tokens)), stop)
    base = _whole(engine, request, stop)
    if stop():
        yield say("Stopped before there was anything to compare.", "done"), gr.skip()
        return
    wrote = shown.trace.output_ids
    verdict = compare_with_plain(base.target, base.prompt_ids, wrote, base.trace.output_ids)
    measured = beside(base.trace, shown.trace, verdict)
    said = f"{measured['exact_words']} {measured['speed_words']}"
    yield say(said, "done"), shown.feed.plain(measured)


def _whole(engine: Engine, request: Request, stop: Stop) -> Run:
    run = engine.prepare(request, stop)
    for _ in run.events:
        pass
    return run


def beside(local: Trace, ours: Trace, verdict: Exactness) -> dict[str, Any]:
    """The view's `plain` line: whether the texts agree, what the link costs, both in words."""
    near, over = local.decode_tokens_per_second, ours.decode_tokens_per_second
    speed = "Too short a text to time."
    if near and over:
        speed = f"Without a link {1000 / near:.1f} ms per token after the prefill, over it "
        speed += f"{1000 / over:.1f}."
    exact = f"All {len(ours.output_ids)} tokens are the same without a link."
    if not verdict.same:
        exact = f"The texts part at token {verdict.at + 1}: {_why(ours, verdict)}."
    ratio = f"{over / near:.2f} ×" if near and over else None
    return {"ratio": ratio, "same": verdict.same, "exact_words": exact, "speed_words": speed}


def _why(ours: Trace, verdict: Exactness) -> str:
    """What made two texts part."""
    at, written = verdict.at, 0
    for event in ours.events:
        if isinstance(event, Verified) and event.kept and at < written + len(event.emitted):
            return "from there what was written offline was kept"
        written += gained(event)
        if written > at:
            break
    if at >= len(ours.verified_ids):
        return "from there the text was written offline and never verified"
    gap = f"the target’s token leads by {verdict.gap:.2g} in logit"
    return f"there {gap}; near 0 is a tie that rounding decides"
