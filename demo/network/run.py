"""What the Network tab's buttons do: run over an emulated link, and once more without one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import Any

import gradio as gr

from demo.common.measure import gained
from demo.common.status import say
from demo.common.tokens.view import Feed, paced
from demo.engine import Engine, Request, Run, check_length
from demo.network.server import Client, Far
from demo.network.settings import Settings
from demo.network.switch import Switch, switch
from demo.network.words import Words, summary, weight
from demo.session import Visit
from moa_core.decoding.decode import Settings as Decoding
from moa_core.decoding.decode import about, check_prompt, decode
from moa_core.decoding.offline import Away
from moa_core.decoding.trace import Event, LinkBack, LinkDown, Trace, Verified
from moa_core.decoding.tree import TreeSettings
from moa_core.decoding.verify import Exactness, compare_with_plain
from moa_core.drafters.base import Drafter, Stepwise
from moa_core.errors import UserError
from moa_core.link.connection import GONE
from moa_core.link.emulator import Link
from moa_core.link.remote import Remote
from moa_core.text import TokenText, prompt_ids, record_words

PATIENCE = 60.0  # seconds for a lost link, when there is no more to write: others wait meanwhile
WARM_UP = 8  # tokens decoded before a run without a link is timed
STARTING = "Starting the server, a separate process with the target. This happens once."
REFUSED = "The server refused"
FETCHING = "Fetching what a client needs of the server’s target. This happens once."
Stop = Callable[[], bool]


@dataclass
class Shown:
    """What the view shows: enough to add to it, and to run it again."""

    feed: Feed
    trace: Trace
    request: Request
    weight: str


class Slow(Remote):
    """A client whose drafter, alone, waits for the link before it writes each token."""

    look = 0.0  # seconds

    def back(self, seconds: float) -> bool:
        return super().back(max(seconds, self.look))


def run(visit: Visit, engine: Engine, far: Far, asked: Settings, stop: Stop) -> Iterator[Any]:
    """Decode over a link, before the visitor's eyes: yields (status, view, switch)."""
    request = asked.request
    if refusal := engine.refusal(request.method, request.target):
        raise UserError(refusal)
    if asked.emulated.offline:
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
        said = weight(client, drafter, asked.emulated)
        visit.far, visit.link = Shown(feed, prepared.trace, request, said), link
        try:
            yield from _shown(prepared, link, feed, isinstance(drafter, Stepwise))
        except Exception:
            yield gr.skip(), feed.broken(), switch()
            raise
        finally:
            visit.link = None
    record_words(prepared.trace, client.target.tokenizer)
    yield say(summary(prepared.trace), "done"), feed.ndjson, switch()


def _shown(prepared: Run, link: Switch, feed: Feed, able: bool) -> Iterator[tuple[Any, ...]]:
    """The run, as it goes on. Nothing is skipped while it streams: see `session.connect`."""
    words = Words(able, PATIENCE)

    def urgent(event: Event) -> bool:
        return isinstance(event, LinkDown | LinkBack) or link.changed()

    yield say("The prompt is on its way to the server."), feed.ndjson, link.switch
    for batch in paced(prepared.events, urgent=urgent):
        for event in batch:
            words.add(event)
        link.lost = words.lost
        yield say(words.now), feed.add(batch), link.switch


def _cutting(events: Iterator[Event], link: Switch, asked: Settings) -> Iterator[Event]:
    """The events; after that many tokens the link is cut automatically, if that is set."""
    tokens, due = 0, asked.cut_after > 0
    for event in events:
        tokens += gained(event)
        if due and tokens >= asked.cut_after:
            due = False
            link.cut_for(asked.cut_for)
        yield event


@contextmanager
def connected(
    far: Far, client: Client, drafter: Drafter, engine: Engine, asked: Settings, stop: Stop
) -> Iterator[tuple[Run, Switch]]:
    """A run that has not begun, and the link that it goes over. UserError for what can be mended.

    Each run has a link of its own, so nobody's cut is another's, and each begins with the same
    delays.
    """
    request, target, emulated = asked.request, client.target, asked.emulated
    check_length(request)
    ids = prompt_ids(target.tokenizer, request.prompt)
    check_prompt(ids, target)
    tree = TreeSettings()
    away = Away(asked.back == "keep", PATIENCE)
    settings = Decoding(request.max_new_tokens, tree, request.sampling, target.eos_ids, away)
    trace = Trace(about(target, drafter, settings))
    trace.about |= {"method": request.method, "prompt": request.prompt}
    trace.about["link"] = {
        "name": emulated.name, "settings": emulated.spec, "source": emulated.source,
        "numbers": asked.numbers, "server": client.address.url, "alone_rate": asked.alone_rate,
    }  # fmt: skip
    with ExitStack() as stack:
        link = Switch(stack.enter_context(Link(emulated)))
        stack.callback(link.close)
        remote = stack.enter_context(_reached(far, link.link, client, drafter, asked))
        remote.look = 1 / asked.alone_rate if asked.alone_rate else 0.0
        events = trace.record(decode(target, drafter, ids, settings, stop, remote))
        prepared = Run(target, ids, trace, engine.in_turn(_cutting(events, link, asked)))
        stack.callback(prepared.events.close)
        yield prepared, link


def _reached(far: Far, link: Link, client: Client, drafter: Drafter, asked: Settings) -> Slow:
    """A session with the server, over the link."""
    address = replace(client.address, kind=asked.numbers)
    try:
        return Slow(address, client.target, drafter, asked.method == "vanilla", link=link)
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


def compare(visit: Visit, engine: Engine, far: Far, stop: Stop) -> Iterator[Any]:
    """Decode the shown prompt once more without a link: yields (status, view)."""
    shown = visit.far
    if shown is None or shown.trace.reason is None:
        raise UserError("Run a prompt first: then it can be run without a link as well.")
    request = shown.request
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
    for length in (min(WARM_UP, request.max_new_tokens), request.max_new_tokens):
        base = engine.prepare(replace(request, max_new_tokens=length), stop)
        for _ in base.events:
            pass
    if stop():
        yield say("Stopped before there was anything to compare.", "done"), gr.skip()
        return
    wrote = shown.trace.output_ids
    verdict = compare_with_plain(base.target, base.prompt_ids, wrote, base.trace.output_ids)
    measured = beside(base.trace, shown.trace, verdict)
    said = f"{measured['exact_words']} {measured['speed_words']}"
    yield say(said, "done"), shown.feed.plain(measured)


def beside(local: Trace, ours: Trace, verdict: Exactness) -> dict[str, Any]:
    """The view's `plain` line: whether the texts agree, what the link costs, both in words."""
    near, over = local.decode_tokens_per_second, ours.decode_tokens_per_second
    speed, ratio = "Too short a text to time.", None
    if near and over:
        speed = f"Without a link {1000 / near:.1f} ms per token after the prefill, over it "
        speed += f"{1000 / over:.1f}."
        ratio = f"{over / near:.2f} ×"
    exact = f"All {len(ours.output_ids)} tokens are the same without a link."
    if verdict.at is not None:
        exact = f"The texts part at token {verdict.at + 1}: {_why(ours, verdict)}."
    return {"ratio": ratio, "same": verdict.same, "exact_words": exact, "speed_words": speed}


def _why(ours: Trace, verdict: Exactness) -> str:
    """What made two texts part."""
    written = 0
    for event in ours.events:
        written += gained(event)
        if written > verdict.at:
            if isinstance(event, Verified) and event.kept:
                return "from there what was written offline was kept"
            break
    if verdict.at >= len(ours.verified_ids):
        return "from there the text was written offline and never verified"
    gap = f"the target’s token leads by {verdict.gap:.2g} in logit"
    return f"there {gap}; near 0 is a tie that rounding decides"
