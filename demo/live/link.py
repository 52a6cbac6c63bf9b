"""The stage's link to the server: a WebSocket that the page keeps open, and whose end it notices.

The page says, in JSON:
    {"do": "run", "lane": drafter or plain, "settings": {...},
     "after": tokens after which its link is cut, or null; "lesson": whether it may wait for long}
    {"do": "measure", "settings": {...}}    the method, EAGLE-2 and plain decoding, in turns
    {"do": "open", "text": a saved trace}
    {"do": "stop"}, {"do": "cut"}, {"do": "mend"}
and hears
    the lines of a run, with its "lane" (common/tokens/view.py), then {"lane", "trace": text}
    {"step": words, "share": done}, then {"measured": {...}, "rival": text} (live/measure.py) with
        "lines" and "traces" of both lanes: their median runs
    {"said": words, "kind": as of a status line}
    {"alive": 1}                            every second, so that silence means loss
"""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from secrets import token_hex
from threading import Event, Thread
from time import monotonic, sleep
from typing import Any

from starlette.requests import HTTPConnection
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from demo.common.charts import middle
from demo.common.figures import method_of
from demo.common.measure import Measured, measure
from demo.common.tokens.view import Feed, feed_of, paced
from demo.device.endpoint import own_page
from demo.engine import PATIENCE, Engine
from demo.live.measure import figures, requests_for
from demo.live.settings import request_from
from demo.session import sentence, waiting
from demo.worker import Stop
from moa_core.decoding.cuttable import Cuttable
from moa_core.decoding.trace import Trace
from moa_core.decoding.verifier import Unanswered
from moa_core.drafters.base import Drafter
from moa_core.errors import UserError
from moa_core.model.target import Target
from moa_core.text import TokenText, record_words, tokenizer_of
from moa_core.untrusted import parsed

ALIVE = 1.0  # seconds between signs of life
ALONE = 15  # tokens per second while cut: slow enough to read, and to reconnect in time
LESSON = 600.0  # seconds that a lesson's run waits: time to talk
GAVE_WAY = "another visitor’s run comes first"
MOST = 64  # pages with a link
MOST_WAITING = 20
Say = Callable[[dict[str, Any]], None]


class Stage:
    """Runs what the pages ask for. welcome: whether a visitor may; checks the page's password."""

    def __init__(self, engine: Engine, welcome: Callable[[HTTPConnection], bool]) -> None:
        self._engine, self._welcome, self._here = engine, welcome, 0

    def route(self) -> WebSocketRoute:
        return WebSocketRoute("/live/link", self._link)

    async def _link(self, socket: WebSocket) -> None:
        if not own_page(socket) or not self._welcome(socket) or self._here >= MOST:
            await socket.close()  # before it is accepted: 403
            return
        await socket.accept()
        self._here += 1
        loop, out = asyncio.get_running_loop(), asyncio.Queue[str]()

        def say(line: dict[str, Any]) -> None:
            text = json.dumps(line, ensure_ascii=False, separators=(",", ":"))
            with suppress(RuntimeError):  # the server has stopped
                loop.call_soon_threadsafe(out.put_nowait, text)

        async def send() -> None:
            while True:
                try:
                    text = await asyncio.wait_for(out.get(), ALIVE)
                except TimeoutError:
                    text = '{"alive":1}'
                await socket.send_text(text)

        visitor, sending = Visitor(self._engine, say), asyncio.create_task(send())
        try:
            while not sending.done():
                visitor.hear(await socket.receive_text())
        except (WebSocketDisconnect, KeyError):
            pass
        finally:
            visitor.stop()
            sending.cancel()
            self._here -= 1


class Link(Cuttable):
    """A run's link. Once others wait for their turn, it stays cut for at most PATIENCE.

    others  whether they do
    """

    def __init__(
        self, target: Target, drafter: Drafter, after: int | None, others: Callable[[], bool]
    ) -> None:
        super().__init__(target, drafter, after)
        self._others, self._since = others, 0.0

    def cut(self) -> None:
        self._since = monotonic()
        super().cut()

    def back(self, seconds: float) -> bool:
        back = super().back(max(seconds, 1 / ALONE))
        if not back and self._others() and monotonic() - self._since > PATIENCE:
            raise Unanswered("offline")
        return back


class Visitor:
    """One page's jobs: a new one ends the one before, in a thread each. say: sends a line."""

    def __init__(self, engine: Engine, say: Say) -> None:
        self._engine, self._say = engine, say
        self._ended, self._cut = Event(), None  # of the newest job; the link of the run, if any
        self._barred = False  # whether the link is to be cut, even if it is still to come
        self._jobs = {"run": self._run, "measure": self._measure, "open": self._open}

    def hear(self, text: str) -> Thread | None:
        """Do what a message asks for, a job in the thread that it returns; ignore other texts."""
        try:
            asked = dict(parsed(text))
            do = str(asked.pop("do"))
        except (ValueError, TypeError, KeyError):
            return None
        if do in ("cut", "mend"):
            self._barred = do == "cut"
            if link := self._cut:
                (link.cut if self._barred else link.restore)()
        elif do == "stop":
            self.stop()
        elif do in self._jobs:
            self.stop()
            self._ended, self._barred = Event(), False
            job = Thread(target=self._guarded, args=(do, asked, self._ended), daemon=True)
            job.start()
            return job
        return None

    def stop(self) -> None:
        """End the newest job, even if it still waits for its turn."""
        self._ended.set()
        if self._cut:
            self._cut.restore()

    def _guarded(self, do: str, asked: dict[str, Any], ended: Event) -> None:
        """A job whose errors become sentences, and who says nothing once a new one has begun."""

        def say(line: dict[str, Any]) -> None:
            if ended is self._ended:  # else the page would take it for the new job's
                self._say(line)

        try:
            self._jobs[do](asked, ended.is_set, say)
        except Exception as error:
            say({"said": sentence(error), "kind": "error"})

    def _run(self, asked: dict[str, Any], stop: Stop, say: Say) -> None:
        engine, after = self._engine, asked.get("after")
        request = request_from(asked.get("settings"))
        lane = "plain" if asked.get("lane") == "plain" else "drafter"
        if lane == "plain":  # the run before it, this page's own, may not have left yet
            request = requests_for(engine, request)["vanilla"]
        elif len(engine.worker.waiting) >= MOST_WAITING:
            raise UserError("Too many visitors are waiting: try again in a minute.")
        elif words := waiting(engine):
            say({"said": words, "kind": "wait"})
        who = token_hex(8)  # not the visitor: the job before this one may not be over
        engine.worker.waiting.add(who)
        try:
            patience = LESSON if asked.get("lesson") is True else PATIENCE
            after = after if isinstance(after, int) else None
            self._decode(lane, request, stop, patience, after, say)
        finally:
            engine.worker.waiting.discard(who)

    def _decode(
        self, lane: str, request: Any, stop: Stop, patience: float, after: int | None, say: Say
    ) -> None:
        own: list[Link] = []  # this run's link: another run may begin before this one ends
        waiting = self._engine.worker.waiting

        def link(target: Target, drafter: Drafter) -> Link:
            own.append(Link(target, drafter, after, lambda: len(waiting) > 1))
            if not stop():  # else the page has another run by now, whose link this is not
                self._cut = own[0]
                if self._barred:
                    own[0].cut()
            return own[0]

        run = self._engine.prepare(request, stop, link if lane == "drafter" else None, patience)
        tokenizer = tokenizer_of(run.target)
        feed = Feed(TokenText(tokenizer), lane)
        say({**feed.head(token_hex(4), run.trace), "patience": patience if own else 0})
        try:
            for batch in paced(run.events):
                for line in feed.lines(batch):
                    say(line)
        except Exception:
            say({"lane": lane, "end": "error"})
            raise
        finally:
            if self._cut in own:
                self._cut = None
        record_words(run.trace, tokenizer)
        say({"lane": lane, "trace": run.trace.to_json()})

    def _open(self, asked: dict[str, Any], _: Stop, say: Say) -> None:
        trace = Trace.from_json(str(asked.get("text")))
        for line in feed_of(trace, "drafter"):
            say(line)
        say({"lane": "drafter", "trace": trace.to_json()})
        about = f"Opened: {method_of(trace)} for {trace.about.get('target', 'a target')}."
        say({"said": f"{about} It was recorded elsewhere or earlier.", "kind": "done"})

    def _measure(self, asked: dict[str, Any], stop: Stop, say: Say) -> None:
        engine, request = self._engine, request_from(asked.get("settings"))
        requests, measured = requests_for(engine, request), Measured(repeats=3)
        others, share = engine.worker.waiting, 0.0
        while not measured.finished or measured.finished < measured.wanted:
            engine.worker.gives_way = True  # others are not asked to wait
            try:
                for step in measure(engine, requests, measured, lambda: stop() or bool(others)):
                    words, share = f"run {step.run} of {step.runs}", round(step.share, 3)
                    say({"step": words if step.run else "warming up", "share": share})
            finally:
                engine.worker.gives_way = False
            if stop():
                say({"step": "Stopped.", "share": None})
                return
            while others and not stop():
                say({"step": GAVE_WAY, "share": share})
                sleep(ALIVE)
        runs = {name: middle(traces) for name, traces in measured.traces.items()}
        for trace in runs.values():
            record_words(trace, tokenizer_of(engine.target(request.target)))
        lanes = {"drafter": runs[request.method], "plain": runs["vanilla"]}
        rival = (
            runs["eagle2"].to_json() if request.method != "eagle2" and "eagle2" in runs else None
        )
        say({
            "measured": figures(request.method, measured.traces), "rival": rival,
            "lines": {lane: feed_of(trace, lane) for lane, trace in lanes.items()},
            "traces": {lane: trace.to_json() for lane, trace in lanes.items()},
        })  # fmt: skip
