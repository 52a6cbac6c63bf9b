"""The loop's bookkeeping: order of events, clock, stopping, and what it refuses."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

from moa_core.decoding import trace as trace_module
from moa_core.decoding import verifier
from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import PHASES, Drafted, Event, Finished, Prefilled, Trace, Verified
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.base import Drafter, Vanilla
from moa_core.errors import UserError
from moa_core.model.target import Target
from tests.models import drafter_of, tiny_target, traced, useful

loop = import_module("moa_core.decoding.decode")  # the module, not the function

PROMPT = [5, 9, 33]
METHODS = ("vanilla", "moa-n0", "moa-n1", "eagle2")


@pytest.mark.parametrize("method", METHODS)
def test_events_come_in_order_and_fit_together(method):
    target = tiny_target(vocab_size=61)
    events = list(decode(target, drafter_of(method, target), PROMPT, Settings(25)))
    assert isinstance(events[0], Prefilled) and events[0].prompt_ids == tuple(PROMPT)
    assert isinstance(events[-1], Finished)
    text = [*PROMPT, events[0].token]
    cycles = list(zip(events[1:-1:2], events[2:-1:2], strict=True))
    for number, (drafted, verified) in enumerate(cycles):
        assert isinstance(drafted, Drafted) and isinstance(verified, Verified)
        assert drafted.cycle == verified.cycle == number
        assert drafted.position == len(text) - 1
        assert drafted.tree.tokens[0] == text[-1]
        tree = drafted.tree
        assert len(verified.choices) == len(verified.draft_probs) == len(tree)
        path = [tree.tokens[node] for node in verified.path]
        gained = (*path, verified.bonus)
        assert verified.emitted == gained[: len(verified.emitted)]
        assert verified.gained == len(gained)
        last = verified.path[-1] if verified.path else 0
        assert verified.bonus == verified.choices[last]
        text += verified.emitted
        assert len(verified.emitted) == len(gained) or number == len(cycles) - 1
    assert len(text) == len(PROMPT) + 25


# Seconds each part of the loop takes by the clock of `clocked`; no two sums of parts are alike.
SECONDS = {
    "open": 1, "prefill": 2, "server_half": 4, "observe": 8, "propose": 16, "verify": 32,
    "keep": 64, "choose": 128, "walk": 256, "stop": 512,
}  # fmt: skip


def taken(*parts: str) -> int:
    """What these parts take together."""
    return sum(SECONDS[part] for part in parts)


def clocked(monkeypatch: pytest.MonkeyPatch, drafter: Drafter) -> Callable[[str], float]:
    """Give the loop a clock that moves only while a part works.

    Returns what a part outside the loop calls to take its time, and learns the time from.
    """
    now = 0.0

    def work(part: str = "") -> float:
        nonlocal now
        now += SECONDS.get(part, 0)
        return now

    def timed(part: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def worked(*args: Any) -> Any:
            work(part)
            return original(*args)

        return worked

    places = {
        Target: ("prefill", "verify", "keep"),
        type(drafter): ("open", "server_half", "observe", "propose"),
        loop: ("walk",),
        verifier: ("choose",),
    }
    for place, parts in places.items():
        for part in parts:
            monkeypatch.setattr(place, part, timed(part, getattr(place, part)))
    monkeypatch.setattr(trace_module, "perf_counter", work)
    return work


@pytest.mark.parametrize("method", METHODS)
def test_every_part_is_charged_to_its_phase_and_nothing_is_lost(method, monkeypatch):
    target = tiny_target()
    drafter = drafter_of(method, target)
    work = clocked(monkeypatch, drafter)
    run = decode(target, drafter, PROMPT, Settings(40), should_stop=lambda: work("stop") < 0)
    trace = Trace(events=list(run))
    prefill, read = taken("open", "prefill", "choose"), taken("stop", "server_half", "observe")
    first = taken("propose")  # what the prompt has to tell is charged to the prefill
    later = taken("stop", "server_half", "observe", "propose")
    verify, other = taken("verify", "choose"), taken("walk", "keep")
    cycles = len(trace.of(Verified))
    assert [event.seconds for event in trace.of(Prefilled)] == [prefill]
    assert [event.seconds for event in trace.of(Drafted)] == [first] + [later] * (cycles - 1)
    assert [event.seconds for event in trace.of(Verified)] == [verify] * cycles
    assert [event.other_seconds for event in trace.of(Verified)] == [other] * cycles
    draft = first + later * (cycles - 1)
    assert trace.seconds == dict(
        zip(PHASES, (prefill + read, draft, verify * cycles, 0, other * cycles), strict=True)
    )
    assert cycles > 2 and sum(trace.seconds.values()) == work()


def test_the_clock_stands_still_while_events_are_shown(monkeypatch):
    now = [0.0]  # a clock that moves only while somebody looks at an event
    monkeypatch.setattr(trace_module, "perf_counter", lambda: now[0])
    target = tiny_target()
    trace = Trace()
    for _ in trace.record(decode(target, useful("moa-n0", target), PROMPT, Settings(12))):
        now[0] += 1.0
    assert len(trace.events) > 3 and sum(trace.seconds.values()) == 0


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("cycles", [0, 1, 3])
def test_stopping_ends_after_the_cycle_with_what_there_is(method, cycles):
    target = tiny_target(vocab_size=61)
    drafter = drafter_of(method, target)
    whole = traced(target, drafter, PROMPT, max_new_tokens=60)
    events: list[Event] = []
    asked = decode(
        target, drafter, PROMPT, Settings(60),
        should_stop=lambda: sum(isinstance(e, Verified) for e in events) >= cycles,
    )  # fmt: skip
    for event in asked:
        events.append(event)
    stopped = Trace(events=events)
    assert stopped.reason == "stopped"
    assert len(stopped.of(Verified)) == cycles
    text = stopped.output_ids
    assert text == whole.output_ids[: len(text)] and len(text) == 1 + sum(stopped.accepted_lengths)


def test_the_first_token_may_end_it():
    target = tiny_target()
    first = traced(target, Vanilla(), PROMPT, max_new_tokens=1).output_ids
    trace = traced(target, "moa-n0", PROMPT, max_new_tokens=9, eos_ids=tuple(first))
    assert (trace.output_ids, trace.reason, trace.target_calls) == (first, "eos", 1)


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ([], "empty"),
        ([64], r"outside the target's vocabulary \(0 to 63\)"),
        ([3, -1], "outside the target's vocabulary"),
        ([1] * 40, "has 40 tokens; this target reads at most 39"),
        ([1] * 5000, "has 5,000 tokens"),
    ],
)
def test_prompts_that_cannot_be_read_are_refused_before_anything_happens(prompt, words):
    target = tiny_target(max_position_embeddings=40)
    run = decode(target, Vanilla(), prompt, Settings())
    with pytest.raises(UserError, match=words):
        next(run)


@pytest.mark.parametrize("count", [0, -1, 2.0, True, None, "5"])
def test_the_number_of_tokens_must_be_a_positive_whole_number(count):
    with pytest.raises(UserError, match="number of new tokens"):
        Settings(count)


@pytest.mark.parametrize(
    "wrong", [{"tree": "5-4-11"}, {"tree": None}, {"sampling": 0.7}, {"away": 3.0}], ids=str
)
def test_settings_of_another_kind_are_refused_by_name(wrong):
    with pytest.raises(UserError, match=f"^The {next(iter(wrong))} of settings is "):
        Settings(**wrong)


def test_the_last_positions_are_drafted_no_deeper_than_they_reach():
    target = tiny_target(max_position_embeddings=40)
    shape = TreeSettings(8, 2, 12)
    run = decode(target, useful("moa-n1", target), [1] * 30, Settings(100, shape))
    for event in run:
        if isinstance(event, Drafted):
            assert event.position + max(event.tree.depths) < 40
