"""The one decode loop, for every method: read it and you know speculative decoding."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from time import perf_counter
from typing import Any

import torch

from moa_core.drafters.base import Drafter
from moa_core.errors import UserError
from moa_core.target import Target
from moa_core.trace import PHASES, Drafted, Event, Finished, Prefilled, Verified
from moa_core.tree import DraftTree, TreeSettings
from moa_core.verify import Sampling, choose, walk


@dataclass(frozen=True)
class Settings:
    """Everything that shapes one run, weights aside."""

    max_new_tokens: int = 128
    tree: TreeSettings = field(default_factory=TreeSettings)
    sampling: Sampling = field(default_factory=Sampling)
    eos_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        count = self.max_new_tokens
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise UserError("The number of new tokens must be a whole number, at least 1.")


class Stopwatch:
    """Time by phase. It stands still while a consumer of the events does its own work."""

    def __init__(self) -> None:
        self.totals = dict.fromkeys(PHASES, 0.0)
        self._mark = perf_counter()

    def lap(self, phase: str) -> float:
        """Charge the time since the last lap to a phase, and return it."""
        now = perf_counter()
        spent, self._mark = now - self._mark, now
        self.totals[phase] += spent
        return spent

    def resume(self) -> None:
        """Forget the time since the last lap: it was not ours."""
        self._mark = perf_counter()


@torch.inference_mode()
def decode(
    target: Target,
    drafter: Drafter,
    prompt_ids: Sequence[int],
    settings: Settings,
    should_stop: Callable[[], bool] = lambda: False,
) -> Iterator[Event]:
    """Decode a prompt, yielding what happens as it happens. The last event is Finished.

    Lossless: the target's own greedy text, or at a temperature its own distribution.
    UserError, before the first event, for a prompt that is empty or does not fit the context.
    """
    clock = Stopwatch()
    target, drafter = target.fork(), drafter.fork()
    check_prompt(prompt_ids, target)
    room = target.context - len(prompt_ids)  # new tokens that still have a position
    wanted = min(settings.max_new_tokens, room)
    sampling, shape = settings.sampling, settings.tree
    # Verified tokens, the last cycle's overshoot, then one tree: verified (budget) or grown.
    capacity = len(prompt_ids) + wanted + shape.depth + 2
    capacity += max(shape.budget, shape.breadth * shape.depth)

    # 1) Prefill: the target reads the prompt and chooses the first token.
    drafter.open(target, capacity)
    logits, observation = target.prefill(prompt_ids, capacity)
    first = choose(logits[None], DraftTree.only_root(0), len(prompt_ids) - 1, sampling)
    drafter.observe(observation.ids, drafter.server_half(observation))
    token, count = first.tokens[0], 1
    yield Prefilled(tuple(prompt_ids), token, first.probs[0], clock.lap("prefill"))
    clock.resume()

    cycle, observation = 0, None
    emitted: tuple[int, ...] = (token,)
    while (reason := _ending(emitted, count, wanted, settings, should_stop)) is None:
        # 2) Draft: the drafter takes in what the target learnt, and proposes a tree below the
        #    newest token, of which the target has learnt nothing yet.
        if observation is not None:
            drafter.observe(observation.ids, drafter.server_half(observation))
        position = len(prompt_ids) + count - 1
        levels = min(shape.depth, target.context - 1 - position)  # positions end somewhere
        tree = drafter.propose(token, replace(shape, depth=levels))
        drafted = Drafted(cycle, position, tree, clock.lap("draft"), drafter.tli)
        yield drafted
        clock.resume()

        # 3) Verify: one target forward over the whole tree, and the target's choice at each node.
        choices = choose(target.verify(tree), tree, position, sampling)
        seconds = clock.lap("verify")

        # 4) Accept the longest drafted path the target agrees with; its next choice is the bonus.
        path, token = walk(tree, choices.tokens)
        observation = target.keep(path)
        emitted = _cut((*observation.ids[1:], token), wanted - count, settings.eos_ids)
        count += len(emitted)
        other = clock.lap("other")
        verified = Verified(
            cycle,
            path,
            token,
            choices.tokens,
            choices.probs,
            choices.drafts,
            emitted,
            seconds,
            other,
        )
        yield verified
        clock.resume()
        drafter.learn(drafted, verified)
        cycle += 1
    clock.lap("other")
    yield Finished(reason, dict(clock.totals))


def about(target: Target, drafter: Drafter, settings: Settings) -> dict[str, Any]:
    """How a run is set up, for the trace that is kept of it."""
    return {
        "target": target.name,
        "drafter": drafter.name,
        "settings": asdict(settings),
        "machine": {
            "device": str(target.device),
            "dtype": str(target.dtype).removeprefix("torch."),
            "threads": torch.get_num_threads(),
            "processor": platform.machine(),
            "torch": torch.__version__,
        },
    }


def check_prompt(prompt_ids: Sequence[int], target: Target) -> None:
    """UserError if a prompt is empty, has ids the target does not know, or leaves no room."""
    if not prompt_ids:
        raise UserError("The prompt is empty: give the model something to go on from.")
    size = target.embed.weight.shape[0]
    if min(prompt_ids) < 0 or max(prompt_ids) >= size:
        raise UserError(
            f"The prompt has token ids outside the target's vocabulary (0 to {size - 1})."
        )
    if len(prompt_ids) >= target.context:
        raise UserError(
            f"The prompt has {len(prompt_ids):,} tokens; this target reads at most "
            f"{target.context - 1:,} and needs room to answer. Shorten it."
        )


def _cut(tokens: tuple[int, ...], room: int, eos_ids: tuple[int, ...]) -> tuple[int, ...]:
    """Tokens up to and including the first eos, and no more than there is room for."""
    ends = [place for place, token in enumerate(tokens) if token in eos_ids]
    return tokens[: min(room, ends[0] + 1 if ends else len(tokens))]


def _ending(
    emitted: tuple[int, ...],
    count: int,
    wanted: int,
    settings: Settings,
    should_stop: Callable[[], bool],
) -> str | None:
    """Why to stop now, or None to go on."""
    if emitted and emitted[-1] in settings.eos_ids:
        return "eos"
    if count >= wanted:
        return "length" if wanted == settings.max_new_tokens else "context"
    return "stopped" if should_stop() else None
