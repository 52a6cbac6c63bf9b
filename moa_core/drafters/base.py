"""The interface every drafting method implements."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Hashable, Sequence
from functools import cached_property
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from moa_core.decoding.policy import Sizer
from moa_core.decoding.trace import Drafted, Verified
from moa_core.decoding.tree import DraftTree, Frontier, TreeSettings, grow
from moa_core.model.cache import KVCache
from moa_core.model.target import Matrix, Observation, Target

ServerOutputs = dict[str, Tensor]
OutputShapes = dict[str, tuple[int, ...]]


class Drafter(ABC):
    """Proposes draft trees from what it observes of the target.

    It has two parts. `server_outputs` is a pure function of the target's outputs and may run where
    the target is; everything else is the client's. Weights are shared between forks; caches belong
    to one decoding run.
    """

    method: ClassVar[str] = "given"  # its name in configs; given: a caller's own drafter
    label: ClassVar[str] = "Drafter"  # for people
    name: str = "drafter"
    tree: TreeSettings = TreeSettings()  # from its config, else the default
    tli: int | None = None  # N of the newest proposal; None without TLI
    net: Any  # the trained part, if it has weights
    precision: str | None = "float32"  # of drafts, or int8; None: no network
    vocabulary: Tensor | None = None  # [D] ascending ids of the tokens it can draft; None: all V
    head: Matrix  # of a run: logits [.., D] of its vocabulary

    @cached_property
    def sizer(self) -> Sizer:
        return Sizer(self.tree)

    def fork(self) -> Self:
        """The same weights, for another run."""
        sizer, twin = self.sizer.fork(), copy.copy(self)
        twin.sizer = sizer
        return twin

    def head_for(self, target: Target) -> Matrix:
        """The head of its drafts: the target's, or its rows for the drafter's vocabulary."""
        return target.head_of(self.vocabulary)

    @abstractmethod
    def open(self, target: Target, capacity: int) -> None:
        """Begin a run. capacity: slots for every token that it may verify and one grown tree."""

    def open_server(self, target: Target, capacity: int) -> None:  # noqa: B027  most need nothing
        """Begin a run of the server's part alone, beside a target; `open` does this as well."""

    def server_outputs(self, observation: Observation) -> ServerOutputs:
        """The tensors that the client needs for these newly verified tokens."""
        return {}

    def output_shapes(self, target: Target, count: int) -> OutputShapes:
        """Shapes of `server_outputs` for `count` tokens. A client accepts no others."""
        return {}

    @abstractmethod
    def observe(self, ids: Sequence[int], outputs: ServerOutputs) -> None:
        """Observe newly verified tokens, in order, with their server outputs."""

    @abstractmethod
    def propose(self, token: int, settings: TreeSettings) -> DraftTree:
        """Draft below `token`, the newest token, which the target has chosen but not yet read."""

    def measure_for(self, *facts: Hashable) -> None:
        """Select measured costs and gains, such as those of a link or a number of threads."""
        self.sizer.at(facts)

    def grow(
        self, token: int, logits: Tensor, expand: Callable[[Frontier], Tensor],
        settings: TreeSettings,
    ) -> DraftTree:  # fmt: skip
        """A tree below `token`, of the requested shape or sized as it grows."""
        sizing = self.sizer if settings.auto else None
        return grow(token, logits, expand, settings, sizing, self.vocabulary)

    def learn(self, drafted: Drafted, verified: Verified) -> None:
        """Learn from the last proposal: its accepted nodes and times."""
        self.sizer.learn(drafted, verified)


class Stepwise(Drafter):
    """A drafter that grows its tree level by level, so it can also write without the target."""

    @abstractmethod
    def root(self, token: int) -> Tensor:
        """Logits [D] after the newest token; all drafts are below it until `forget`.

        After `forget` it may be called again, whether or not anything was observed in between.
        """

    @abstractmethod
    def expand(self, frontier: Frontier) -> Tensor:
        """Logits [b, D] after the nodes of a level, each seeing the text and its own ancestors."""

    @abstractmethod
    def forget(self) -> None:
        """Drop everything drafted."""

    def propose(self, token: int, settings: TreeSettings) -> DraftTree:
        tree = self.grow(token, self.root(token), self.expand, settings)
        self.forget()
        return tree

    def alone(self, token: int) -> Generator[Tensor, int, None]:
        """Write without the target: yields logits [D], is sent the chosen token's id.

        Closing it drops the tokens written; observations of the target do not change.
        """
        logits, level = self.root(token), 0
        try:
            while True:
                token, level = (yield logits), level + 1
                tokens = torch.tensor([token], device=logits.device)
                seen = torch.ones(1, level, dtype=torch.bool, device=logits.device)
                frontier = Frontier(tokens, torch.zeros_like(tokens), seen, level)
                logits = self.expand(frontier)[0]
        finally:
            self.forget()


class Reader(Stepwise):
    """A drafter that reads the text's tokens itself, into its own cache.

    ids   verified tokens
    text  the cache: verified tokens, the root, and the drafts below it
    """

    ids: list[int]
    text: KVCache

    @abstractmethod
    def read(self, tokens: Tensor, start: int, seen: Tensor | None) -> Tensor:
        """Logits [n, D] after new tokens [n], which go into the cache.

        start  position of the first
        seen   [n, s] bool: they are nodes at that position, and each sees these nodes of the tree;
               None: they follow one another in the text
        """

    def unread(self, token: int) -> tuple[Tensor, int]:
        """The tokens [n] that the cache lacks, the root last, and the position of the first."""
        past = min(self.text.length, len(self.ids))  # a root read before is read again
        self.text.truncate(past)
        return torch.tensor([*self.ids[past:], token], device=self.text.device), past

    def root(self, token: int) -> Tensor:
        return self.read(*self.unread(token), None)[-1]

    def expand(self, frontier: Frontier) -> Tensor:
        return self.read(frontier.tokens, len(self.ids) + frontier.level, frontier.seen)

    def forget(self) -> None:
        self.text.truncate(len(self.ids) + 1)  # the root stays: it is certain


class Vanilla(Drafter):
    """Plain decoding in the same loop: proposes nothing."""

    method = name = "vanilla"
    label = "Plain"
    precision = None

    def open(self, target: Target, capacity: int) -> None:
        pass

    def observe(self, ids: Sequence[int], outputs: ServerOutputs) -> None:
        pass

    def propose(self, token: int, settings: TreeSettings) -> DraftTree:
        return DraftTree.only_root(token)
