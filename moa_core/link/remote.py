"""The client's end of a link: sends requests to the server, and notices when the link is lost."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from time import monotonic, sleep
from typing import Any

import torch

from moa_core.decoding.tree import DraftTree
from moa_core.decoding.verifier import LinkLost, Traffic
from moa_core.decoding.verify import Choices, Sampling
from moa_core.drafters.base import Drafter, ServerOutputs
from moa_core.drafters.names import LOOKUP
from moa_core.errors import UserError
from moa_core.link import wire
from moa_core.link.client_weights import drafter_mark, target_mark
from moa_core.link.connection import GONE, Address, Wire, reach
from moa_core.link.emulator import Link
from moa_core.link.wire import Numbers, check_half, unpack
from moa_core.model.target import Target

SILENCE = 1.0  # seconds; or ROUND_TRIPS round trips, if that is more
ROUND_TRIPS = 3


class Remote:
    """A target across a link: see `decoding.offline.FarTarget`. For one run at a time.

    target   the client's part of the target, for types and devices
    drafter  its server's part runs there; both ends must have the same weights
    streams  the server decodes plainly and pushes one message per token, as APIs do
    silence  least seconds without a sign of life after which the link counts as lost
    link     an emulated link
    """

    def __init__(
        self, address: Address, target: Target, drafter: Drafter, streams: bool = False,
        silence: float = SILENCE, link: Link | None = None,
    ) -> None:  # fmt: skip
        self._least, self._link = silence, link
        self.traffic = Traffic()
        self.address, self.streams = address, streams
        needs = type(drafter).server_outputs is not Drafter.server_outputs
        # Lookup is the client's alone.
        self._name = drafter.name.removesuffix(LOOKUP) if needs else "none"
        self._mark = drafter_mark(drafter) if needs else ""
        self._target, self._drafter = target, drafter
        self._number = 0
        self._flowing = False  # a stream
        self._read: list[int] = []  # tokens that the server has read, by its answers
        self._counted = (0, 0)
        self._wire: Wire | None = self._connect()
        self.round_trip = self._wire.round_trip
        self._found: threading.Event | None = None  # while the link is lost
        self._failed: UserError | None = None
        self._closed = False

    def __enter__(self) -> Remote:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._closed = True
        if self._wire is not None:
            self._wire.close()

    @property
    def silence(self) -> float:
        """Seconds without a sign of life after which the link counts as lost."""
        return max(self._least, ROUND_TRIPS * self.round_trip)

    def prefill(self, ids: Sequence[int], capacity: int, sampling: Sampling) -> Choices:
        self._capacity = capacity
        self._sampled = wire.Sampled(
            float(sampling.temperature), float(sampling.top_p), sampling.top_k, sampling.seed
        )
        self._read, self._prompt, self._kept, self._flowing = [], list(ids), 0, False
        self._comes_back()
        self._halves: list[wire.Share] = []
        request = wire.Prefill(self._next(), self._prompt, capacity, self._sampled)
        _, chosen = self._ask(request, wire.First, 1)
        self._read = list(ids)
        return chosen

    def verify(self, tree: DraftTree, position: int) -> Choices:
        self._comes_back()
        self._tree = tree
        if self.streams:
            return self._streamed(tree.tokens[0], position)
        nodes = list(tree.tokens), list(tree.parents)
        request = wire.Verify(self._next(), position, *nodes)
        answer, chosen = self._ask(request, wire.Answer, len(tree))
        self._half = answer.half
        return chosen

    def keep(self, path: Sequence[int]) -> None:
        self._read += (self._tree.tokens[node] for node in (0, *path))
        self._kept = 1 + len(path)

    def server_outputs(self) -> ServerOutputs:
        if not self._kept:
            return self._shares()
        self.traffic = Traffic()  # its bytes came with the answer
        return self._unpack(self._half, self._kept)

    def back(self, seconds: float) -> bool:
        if self._found is None:
            return True
        if self._failed is not None:
            raise self._failed
        return self._found.wait(seconds) and self._failed is None

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _ask(self, request: wire.Up | None, kind: type, nodes: int) -> tuple[Any, Choices]:
        """The answer to a request, or the next one of a stream, and its choices."""
        began = monotonic()
        if request is not None:
            self._send(request)
        answer = self._await(kind)
        self._charge(monotonic() - began, answer.seconds)
        return answer, wire.choices(answer, nodes, self._target.embed.weight.shape[0])

    def _streamed(self, token: int, position: int) -> Choices:
        request = None
        if not self._flowing:
            count = max(self._capacity - position - 1, 1)
            request, self._flowing = wire.Stream(self._next(), position, token, count), True
        pushed, chosen = self._ask(request, wire.Pushed, 1)
        self._half = {}
        if pushed.position != position + 1:
            raise UserError("The server pushed a token for another place in the text.")
        return chosen

    def _shares(self) -> ServerOutputs:
        """The prompt's half, joined from its shares. After a loss, requests the rest."""
        have = sum(share.count for share in self._halves)
        if self._found is not None:  # the link was lost in between and is back
            self._found = None
            self._read_again(self._prompt, have)
        while have < len(self._prompt):
            share = self._await(wire.Share)
            if share.start != have or have + share.count > len(self._prompt):
                raise UserError("The server sent a share of the prompt out of order.")
            self._halves.append(share)
            have += share.count
        self._charge(0.0, 0.0)
        self._counted = (self._counted[0] - self.traffic.sent, self._counted[1])  # count next time
        parts = [self._unpack(share.half, share.count) for share in self._halves]
        self._halves = []
        return {name: torch.cat([part[name] for part in parts], -2) for name in parts[0]}

    def _unpack(self, half: dict[str, Numbers], count: int) -> ServerOutputs:
        check_half(half, self._drafter.output_shapes(self._target, count), self.address.kind)
        return unpack(half, self._target.dtype, self._target.device)

    def _send(self, message: wire.Up) -> None:
        try:
            assert self._wire is not None
            self._wire.send(message)
        except GONE:
            self._lose()

    def _await(self, kind: type) -> Any:
        """The next answer of a kind to the newest request. LinkLost after too long a silence."""
        line = self._wire
        assert line is not None
        while True:
            try:
                message = line.receive(self.silence)
            except GONE:
                self._lose()
            except UserError as error:
                if not isinstance(error.__cause__, GONE):
                    raise
                self._lose()
            if isinstance(message, kind) and getattr(message, "number", None) == self._number:
                return message

    def _charge(self, waited: float, worked: float) -> None:
        """Set the traffic: the wait without the server's time, and the bytes since last time."""
        assert self._wire is not None
        way = max(waited - worked, 0.0)
        if way and not self.streams:
            self.round_trip = min(self.round_trip, way)
        sent, received = self._wire.sent, self._wire.received
        self.traffic = Traffic(way, sent - self._counted[0], received - self._counted[1])
        self._counted = (sent, received)

    def _connect(self, session: str = "") -> Wire:
        token = self.address.token
        hello = wire.Hello(wire.VERSION, token, self._name, self._mark, self.address.kind, session)
        line = reach(self.address, hello, self._link)
        if line.welcome.fingerprint != target_mark(self._target):
            line.close()
            raise UserError(
                f"The server's target, {line.welcome.target}, differs from this client's."
            )
        return line

    def _lose(self) -> None:
        """Mark the link as lost, and reconnect in the background. Raises LinkLost."""
        line, self._wire = self._wire, None
        assert line is not None
        silent, session = monotonic() - line.heard, line.welcome.session
        sent, received = self._counted  # later bytes are charged to the next answer
        self._counted = (sent - line.sent, received - line.received)
        threading.Thread(target=line.drop, daemon=True).start()
        self._found, self._flowing = threading.Event(), False
        threading.Thread(
            target=self._look, args=(session, self._found), daemon=True, name="link"
        ).start()
        raise LinkLost(silent)

    def _look(self, session: str, found: threading.Event) -> None:
        """Try to connect until it succeeds, the run ends, or the server refuses."""
        pause = 0.1
        while not self._closed:
            try:
                self._wire = self._connect(session)
                break
            except UserError as error:
                if not isinstance(error.__cause__, GONE):
                    self._failed = error
                    break
            sleep(pause)
            pause = min(2 * pause, 1.0)
        found.set()
        if self._closed and self._wire is not None:
            self._wire.close()

    def _read_again(self, ids: list[int], have: int) -> None:
        """Let the new session read the text. have: its first tokens whose half is already here."""
        self._send(wire.Prefill(self._next(), ids, self._capacity, self._sampled, have))

    def _comes_back(self) -> None:
        """If the link was lost since the last request and is back, let the server read the text.
        LinkLost if it is not back: another run may have ended so."""
        if not self.back(0):
            raise LinkLost(0.0)
        lost, self._found = self._found is not None, None
        if lost and self._read:
            self._read_again(self._read, len(self._read))
            self._await(wire.First)
