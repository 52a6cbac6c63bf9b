"""The loop's bookkeeping: order of events, clock, stopping, and what it refuses."""

from importlib import import_module

import pytest

from moa_core.decoding import verifier
from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import PHASES, Drafted, Finished, Prefilled, Trace, Verified
from moa_core.decoding.tree import AUTO, TreeSettings
from moa_core.decoding.verify import Sampling
from moa_core.drafters.base import Vanilla
from moa_core.errors import UserError
from moa_core.model.target import Target
from tests.models import clocked, drafter_of, tiny_target, traced

loop = import_module("moa_core.decoding.decode")  # the module, not the function

PROMPT = [5, 9, 33]
METHODS = ("vanilla", "moa-n0", "moa-n1", "eagle2")


@pytest.mark.parametrize("method", METHODS)
def test_events_come_in_order_and_fit_together(method):
    target = tiny_target(vocab_size=61)
    first, *events, last = traced(target, method, PROMPT, max_new_tokens=25).events
    assert isinstance(first, Prefilled) and first.prompt_ids == tuple(PROMPT)
    logits, _ = target.fork().prefill(PROMPT, 3)
    assert first.prob == pytest.approx(float(logits.softmax(-1)[first.token]))
    assert isinstance(last, Finished)
    text = [*PROMPT, first.token]
    for number, (drafted, verified) in enumerate(zip(events[::2], events[1::2], strict=True)):
        assert isinstance(drafted, Drafted) and isinstance(verified, Verified)
        tree = drafted.tree
        assert drafted.cycle == verified.cycle == number
        assert (drafted.position, tree.tokens[0]) == (len(text) - 1, text[-1])
        assert len(verified.choices) == len(verified.draft_probs) == len(tree)
        gained = (*(tree.tokens[node] for node in verified.path), verified.bonus)
        assert verified.emitted == gained[: len(verified.emitted)]
        assert verified.gained == len(gained)
        assert verified.bonus == verified.choices[[0, *verified.path][-1]]
        text += verified.emitted
        assert verified.emitted == gained or verified is events[-1]
    assert len(text) == len(PROMPT) + 25


# Seconds each part of the loop takes; no two sums of parts are alike.
SECONDS = {
    "open": 1, "prefill": 2, "server_outputs": 4, "observe": 8, "propose": 16, "verify": 32,
    "keep": 64, "choose": 128, "walk": 256, "stop": 512,
}  # fmt: skip


def taken(*parts: str) -> int:
    return sum(SECONDS[part] for part in parts)


@pytest.mark.parametrize("method", METHODS)
def test_every_part_is_charged_to_its_phase_and_nothing_is_lost(method, monkeypatch):
    target = tiny_target()
    drafter = drafter_of(method, target)
    places = {
        Target: ("prefill", "verify", "keep"),
        type(drafter): ("open", "server_outputs", "observe", "propose"),
        loop: ("walk",),
        verifier: ("choose",),
    }
    costs = {(place, part): SECONDS[part] for place, parts in places.items() for part in parts}
    passed, stop = clocked(monkeypatch, costs), SECONDS["stop"]
    run = decode(target, drafter, PROMPT, Settings(40), should_stop=lambda: passed(stop) < 0)
    trace, shown = Trace(), 10_000
    for _ in trace.record(run):
        passed(shown)  # while somebody looks at it the run's own clock stands still
    prefill, read = taken("open", "prefill", "choose"), taken("stop", "server_outputs", "observe")
    first = taken("propose")  # what the prompt has to tell is charged to the prefill
    later = read + first
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
    assert cycles > 2 and sum(trace.seconds.values()) == passed() - shown * len(trace.events)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("cycles", [0, 1, 3])
def test_stopping_ends_after_the_cycle_with_what_there_is(method, cycles):
    target = tiny_target(vocab_size=61)
    drafter = drafter_of(method, target)
    whole = traced(target, drafter, PROMPT, max_new_tokens=20)  # no three cycles gain more
    stopped = Trace()
    run = decode(target, drafter, PROMPT, Settings(60), lambda: len(stopped.of(Verified)) >= cycles)
    for _ in stopped.record(run):
        pass
    assert stopped.reason == "stopped" and len(stopped.of(Verified)) == cycles
    text = stopped.output_ids
    assert text == whole.output_ids[: len(text)] and len(text) == 1 + sum(stopped.accepted_lengths)


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
    with pytest.raises(UserError, match=words):
        next(decode(target, Vanilla(), prompt, Settings()))
    next(decode(target, Vanilla(), [0, 63], Settings()))  # the first and the last may be asked


NAN, WHOLE = float("nan"), "must be a whole number from 1 to"
BEYOND = 2**62 + 1
IMPOSSIBLE = [
    (Settings, "max_new_tokens", (0, -1, 2.0, True, None, "5"), "The number of new tokens must"),
    (Settings, "eos_ids", (2,), r"The eos_ids of settings are token ids in a tuple: \(2,\)"),
    (Settings, "tree", ("5-4-11", None), "The tree of settings is "),
    (Settings, "sampling", (0.7,), "The sampling of settings is "),
    (TreeSettings, "depth", (0, 33, 2.5, None), f"Tree depth {WHOLE}"),
    (TreeSettings, "breadth", (-1, 65, True), f"Tree breadth {WHOLE}"),
    (TreeSettings, "budget", (0, 1025, "12"), f"Tree budget {WHOLE}"),
    (Sampling, "temperature", (-0.1, 100.1, NAN, float("inf"), "1", None),
     "Temperature must be a number from 0 .greedy. to 100.$"),
    (Sampling, "top_p", (0, 1.1, NAN, "x"), "Top-p must be a number above 0 and at most 1.$"),
    (Sampling, "top_k", (-1, 1.5, True), "Top-k must be a whole number, 0 for off.$"),
    (Sampling, "seed", (BEYOND, -BEYOND, 1.5, True),
     "The seed must be a whole number of at most 18 digits.$"),
    (Settings, "patience", (-1, NAN, float("inf"), "x", None), ".*patience"),
]  # fmt: skip


@pytest.mark.parametrize(("made", "name", "values", "words"), IMPOSSIBLE)
def test_impossible_settings_are_refused_by_name(made, name, values, words):
    for value in values:
        with pytest.raises(UserError, match=f"^{words}"):
            made(**{name: value})


@pytest.mark.parametrize("tree", [TreeSettings(8, 2, 12), AUTO])
@pytest.mark.parametrize("wanted", [2, 3, 5, 100])
def test_no_tree_is_deeper_than_what_fits_or_is_still_wanted(tree, wanted):
    target = tiny_target(max_position_embeddings=40)
    for event in traced(target, "moa-n3", [1] * 30, max_new_tokens=wanted, tree=tree).of(Drafted):
        depth = max(event.tree.depths)
        assert event.position + depth < 40
        assert not tree.auto or depth <= max(28 + wanted - event.position, 1)
