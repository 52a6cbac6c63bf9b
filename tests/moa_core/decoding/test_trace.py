"""A trace tells what happened, survives a file, and takes no other file for a trace."""

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from moa_core.decoding.decode import Settings, about, decode
from moa_core.decoding.trace import (
    Drafted,
    Finished,
    LinkBack,
    LinkDown,
    OfflineToken,
    Prefilled,
    Trace,
    Verified,
)
from moa_core.decoding.tree import DraftTree
from moa_core.decoding.verify import Sampling
from moa_core.drafters.base import Vanilla
from moa_core.errors import UserError
from tests.models import tiny_target, traced, worded_trace
from tests.mutations import mutated
from tests.properties import SEEDS, above, trees


def test_metrics_are_counted_from_the_events():
    events = [
        Prefilled((1, 2), 7, 0.5, 1.0),
        Verified(0, (1, 3), 5, (), (), (), (8, 9, 5), 0.5, 0.0),
        Verified(1, (), 4, (), (), (), (4,), 0.5, 0.0),
        Verified(2, (1, 2, 3), 6, (), (), (), (3,), 0.5, 0.0),  # cut
        Finished("length", {"prefill": 1.0, "draft": 0.5, "verify": 1.5, "other": 0.5}),
    ]
    trace = Trace(events=events)
    assert trace.output_ids == [7, 8, 9, 5, 4, 3]
    assert trace.accepted_lengths == [3, 1, 1]
    assert trace.tau == pytest.approx(5 / 3)  # as from 6 tokens in 4 calls
    assert trace.target_calls == 4
    assert trace.tokens_per_second == pytest.approx(6 / 3.5)
    assert trace.decode_tokens_per_second == pytest.approx(5 / 2.5)
    unfinished = Trace(events=events[:-1])
    assert unfinished.reason is None and sum(unfinished.seconds.values()) == 2.5
    for seconds in (0.0, 1e-320, -1.0):  # found by fuzzing: an endless speed is no JSON
        ended = Finished("length", {"draft": seconds})
        assert Trace(events=[*events[:-1], ended]).tokens_per_second is None
    # One token has no acceptance length and no speed of decoding.
    trace = traced(tiny_target(), "vanilla", [5], max_new_tokens=1)
    assert (trace.tau, trace.decode_tokens_per_second, trace.target_calls) == (None, None, 1)
    assert Trace().tau is None and Trace().reason is None and Trace().output_ids == []


GONE = "(gone)"
TREE = {"tokens": [1, 2], "parents": [-1, 0], "depths": [0, 1], "log_probs": [0, 0]}
WRONG: list[tuple[tuple[str | int, ...], Any]] = [  # where, and what is there instead
    (("version",), 99), (("version",), GONE), (("about",), GONE), (("about",), []),
    (("about", "speed"), float("nan")), (("events",), GONE), (("events",), 7),
    (("events", 0), "Prefilled"), (("events", 0, "event"), "Exploded"),
    (("events", 1, "position"), GONE), (("events", 1, "colour"), "red"),
    *((("events", 1, "tree"), tree) for tree in (
        [1, 2], {**TREE, "colours": []}, {**TREE, "tokens": 4}, {"tokens": [1, 2]},
        # A node below itself has no end, and a draft of e to the 1e9 no number.
        {**TREE, "parents": [0, 0]}, {**TREE, "parents": [-1, 1]}, {**TREE, "parents": [-1]},
        {**TREE, "depths": [0, 2]}, {**TREE, "depths": [1, 2]},
        {**TREE, "log_probs": [0, 1e9]}, {**TREE, "log_probs": [0]},
    )),
    *((("events", 1, "seconds"), value) for value in (1e300, -1e300, 10**400, True, "1", None)),
    *((("events", 0, "token"), value) for value in (-1, 2**53 + 1, 1.0, True, "1", None)),
]  # fmt: skip


@pytest.mark.parametrize(("place", "value"), WRONG, ids=lambda one: str(one)[:40])
def test_a_trace_with_something_wrong_is_refused(place, value):
    data = json.loads(worded_trace())
    drafted, verified = data["events"][1:3]
    drafted["tree"] = dict(TREE)
    verified |= {"path": [], "emitted": [1]}
    verified |= {name: [1, 1] for name in ("choices", "choice_probs", "draft_probs")}
    assert Trace.from_json(json.dumps(data)).reason == "length"
    *way, last = place
    holder = data
    for key in way:
        holder = holder[key]
    holder[last] = value
    if value == GONE:
        del holder[last]
    with pytest.raises(UserError, match=r"trace|damaged"):
        Trace.from_json(json.dumps(data))


def test_a_trace_from_before_n_was_kept_is_still_read():
    data = json.loads(worded_trace())
    for event in data["events"]:
        event.pop("tli", None)
    trace = Trace.from_json(json.dumps(data))
    assert {event.tli for event in trace.of(Drafted)} == {None}


WHOLE, SECONDS, PROBS = st.integers(0, 2**53), st.floats(0, 1e6), st.floats(0, 1)
SAID = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | PROBS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def cycles(draw: st.DrawFn) -> list[Any]:
    """A tree, and a verification that keeps one of its paths."""
    tree: DraftTree = draw(trees(8))
    number, path = draw(WHOLE), tuple(above(tree, draw(st.integers(0, len(tree) - 1))))
    ids, probs = (st.tuples(*[kind] * len(tree)) for kind in (WHOLE, PROBS))
    return [
        Drafted(number, draw(WHOLE), tree, draw(SECONDS), draw(st.none() | st.integers(0, 3))),
        Verified(
            number, path, draw(WHOLE), draw(ids), draw(probs), draw(probs),
            tuple(draw(st.lists(WHOLE, max_size=len(path) + 1))), draw(SECONDS), draw(SECONDS),
        ),
    ]  # fmt: skip


LOST = st.tuples(
    st.builds(LinkDown, SECONDS), st.builds(OfflineToken, WHOLE, WHOLE, PROBS, SECONDS),
    st.builds(LinkBack, SECONDS, WHOLE),
).map(list)  # fmt: skip
SPENT = st.dictionaries(st.sampled_from(["draft", "other"]), SECONDS)
PREFILLS = st.builds(Prefilled, st.lists(WHOLE, max_size=5).map(tuple), WHOLE, PROBS, SECONDS)
TRACES = st.builds(
    lambda said, first, parts, end: Trace(
        said, [*first, *(event for part in parts for event in part), *end]
    ),
    st.dictionaries(st.text(), SAID, max_size=4),
    st.lists(PREFILLS, max_size=1),
    st.lists(cycles() | LOST, max_size=4),
    st.lists(st.builds(Finished, st.text(), SPENT), max_size=1),
)


@given(TRACES)
def test_a_trace_comes_back_as_it_went(trace):
    assert Trace.from_json(trace.to_json()) == trace


def test_numbers_of_numpy_are_saved_as_any_others():
    target, drafter, trace = tiny_target(), Vanilla(), Trace()
    settings = Settings(3, sampling=Sampling(np.float32(0.5)))
    trace.about |= about(target, drafter, settings)
    trace.events += decode(target, drafter, np.array([5, 9]), settings)
    assert Trace.from_json(trace.to_json()).events == trace.events


def read(text: str) -> Trace | None:
    try:
        return Trace.from_json(text)
    except UserError as refused:
        assert "\n" not in str(refused) and len(str(refused)) < 200
        return None


@given(SEEDS)
def test_a_trace_with_other_values_in_it_is_refused_or_is_one(seed):
    trace = read(json.dumps(mutated(json.loads(worded_trace()), seed)))
    if trace is not None:
        assert Trace.from_json(trace.to_json()) == trace
        assert all(
            0 <= parent < node
            for drafted, _ in trace.cycles
            for node, parent in enumerate(drafted.tree.parents)
            if node
        )
        trace.to_json().encode()  # nothing in it that cannot be sent


@given(st.text())
@example(worded_trace()[:-1])
@example("[" * 100_000)
@example('{"version": 1, "about": ' + "[" * 500 + "]" * 500 + ', "events": []}')
@example('{"version": 1, "about": {}, "events": [' + '{"event":' * 900 + "1" + "}" * 900 + "]}")
@example('{"version": ' + "9" * 5000 + "}")
def test_any_other_text_is_refused(text):
    assert read(text) is None


def test_text_that_cannot_be_sent_is_made_sendable():
    data = json.loads(worded_trace())
    data["about"]["words"]["output"][0] = data["about"]["\ud800"] = "a\ud800b"
    trace = Trace.from_json(json.dumps(data))
    assert trace.about["words"]["output"][0] == trace.about["?"] == "a?b"
    assert json.loads(Trace({"prompt": "\udcff"}).to_json())["about"] == {"prompt": "?"}
