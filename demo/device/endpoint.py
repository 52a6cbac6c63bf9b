"""The server side of drafters in browsers, on the page's own port: link, weights, scripts."""

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.websockets import WebSocket

from demo.device.vendor import FILES, packed
from demo.device.visitor import BrowserConnection, BrowserSession
from demo.device.weights import Parts, pack
from moa_core.drafters.base import Drafter
from moa_core.errors import UserError
from moa_core.link.server import Server
from moa_core.link.session import Limits
from moa_core.model.target import Target
from moa_core.text import LONGEST_PROMPT, prompt_ids, tokenizer_of
from moa_core.untrusted import parsed

SCRIPTS = Path(__file__).parent / "js"
EACH = 8  # connections from one address
FOREVER = {"Cache-Control": "public, max-age=31536000, immutable"}
ZIPPED = {"Content-Encoding": "gzip"}
MOST_BODY = 4 * LONGEST_PROMPT + 1024  # bytes of a question for token ids


class Device:
    """Serves one target to drafters in browsers.

    target    loads the target for the first visitor, or waits for it
    drafters  loads a drafter by name; UserError if there is none: see `link.server.Server`
    limits    of sessions; None: the server's defaults
    each      most connections from one address at once
    welcome   whether a visitor may use it; checks the page's password
    """

    def __init__(
        self,
        target: Callable[[], Target],
        drafters: Callable[[str], Drafter],
        limits: Limits | None = None,
        each: int = EACH,
        welcome: Callable[[HTTPConnection], bool] = lambda connection: True,
    ) -> None:
        self._find, self._load = target, drafters
        self._limits, self._each, self._welcome = limits or Limits(), each, welcome
        self._here: Counter[str] = Counter()
        self._drafters: dict[str, dict[str, Any]] = {}  # facts by name
        self._parts: Parts = {}
        self._loading = asyncio.Lock()
        self._target: Target | None = None
        self._server: Server | None = None

    def mount(self) -> Mount:
        routes = [
            WebSocketRoute("/link", self._link),
            Route("/facts/{name}", self._facts),
            Route("/parts/{hash}", self._part),
            Route("/ids", self._ids, methods=["POST"]),
            *(
                Route(f"/vendor/{name}", self._vendored)
                for files in FILES.values()
                for name in files
            ),
            Mount("/js", StaticFiles(directory=SCRIPTS)),
        ]
        return Mount("/device", routes=routes)

    # ---- what a browser downloads ----

    async def _facts(self, request: Request) -> Response:
        """What a drafter is, and the parts of its download; or why there is none."""
        self._let_in(request)
        try:
            facts = await self._packed(request.path_params["name"])
        except UserError as error:
            return JSONResponse({"error": str(error)}, 404)
        return JSONResponse(facts, headers={"Cache-Control": "no-cache"})

    async def _part(self, request: Request) -> Response:
        self._let_in(request)
        if (part := self._parts.get(request.path_params["hash"])) is None:
            raise HTTPException(404, "This part is out of date.")
        return Response(part, headers=FOREVER | ZIPPED, media_type="application/octet-stream")

    async def _vendored(self, request: Request) -> Response:
        name = request.url.path.rpartition("/")[2]
        return Response(packed(name), headers=ZIPPED, media_type="text/javascript")

    async def _packed(self, name: str) -> dict[str, Any]:
        """A drafter's facts, made once. UserError if there is none."""
        target = await self._loaded()
        async with self._loading:
            if name not in self._drafters:
                made = await run_in_threadpool(lambda: pack(target, self._load(name)))
                self._drafters[name], parts = made
                self._parts |= parts
        return self._drafters[name]

    async def _loaded(self) -> Target:
        """The target, loaded once. UserError if it cannot be loaded or shared between threads."""
        async with self._loading:
            if self._target is None:
                target = await run_in_threadpool(self._find)
                if target.device.type != "cpu":
                    raise UserError(
                        "The target runs on a GPU here, so a browser cannot draft for it."
                    )
                self._target = target
        return self._target

    def _let_in(self, request: HTTPConnection) -> None:
        if not self._welcome(request):
            raise HTTPException(401)

    async def _ids(self, request: Request) -> Response:
        """Token ids of a prompt: {"text": ...} -> {"ids": [...]}."""
        self._let_in(request)
        try:
            target = await self._loaded()
            text = (await _json(request))["text"]
            ids = await run_in_threadpool(prompt_ids, tokenizer_of(target), str(text))
        except (UserError, ValueError, KeyError, TypeError) as error:
            words = str(error) if isinstance(error, UserError) else "Send JSON with a text."
            return JSONResponse({"error": words}, 400)
        return JSONResponse({"ids": ids})

    # ---- the link ----

    async def _link(self, socket: WebSocket) -> None:
        """A drafter's connection, only from this server's page."""
        address = socket.client.host if socket.client else ""
        # In all, twice the sessions, because a loss is noticed late.
        full = self._here[address] >= self._each or self._here.total() >= 2 * self._limits.sessions
        if not own_page(socket) or not self._welcome(socket) or full:
            await socket.close()  # before it is accepted: 403
            return
        self._here[address] += 1
        try:
            try:
                target = await self._loaded()
            except UserError:
                await socket.close()
                return
            if self._server is None:
                self._server = Server(
                    target, self._load, limits=self._limits, session=BrowserSession
                )
            await socket.accept()
            async with asyncio.TaskGroup() as tasks:
                visitor = BrowserConnection(socket)
                reading = tasks.create_task(visitor.read())
                await self._server.attend(visitor)
                reading.cancel()
                await visitor.leave()
        finally:
            self._here[address] -= 1
            self._here += Counter()  # drops addresses at 0


def own_page(socket: HTTPConnection) -> bool:
    """Whether the request comes from this server's page, by the browser's origin header.

    A proxy may use another host name; pages of other sites cannot set the header.
    """
    origin = socket.headers.get("origin", "").partition("://")[2]
    names = ("host", "x-forwarded-host")
    ours = [os.environ.get("SPACE_HOST"), *(socket.headers.get(name) for name in names)]
    return bool(origin) and origin in ours


async def _json(request: Request) -> Any:
    """A request's JSON body. ValueError if it is too long or not JSON."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_BODY:
            raise ValueError("too long")
    return parsed(body.decode())
