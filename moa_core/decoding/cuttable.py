"""The target in this process, at the end of a link that can be cut and restored."""

import math
import threading
from collections.abc import Sequence

from moa_core.decoding.tree import DraftTree
from moa_core.decoding.verifier import LinkLost, NearTarget
from moa_core.decoding.verify import Choices
from moa_core.drafters.base import Drafter
from moa_core.model.target import Target


class Cuttable(NearTarget):
    """A target without a server: nothing travels, but while it is cut it does not answer.

    after  new tokens after which the link is cut automatically; at least 1, because the first
           comes with the prompt. None: only `cut` cuts it
    """

    def __init__(self, target: Target, drafter: Drafter, after: int | None = None) -> None:
        super().__init__(target.fork(), drafter.fork())
        self._left = math.inf if after is None else max(after, 1) - 1
        self._up = threading.Event()
        self._up.set()

    def cut(self) -> None:
        self._up.clear()

    def restore(self) -> None:
        self._left = math.inf
        self._up.set()

    def verify(self, tree: DraftTree, position: int) -> Choices:
        if self._left <= 0:
            self.cut()
        if not self._up.is_set():
            raise LinkLost(0.0)
        return super().verify(tree, position)

    def keep(self, path: Sequence[int]) -> None:
        super().keep(path)
        self._left -= len(self.newest.ids)

    def back(self, seconds: float) -> bool:
        return self._up.wait(seconds)
