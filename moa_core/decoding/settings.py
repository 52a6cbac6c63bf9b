"""Settings of a run, and its text."""

import platform
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass, field, replace
from numbers import Real
from operator import index
from typing import Any

import torch

from moa_core.decoding.tree import TreeSettings
from moa_core.decoding.verify import Sampling
from moa_core.drafters.base import Drafter
from moa_core.errors import UserError, is_whole
from moa_core.model.target import Target, draft_precision


@dataclass(frozen=True)
class Settings:
    """Everything that shapes one run, except weights.

    eos_ids   tokens that end the text. None: the target's; (): none, to continue after its end
    patience  seconds to wait for a lost link when the drafter has no more to write alone
    """

    max_new_tokens: int = 128
    tree: TreeSettings = field(default_factory=TreeSettings)
    sampling: Sampling = field(default_factory=Sampling)
    eos_ids: tuple[int, ...] | None = None
    patience: float = 0.0

    def __post_init__(self) -> None:
        if not is_whole(self.max_new_tokens, 1):
            raise UserError("The number of new tokens must be a whole number, at least 1.")
        if not (isinstance(self.patience, Real) and 0 <= self.patience < float("inf")):
            raise UserError("The patience for a lost link must be 0 or more seconds, not endless.")
        if not (self.eos_ids is None or isinstance(self.eos_ids, Collection)):
            raise UserError(f"The eos_ids of settings are token ids in a tuple: ({self.eos_ids},).")
        for name, kind in (("tree", TreeSettings), ("sampling", Sampling)):
            if not isinstance(found := getattr(self, name), kind):
                raise UserError(f"The {name} of settings is {kind.__name__}(...), not {found!r}.")

    def ends(self, target: Target) -> tuple[int, ...]:
        return target.eos_ids if self.eos_ids is None else self.eos_ids


class Text:
    """The text of one run and where it ends. ids: prompt and new tokens; the target has read all
    except the newest."""

    def __init__(self, prompt_ids: Sequence[int], settings: Settings, target: Target) -> None:
        self.ids = list(map(index, prompt_ids))  # numpy's numbers become int, for the trace
        self.eos_ids = settings.ends(target)
        self._context = target.context
        wanted, room = settings.max_new_tokens, target.context - len(prompt_ids)
        self._limit = "length" if wanted <= room else "context"
        self.room = min(wanted, room)  # new tokens that still fit

    @property
    def position(self) -> int:
        """Of the newest token, the root of the next tree."""
        return len(self.ids) - 1

    def add(self, tokens: Sequence[int]) -> tuple[int, ...]:
        """Add tokens up to the first end token and the room that is left; return them."""
        ends = [place for place, token in enumerate(tokens) if token in self.eos_ids]
        added = tuple(tokens[: min(self.room, ends[0] + 1 if ends else len(tokens))])
        self.ids += added
        self.room -= len(added)
        return added

    def capacity(self, shape: TreeSettings) -> int:
        """Slots of a cache: the whole text, what the last cycle may accept beyond it (a path and
        its bonus), and one tree with its root, as verified (budget) or as grown."""
        tree = 1 + max(shape.budget, shape.breadth * shape.depth)
        return len(self.ids) + self.room + shape.depth + 1 + tree

    def ending(self, should_stop: Callable[[], bool]) -> str | None:
        """Why to stop now, or None to go on."""
        if self.ids[-1] in self.eos_ids:
            return "eos"
        if not self.room:
            return self._limit
        return "stopped" if should_stop() else None

    def fitting(self, shape: TreeSettings) -> TreeSettings:
        """A tree no deeper than the positions left and, if automatic, the tokens wanted."""
        levels = min(shape.depth, self._context - 1 - self.position)
        return replace(shape, depth=min(levels, max(self.room - 1, 1)) if shape.auto else levels)


def about(target: Target, drafter: Drafter, settings: Settings) -> dict[str, Any]:
    """How a run is set up, for its trace."""
    return {
        "target": target.name,
        "drafter": drafter.name,
        "settings": {
            **asdict(settings),
            "tree": requested_tree(settings, target, drafter).as_dict(),
            "eos_ids": settings.ends(target),
        },
        "machine": {
            "device": str(target.device),
            "dtype": target.precision,
            "threads": torch.get_num_threads(),
            "processor": platform.machine(),
            "torch": torch.__version__,
            "draft_precision": draft_precision(target, drafter),
        },
    }


def requested_tree(settings: Settings, target: Target, drafter: Drafter) -> TreeSettings:
    """The tree settings of a run. On a GPU, automatic sizing would wait for the device at each
    level, so the drafter's own tree is used instead."""
    asked = settings.tree
    return drafter.tree if asked.auto and target.device.type != "cpu" else asked
