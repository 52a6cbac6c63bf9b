"""A browser at the link's server: its connection, and what its session gets."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import torch
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from moa_core.drafters.base import ServerOutputs
from moa_core.link.server import MAX_QUEUE, Gone
from moa_core.link.session import Session
from moa_core.link.wire import MOST_HELLO, MOST_UP
from moa_core.model.target import Observation


class BrowserSession(Session):
    """Sends `rows` [k, E] as well: embeddings of new tokens outside the draft vocabulary, in order.

    They are those of the prompt, and those that the target chose itself.
    """

    def server_outputs(self, observation: Observation, new: Sequence[int]) -> ServerOutputs:
        ids, words = torch.tensor(new), self._drafter.vocabulary
        outside = ids[:0] if words is None else ids[~torch.isin(ids, words)]
        rows = self._target.embed(outside)
        return {**super().server_outputs(observation, new), "rows": rows}


class BrowserConnection:
    """A Starlette connection with the interface that `link.server` expects of websockets."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._most = MOST_HELLO
        self._frames: asyncio.Queue[bytes | str | None] = asyncio.Queue(MAX_QUEUE + 1)
        self.here = True
        self.transport = self  # the server calls its `abort`

    def let_in(self) -> None:
        """Accept its hello: its messages may now be longer."""
        self._most = MOST_UP

    def abort(self) -> None:
        """End the connection at once, without a closing handshake."""
        self.here = False
        if self._frames.full():
            self._frames.get_nowait()
        self._frames.put_nowait(None)

    async def read(self) -> None:
        """Read messages at once, because the page's server would queue any number of them."""
        try:
            while self.here:
                message = await self._socket.receive()
                if message["type"] == "websocket.disconnect":
                    break
                frame = message.get("bytes") or message.get("text") or ""
                if len(frame) > self._most or self._frames.qsize() > MAX_QUEUE - 1:
                    break
                self._frames.put_nowait(frame)
        finally:
            self.abort()

    async def recv(self) -> bytes | str:
        """The next message. Gone if there will be none."""
        frame = await self._frames.get() if self.here or not self._frames.empty() else None
        if frame is None:
            raise Gone
        return frame

    async def send(self, frame: bytes) -> None:
        """Send a message. Gone if the client has left."""
        if not self.here:
            raise Gone
        try:
            await self._socket.send_bytes(frame)
        except (WebSocketDisconnect, RuntimeError) as error:
            raise Gone from error

    async def leave(self) -> None:
        self.here = False
        if self._socket.client_state is WebSocketState.CONNECTED:
            with suppress(RuntimeError):  # it has, this very moment
                await self._socket.close()
