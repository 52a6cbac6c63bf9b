"""Choices, presets and addresses become settings of the Live tab."""

from types import SimpleNamespace

import pytest

from demo.engine import Engine
from demo.live import tab as live
from demo.live.settings import choose, from_address, link, preset, sized, speed, teaching
from demo.ui import TABS

NAMES = [
    "prompt", "method", "tli", "auto_tree", "depth", "breadth", "budget", "tokens", "pace",
]  # fmt: skip

IDS = [tab.ID for tab in TABS]


@pytest.fixture
def engine(loads):
    return Engine()


def address(engine, **query):
    status, _, *values = from_address(engine, IDS, NAMES, SimpleNamespace(query_params=query))
    return status, dict(zip(NAMES, values, strict=True))


def unset(value):
    return isinstance(value, dict) and value.get("__type__") == "update" and "value" not in value


def test_a_choice_brings_its_measured_tree(engine):
    slider, stops, *tree = choose(engine, "", "moa", 1)
    assert slider["interactive"] and "chosen" in stops and tree == [3, 2, 6]
    slider, stops, *tree = choose(engine, "", "vanilla", 1)
    assert not slider["interactive"] and tree == [5, 4, 12]


def test_an_address_sets_method_n_tree_and_what_it_names(engine):
    status, found = address(engine, method="moa-n1", prompt="Hi", depth="2", tab="live")
    assert unset(status) and unset(found["pace"]) and unset(found["tokens"])
    assert (found["prompt"], found["method"], found["tli"]["value"]) == ("Hi", "moa", 1)
    assert (found["depth"], found["breadth"], found["budget"]) == (2, 2, 6)
    assert found["auto_tree"] is False  # as links had it before there was such a setting


def test_an_address_says_whether_trees_are_sized_automatically(engine):
    for query, expected in (({"auto_tree": "1", "depth": "2"}, True), ({"auto_tree": "0"}, False)):
        assert address(engine, **query)[1]["auto_tree"] is expected
    assert unset(address(engine, method="moa-n1")[1]["auto_tree"])
    assert [update["interactive"] for update in sized(True)] == [False] * 3
    assert [update["interactive"] for update in sized(False)] == [True] * 3


def test_an_address_without_settings_changes_nothing(engine):
    status, found = address(engine, tab="live")
    assert unset(status) and all(unset(value) for value in found.values())


def test_an_address_of_another_tab_is_not_lives(engine):
    status, found = address(engine, tab="compare", method="moa-n7", tokens="20")
    assert unset(status) and all(unset(value) for value in found.values())
    _, found = address(engine, tokens="20")  # a bare one opens Live
    assert found["tokens"] == 20


def test_what_an_address_cannot_set_is_said(engine):
    status, found = address(engine, method="moa-n7", pace="warp", tokens="x", prompt="Hi")
    for word in ("N = 7", "pace must be one of", "tokens must be a number"):
        assert word in status["text"]
    assert found["prompt"] == "Hi" and unset(found["method"]) and unset(found["pace"])


def test_an_address_names_a_tab_a_target_and_methods_that_there_are(engine):
    status, found = address(engine, tab="nowhere", target="x", method="gpt9", tokens="20")
    assert status["text"].startswith(
        "Not all of the address could be used: tab must be one of live, compare, "
    )
    assert "target must be fake;" in status["text"]
    assert "no gpt9 drafter for this target: choose from moa-n0, moa-n1, " in status["text"]
    assert found["tokens"] == 20
    assert unset(address(engine, target="fake")[0])


def test_presets_take_what_there_is(engine):
    status, kind, tli, _, *tree, auto, tokens, pace = preset(engine, teaching, "")
    assert (kind, tli["value"], tree, tokens, pace) == ("moa", 1, [3, 2, 6], 64, "slow")
    assert auto and status["text"].startswith("Set: MoA N=1 with trees sized automatically, at ")
    assert "at most 64 new tokens, slow motion. Press Run" in status["text"]
    _, kind, tli, *_, tokens, pace = preset(engine, speed, "")
    assert (kind, tli["value"], tokens, pace) == ("moa", 0, 256, "full")


def test_a_link_carries_the_settings_and_refuses_long_prompts():
    names = ["prompt", "method", "tli", "tokens"]
    status, query = link(live.ID, names, "tiny", "A & B", "moa", 2, 9)
    assert query == "?tab=live&target=tiny&method=moa-n2&prompt=A+%26+B&tokens=9"
    assert status["kind"] == "done"
    _, query = link(live.ID, [*names, "auto_tree"], "tiny", "A", "moa", 2, 9, True)
    assert query.endswith("tokens=9&auto_tree=1")
    status, query = link(live.ID, names, "tiny", "x" * 2000, "moa", 2, 9)
    assert query == "" and "1,500 characters" in status["text"]
