"""The decode loop of every method: all of speculative decoding in one function."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

import torch

from moa_core.decoding.offline import FarTarget, Pair
from moa_core.decoding.settings import Settings, Text, about, requested_tree
from moa_core.decoding.trace import Drafted, Event, Finished, Prefilled, Stopwatch, Verified
from moa_core.decoding.tree import TreeSettings
from moa_core.decoding.verifier import Asked, NearTarget, Unanswered
from moa_core.decoding.verify import Sampling, walk
from moa_core.drafters.base import Drafter
from moa_core.model.target import Target, check_prompt

__all__ = ["Settings", "about", "check_prompt", "decode"]


@torch.inference_mode()
def decode(
    target: Target, drafter: Drafter, prompt_ids: Sequence[int], settings: Settings,
    should_stop: Callable[[], bool] = lambda: False, remote: FarTarget | None = None,
) -> Iterator[Event]:  # fmt: skip
    """Decode a prompt and yield each event as it happens. The last event is Finished.

    Lossless: the target's own greedy text, or at a temperature its own distribution.

    remote  the target, if it is not in this process; `target` then needs only the weights that
            its drafter uses, and the link may be lost

    UserError, before the first event, for a prompt that is empty or does not fit the context.
    """
    clock = Stopwatch()
    target, drafter = target.fork(), drafter.fork()
    check_prompt(prompt_ids, target)
    text, shape = Text(prompt_ids, settings, target), requested_tree(settings, target, drafter)
    sampling, capacity = settings.sampling, text.capacity(shape)
    drafter.measure_for(remote is not None, torch.get_num_threads(), sampling.greedy)
    far = remote or NearTarget(target, drafter)
    pair = Pair(drafter, far, settings.patience, sampling, text, clock, should_stop)
    pair.open(target, capacity)
    with closing(_speculate(pair, text, shape, capacity, sampling, clock, should_stop)) as run:
        for event in run:
            clock.pause()
            yield event
            clock.resume()


def _speculate(
    pair: Pair, text: Text, shape: TreeSettings, capacity: int, sampling: Sampling,
    clock: Stopwatch, should_stop: Callable[[], bool],
) -> Asked[None]:  # fmt: skip
    try:
        # 1) Prefill: the target reads the prompt and chooses the first token.
        prompt = tuple(text.ids)
        choices, traffic = yield from pair.prefill(prompt, capacity, sampling)
        (token,) = text.add(choices.tokens)
        clock.lap("prefill")
        waited = sum(clock.totals.values())  # for a lost link, too
        yield Prefilled(prompt, token, choices.probs[0], waited, *traffic)
        cycle = 0
        while (reason := text.ending(should_stop)) is None:
            # 2) Draft: the drafter observes the target's results for the newest verified tokens
            #    and proposes a tree below the last token, which the target has not read yet.
            ids, outputs, received = yield from pair.newest()
            pair.observe(ids, outputs)
            if cycle == 0:
                clock.lap("prefill")  # observing the prompt
            tree, at = pair.propose(text.ids[-1], text.fitting(shape)), text.position
            seconds = clock.lap("draft")
            drafted = Drafted(cycle, at, tree, seconds, pair.tli, pair.offline, received)
            yield drafted

            # 3) Verify: one target forward over the whole tree; the target's choice at each node.
            choices, traffic = yield from pair.verify(drafted)
            seconds = clock.lap("verify", network=traffic.seconds)

            # 4) Accept the longest drafted path the target agrees with; its next choice is the
            #    bonus.
            path, bonus = walk(tree, choices.tokens)
            pair.keep(path)
            emitted = text.add((*(tree.tokens[node] for node in path), bonus))
            rest = clock.lap("other")
            verified = Verified(cycle, path, bonus, *choices, emitted, seconds, rest, *traffic)
            yield verified
            pair.learn(drafted, verified)
            cycle += 1
    except Unanswered as ended:
        reason = ended.reason
    clock.lap("other")
    yield Finished(reason, dict(clock.totals))
