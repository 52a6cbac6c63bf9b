"""One client's session on the server."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from msgspec.structs import astuple

from moa_core.decoding.tree import DraftTree
from moa_core.decoding.verifier import NearTarget
from moa_core.decoding.verify import Sampling, walk
from moa_core.drafters.base import Drafter, ServerOutputs
from moa_core.link import wire
from moa_core.link.wire import Kind, pack
from moa_core.model.target import Observation, Target

TREE = 1025  # nodes of a tree with branches: the largest budget plus the root


class Denied(Exception):
    """A request that cannot be served, with a reason. again: a new session may succeed."""

    def __init__(self, reason: str, again: bool = False) -> None:
        super().__init__(reason)
        self.again = again


class Limits(NamedTuple):
    """A server's limits for its clients.

    sessions  most at once
    context   cached tokens per session, drafts included: all caches together take at most
              sessions * context * layers * 2 * G * d numbers of the target's type
    idle      seconds without a request after which a client is disconnected
    """

    sessions: int = 16
    context: int = 4096
    idle: float = 600.0


class Session:
    """The target's cache for one connection, and the server outputs of its drafter.

    One thread does all its work, a step at a time.

    known  tokens read, including the last accepted path
    """

    def __init__(self, target: Target, drafter: Drafter, kind: Kind, limits: Limits) -> None:
        self.kind, self.known = kind, 0
        self._target, self._drafter = target.fork(), drafter.fork()
        self._near = NearTarget(self._target, self._drafter)
        self._limits = limits
        self._capacity = 0

    def _check_ids(self, ids: list[int]) -> None:
        size = self._target.embed.weight.shape[0]
        if not ids or max(ids) >= size:
            raise Denied(f"Token ids must be from 0 to {size - 1}, and there must be some.")

    def _check_room(self, count: int, capacity: int) -> None:
        most = min(self._limits.context, self._target.context)
        if count >= most:
            raise Denied(f"This server reads and writes at most {most:,} tokens per session.")
        if capacity > self._limits.context:
            raise Denied(
                f"This text and its drafts take up to {capacity:,} tokens; this server gives "
                f"{self._limits.context:,} per session. Ask for fewer new tokens or smaller trees."
            )
        if capacity <= count:
            raise Denied("There is no room for a token after this prompt.")

    def _check_place(self, request: wire.Verify | wire.Stream, deepest: int = 0) -> None:
        """Denied if a request does not fit the text read so far. deepest: level of its nodes."""
        self._check_ids(request.tokens)
        if request.position > self.known:
            raise Denied("The session has not read the text so far.")
        if request.position + len(request.tokens) > self._capacity:
            raise Denied("The session has no room for these tokens.")
        if request.position + deepest >= self._target.context:
            raise Denied(f"The target has {self._target.context:,} positions, and no more.")

    @torch.inference_mode()
    def prefill(self, request: wire.Prefill) -> Iterator[wire.First | wire.Share]:
        """The first token, then the shares of all tokens that the client lacks."""
        count = len(request.ids)
        self._check_ids(request.ids)
        self._check_room(count, request.capacity)
        self._capacity, sampling = request.capacity, Sampling(*astuple(request.sampling))
        chosen = self._near.prefill(request.ids, request.capacity, sampling)
        prompt, self.known, (first,) = self._near.newest, count, chosen.tokens
        yield wire.First(request.number, first, chosen.probs[0])
        for start in range(request.have, count, wire.SHARE):
            part = prompt.part(start, min(start + wire.SHARE, count))
            new = part.ids if start + len(part.ids) < count else [*part.ids, first]
            half = pack(self.server_outputs(part, new), self.kind)
            yield wire.Share(request.number, start, len(part.ids), half)

    @torch.inference_mode()
    def verify(self, request: wire.Verify) -> wire.Answer:
        if len(request.tokens) > TREE and not request.chain:
            raise Denied(f"A tree with branches has at most {TREE:,} nodes here.")
        tree = _tree(request)
        self._check_place(request, max(tree.depths))
        self._target.rewind(request.position)
        chosen = self._near.verify(tree, request.position)
        path, bonus = walk(tree, chosen.tokens)
        self._near.keep(path)
        half = pack(self.server_outputs(self._near.newest, [bonus]), self.kind)
        self.known = request.position + 1 + len(path)
        return wire.Answer(
            request.number, list(chosen.tokens), list(chosen.probs), list(chosen.drafts), half
        )  # fmt: skip

    def server_outputs(self, observation: Observation, new: Sequence[int]) -> ServerOutputs:
        """The drafter's server half. new: ids of tokens that the client did not draft."""
        return self._drafter.server_outputs(observation)

    @torch.inference_mode()
    def push(self, request: wire.Stream) -> Iterator[wire.Pushed]:
        """Plain decoding from a token on, streamed like an API."""
        self._check_place(request)
        token, position = request.token, request.position
        most = min(self._capacity, self._target.context)
        for _ in range(request.count):
            if position + 1 >= most:
                return
            self._target.rewind(position)
            chosen = self._near.verify(DraftTree.only_root(token), position)
            self._near.keep(())
            token, position = chosen.tokens[0], position + 1
            self.known = position
            yield wire.Pushed(request.number, position, token, chosen.probs[0])


def _tree(request: wire.Verify) -> DraftTree:
    """The tree, without the drafter's probabilities."""
    depths = [0]
    for parent in request.parents[1:]:
        depths.append(depths[parent] + 1)
    unknown = (0.0,) * len(depths)
    return DraftTree(tuple(request.tokens), tuple(request.parents), tuple(depths), unknown)
