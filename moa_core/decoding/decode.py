"""The one decode loop, for every method: read it and you know speculative decoding."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import torch

from moa_core.decoding.clock import Stopwatch
from moa_core.decoding.offline import Alone, Away, NoAnswer, asked, chain
from moa_core.decoding.trace import Drafted, Event, Finished, Prefilled, Verified
from moa_core.decoding.tree import TreeSettings
from moa_core.decoding.verifier import Beside, Verifier
from moa_core.decoding.verify import Sampling, walk
from moa_core.drafters.base import Drafter
from moa_core.errors import UserError
from moa_core.model.target import Target, draft_precision
from moa_core.static.run import Run, suits


@dataclass(frozen=True)
class Settings:
    """Everything that shapes one run, weights aside.

    eos_ids  tokens that end the text. None: those of the target; (): none, to go on after its end
    """

    max_new_tokens: int = 128
    tree: TreeSettings = field(default_factory=TreeSettings)
    sampling: Sampling = field(default_factory=Sampling)
    eos_ids: tuple[int, ...] | None = None
    away: Away = field(default_factory=Away)

    def __post_init__(self) -> None:
        count = self.max_new_tokens
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise UserError("The number of new tokens must be a whole number, at least 1.")

    def ends(self, target: Target) -> tuple[int, ...]:
        """The tokens that end a text of this target."""
        return target.eos_ids if self.eos_ids is None else self.eos_ids


@torch.inference_mode()
def decode(
    target: Target,
    drafter: Drafter,
    prompt_ids: Sequence[int],
    settings: Settings,
    should_stop: Callable[[], bool] = lambda: False,
    remote: Verifier | None = None,
) -> Iterator[Event]:
    """Decode a prompt, yielding what happens as it happens. The last event is Finished.

    Lossless: the target's own greedy text, or at a temperature its own distribution.

    remote  where the target is asked, if not in this process; `target` then needs no more weights
            than its drafter uses, and its link may be lost

    UserError, before the first event, for a prompt that is empty or does not fit the context.
    """
    clock = Stopwatch()
    target, drafter = target.fork(), drafter.fork()
    check_prompt(prompt_ids, target)
    room = target.context - len(prompt_ids)  # new tokens that still have a position
    wanted = min(settings.max_new_tokens, room)
    sampling, shape = settings.sampling, _shape(settings, target, drafter)
    eos_ids = settings.ends(target)
    drafter.place(remote is not None, torch.get_num_threads(), sampling.greedy)
    # Verified tokens, the last cycle's overshoot, then one tree: verified (budget) or grown.
    capacity = len(prompt_ids) + wanted + shape.depth + 2
    capacity += max(shape.budget, shape.breadth * shape.depth)
    verifier = remote or Beside(target, drafter)
    if remote is None and suits(target, drafter):
        drafter = verifier = Run(drafter, shape)
    ask = partial(asked, verifier, settings.away, clock, should_stop)

    try:
        # 1) Prefill: the target reads the prompt and chooses the first token.
        drafter.open(target, capacity)
        first = yield from ask(lambda: verifier.prefill(prompt_ids, capacity, sampling))
        token, count, toll = first.tokens[0], 1, verifier.toll
        clock.lap("prefill")
        waited = sum(clock.totals.values())  # for a lost link too
        yield Prefilled(
            tuple(prompt_ids), token, first.probs[0], waited, toll.seconds, toll.sent,
            toll.received,
        )  # fmt: skip
        clock.resume()

        cycle, learnt = 0, verifier.keep(())
        emitted: tuple[int, ...] = (token,)
        unverified: list[int] = []  # written offline, and the target may yet agree
        while (reason := _ending(emitted, count, wanted, eos_ids, settings, should_stop)) is None:
            # 2) Draft: the drafter takes in what the target learnt, and proposes a tree below the
            #    newest token, of which the target has learnt nothing yet.
            half = yield from ask(learnt.half, retry=learnt.half)
            drafter.observe(learnt.ids, half)
            share = 0
            if cycle == 0:
                clock.lap("prefill")
                share = verifier.toll.received
            position = len(prompt_ids) + count - 1
            levels = min(shape.depth, target.context - 1 - position)  # positions end somewhere
            if shape.auto:  # nor deeper than what is still wanted
                levels = min(levels, max(wanted - count - 1, 1))
            if unverified:
                tree = chain(token, unverified, [0.0] * len(unverified))
            else:
                tree = drafter.propose(token, replace(shape, depth=levels))
            offline, ahead = bool(unverified), drafter.ahead  # a GPU verifies in the same go
            seconds = clock.lap("draft") - ahead
            clock.move(ahead, "draft", "verify")
            drafted = Drafted(cycle, position, tree, seconds, drafter.tli, offline, share)
            yield drafted
            clock.resume()

            # 3) Verify: one target forward over the whole tree; the target's choice at each node.
            alone = Alone(drafter, sampling, token, position, wanted - count, eos_ids)
            choices = yield from ask(partial(verifier.verify, tree, position), alone)
            alone.close()
            seconds, toll = clock.lap("verify") + ahead, verifier.toll
            clock.move(toll.seconds, "verify", "network")

            # 4) Accept the longest drafted path the target agrees with; its next choice is the
            #    bonus. Text written offline that is to stay took the tree's place.
            if kept := settings.away.keep and bool(alone.tokens):
                drafted = Drafted(cycle, position, alone.chain(), 0.0, drafter.tli, True)
                yield drafted
                path, token = tuple(range(1, len(drafted.tree))), choices.tokens[-1]
            else:
                path, token = walk(tree, choices.tokens)
            learnt = verifier.keep(path)
            emitted = _cut((*learnt.ids[1:], token), wanted - count, eos_ids)
            unverified = alone.after(emitted)
            count += len(emitted)
            verified = Verified(
                cycle, path, token, choices.tokens, choices.probs, choices.drafts, emitted,
                seconds - toll.seconds, clock.lap("other"),
                toll.seconds, toll.sent, toll.received, kept,
            )  # fmt: skip
            yield verified
            clock.resume()
            drafter.learn(drafted, verified)
            cycle += 1
    except NoAnswer:
        reason = "stopped" if should_stop() else "offline"
    finally:
        drafter.close()
    clock.lap("other")
    yield Finished(reason, dict(clock.totals))


def about(target: Target, drafter: Drafter, settings: Settings) -> dict[str, Any]:
    """How a run is set up, for the trace that is kept of it."""
    return {
        "target": target.name,
        "drafter": drafter.name,
        "settings": {
            **asdict(settings),
            "tree": _shape(settings, target, drafter).as_dict(),
            "eos_ids": settings.ends(target),
        },
        "machine": {
            "device": str(target.device),
            "dtype": str(target.dtype).removeprefix("torch."),
            "threads": torch.get_num_threads(),
            "processor": platform.machine(),
            "torch": torch.__version__,
            "draft_precision": draft_precision(target, drafter),
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


def _shape(settings: Settings, target: Target, drafter: Drafter) -> TreeSettings:
    """The trees of a run. Sizing them as they grow looks at each level, and on a GPU every look
    makes the host wait for it: there a drafter's own tree takes its place."""
    asked = settings.tree
    return drafter.tree if asked.auto and target.device.type != "cpu" else asked


def _cut(tokens: tuple[int, ...], room: int, eos_ids: tuple[int, ...]) -> tuple[int, ...]:
    """Tokens up to and including the first eos, and no more than there is room for."""
    ends = [place for place, token in enumerate(tokens) if token in eos_ids]
    return tokens[: min(room, ends[0] + 1 if ends else len(tokens))]


def _ending(
    emitted: tuple[int, ...],
    count: int,
    wanted: int,
    eos_ids: tuple[int, ...],
    settings: Settings,
    should_stop: Callable[[], bool],
) -> str | None:
    """Why to stop now, or None to go on."""
    if emitted and emitted[-1] in eos_ids:
        return "eos"
    if count >= wanted:
        return "length" if wanted == settings.max_new_tokens else "context"
    return "stopped" if should_stop() else None
