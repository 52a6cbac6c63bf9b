"""Traces of anybody's: they come back as they went, and a changed one is a sentence or a trace."""

import json
from functools import cache
from typing import Any

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
from moa_core.decoding.tree import DraftTree, TreeSettings
from moa_core.errors import UserError
from moa_core.text import record_words
from tests.models import speaking_target, useful
from tests.mutations import mutated
from tests.properties import SEEDS, above, trees

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
    ids = st.lists(WHOLE, min_size=len(tree), max_size=len(tree)).map(tuple)
    probs = st.lists(PROBS, min_size=len(tree), max_size=len(tree)).map(tuple)
    return [
        Drafted(number, draw(WHOLE), tree, draw(SECONDS), draw(st.none() | st.integers(0, 3))),
        Verified(
            number, path, draw(WHOLE), draw(ids), draw(probs), draw(probs),
            tuple(draw(st.lists(WHOLE, max_size=len(path) + 1))), draw(SECONDS), draw(SECONDS),
            kept=draw(st.booleans()),
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
def test_a_trace_comes_back_as_it_went(trace: Trace) -> None:
    assert Trace.from_json(trace.to_json()) == trace


@cache
def good() -> str:
    """A run of a tiny model, with its words."""
    target = speaking_target()
    drafter, settings = useful("moa-n1", target), Settings(9, TreeSettings(2, 2, 4))
    trace = Trace(about(target, drafter, settings))
    trace.events += decode(target, drafter, [5, 9, 2], settings)
    record_words(trace, target.tokenizer)
    return trace.to_json()


def read(text: str) -> Trace | None:
    """The trace, if the file is one; else it was refused in one sentence."""
    try:
        return Trace.from_json(text)
    except UserError as refused:
        assert "\n" not in str(refused) and len(str(refused)) < 200
        return None


@given(SEEDS)
def test_a_trace_with_other_values_in_it_is_refused_or_is_one(seed: int) -> None:
    trace = read(json.dumps(mutated(json.loads(good()), seed)))
    if trace is not None:
        assert Trace.from_json(trace.to_json()) == trace
        assert all(
            0 <= parent < node
            for drafted, _ in trace.cycles
            for node, parent in enumerate(drafted.tree.parents)
            if node
        )
        trace.to_json().encode()  # nothing in it that cannot be sent


@given(st.data())
def test_a_trace_cut_or_with_other_bytes_in_it_is_refused_or_is_one(data: st.DataObject) -> None:
    whole = good()
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, len(whole)))
    read(whole[:start] + data.draw(st.text(max_size=4)) + whole[end:])


@given(st.text())
@example("[" * 100_000)
@example('{"version": 1, "about": ' + "[" * 500 + "]" * 500 + ', "events": []}')
@example('{"version": 1, "about": {}, "events": [' + '{"event":' * 900 + "1" + "}" * 900 + "]}")
@example('{"version": ' + "9" * 5000 + "}")
def test_any_other_text_is_refused(text: str) -> None:
    assert read(text) is None


@pytest.mark.parametrize(
    ("parents", "log_probs"),
    [([0, 0], [0, 0]), ([-1, 1], [0, 0]), ([-1, 0], [0, 1e9]), ([-1, 0], [0]), ([-1], [0])],
)
def test_a_tree_that_would_hang_the_page_is_refused(parents: list, log_probs: list) -> None:
    """A node below itself has no end, and a draft of e to the 1e9 no number."""
    data = json.loads(good())
    drafted, verified = data["events"][1:3]
    drafted["tree"] |= {"tokens": [1, 2], "depths": [0, 1]}
    drafted["tree"] |= {"parents": parents, "log_probs": log_probs}
    verified |= {"path": [], "emitted": [1]}
    verified |= {name: [1, 1] for name in ("choices", "choice_probs", "draft_probs")}
    with pytest.raises(UserError, match="damaged"):
        Trace.from_json(json.dumps(data))


def test_text_that_cannot_be_sent_is_made_good() -> None:
    data = json.loads(good())
    data["about"]["words"]["output"][0] = data["about"]["\ud800"] = "a\ud800b"
    trace = Trace.from_json(json.dumps(data))
    assert trace.about["words"]["output"][0] == trace.about["?"] == "a?b"
    assert json.loads(Trace({"prompt": "\udcff"}).to_json())["about"] == {"prompt": "?"}


@pytest.mark.parametrize("seconds", [0.0, 1e-320, -1.0])
def test_a_speed_of_no_time_is_none(seconds: float) -> None:
    """Found by fuzzing: a run of 1e-320 seconds had an endless speed, which is no JSON."""
    data = json.loads(good())
    data["events"][-1]["seconds"] = {"draft": seconds}
    assert Trace.from_json(json.dumps(data)).tokens_per_second is None


@pytest.mark.parametrize(
    ("event", "key", "value"),
    [
        *((1, "seconds", value) for value in (1e300, -1e300, 10**400, True, "1", None)),
        *((0, "token", value) for value in (-1, 2**53 + 1, 1.0, True, "1", None)),
    ],
)
def test_a_time_or_a_token_that_cannot_be_is_refused(event: int, key: str, value: object) -> None:
    data = json.loads(good())
    data["events"][event][key] = value
    with pytest.raises(UserError, match="damaged"):
        Trace.from_json(json.dumps(data))
