"""A trace tells what happened, survives a file, and takes no other file for a trace."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Drafted, Finished, Prefilled, Trace, Verified
from moa_core.decoding.tree import TreeSettings
from moa_core.decoding.verify import Sampling
from moa_core.drafters.base import Vanilla
from moa_core.errors import UserError
from tests.models import tiny_target, useful

METRICS = (
    "output_ids", "accepted_lengths", "target_calls", "tau", "reason", "seconds",
    "tokens_per_second", "decode_tokens_per_second",
)  # fmt: skip


def recorded(**settings: Any) -> Trace:
    target = tiny_target()
    trace = Trace(about={"target": "tiny", "settings": {"tree": [1, 2], "τ": None}})
    run = decode(target, useful("moa-n1", target), [5, 9, 2], Settings(20, **settings))
    for _ in trace.record(run):
        pass
    return trace


@pytest.mark.parametrize(
    "settings", [{}, {"sampling": Sampling(0.9, 0.9, 10)}, {"tree": TreeSettings(1, 1, 1)}]
)
def test_a_trace_comes_back_from_its_file_unchanged(settings: dict[str, Any]) -> None:
    trace = recorded(**settings)
    back = Trace.from_json(trace.to_json())
    assert back == trace
    for name in METRICS:
        assert getattr(back, name) == getattr(trace, name)


def test_an_unfinished_trace_comes_back_too() -> None:
    trace = recorded()
    trace.events = trace.events[:4]
    back = Trace.from_json(trace.to_json())
    assert back == trace and back.reason is None
    assert back.seconds["draft"] == sum(event.seconds for event in trace.of(Drafted)) > 0


def test_metrics_are_counted_from_the_events() -> None:
    events = [
        Prefilled((1, 2), 7, 0.5, 1.0),
        Verified(0, (1, 3), 5, (), (), (), (8, 9, 5), 0.5, 0.0),
        Verified(1, (), 4, (), (), (), (4,), 0.5, 0.0),
        Verified(2, (1, 2, 3), 6, (), (), (), (3,), 0.5, 0.0),  # cut
        Finished("length", {"prefill": 1.0, "draft": 0.5, "verify": 1.5, "other": 0.5}),
    ]
    trace = Trace(events=events)
    assert trace.output_ids == [7, 8, 9, 5, 4, 3]
    assert trace.accepted_lengths == [3, 1, 4]  # the last one uncut
    assert trace.tau == pytest.approx(8 / 3)
    assert trace.target_calls == 4
    assert trace.tokens_per_second == pytest.approx(6 / 3.5)
    assert trace.decode_tokens_per_second == pytest.approx(5 / 2.5)


def test_one_token_has_no_acceptance_length_and_no_speed_of_decoding() -> None:
    target = tiny_target()
    trace = Trace(events=list(decode(target, Vanilla(), [5], Settings(1))))
    assert (trace.tau, trace.decode_tokens_per_second, trace.target_calls) == (None, None, 1)
    assert Trace().tau is None and Trace().reason is None and Trace().output_ids == []


def drafted_of(data: dict[str, Any]) -> dict[str, Any]:
    return next(event for event in data["events"] if event["event"] == "Drafted")


CHANGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "version": lambda data: data.update(version=99),
    "no version": lambda data: data.pop("version"),
    "no events": lambda data: data.pop("events"),
    "no about": lambda data: data.pop("about"),
    "about no object": lambda data: data.update(about=[]),
    "no number in about": lambda data: data["about"].update(speed=float("nan")),
    "events no list": lambda data: data.update(events=7),
    "event no object": lambda data: data["events"].insert(0, "Prefilled"),
    "unknown event": lambda data: data["events"][0].update(event="Exploded"),
    "field missing": lambda data: drafted_of(data).pop("position"),
    "field too many": lambda data: drafted_of(data).update(colour="red"),
    "tree no object": lambda data: drafted_of(data).update(tree=[1, 2]),
    "tree column missing": lambda data: drafted_of(data)["tree"].pop("parents"),
    "tree column too many": lambda data: drafted_of(data)["tree"].update(colours=[]),
    "tree column no list": lambda data: drafted_of(data)["tree"].update(tokens=4),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_trace_with_something_wrong_is_refused(change: str) -> None:
    data = json.loads(recorded().to_json())
    assert Trace.from_json(json.dumps(data)).reason == "length"
    CHANGES[change](data)
    with pytest.raises(UserError, match="trace"):
        Trace.from_json(json.dumps(data))


def test_a_trace_from_before_n_was_kept_is_still_read() -> None:
    data = json.loads(recorded().to_json())
    for event in data["events"]:
        event.pop("tli", None)
    trace = Trace.from_json(json.dumps(data))
    assert trace.accepted_lengths and set(trace.choices) == {None}


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", "null", "3", '"trace"', "\x00", "[{}]", "[" * 100_000]
)
def test_other_files_are_no_traces(text: str) -> None:
    with pytest.raises(UserError) as refused:
        Trace.from_json(text)
    # In a sentence for people: not what the JSON parser, or Python, says of it.
    assert str(refused.value) == "This file is not a trace of this program."
