"""Settings of Side by side and TLI into a link, and back."""

from types import SimpleNamespace
from urllib.parse import parse_qsl

import pytest

from demo.compare import tab as compare
from demo.engine import Engine
from demo.share import named
from demo.tli import tab as tli

COMPARED = {
    "methods": ["moa-n0", "vanilla"], "repeats": 2, "trees": "same", "length": 48,
    "temperature": 0.5, "seed": 3, "depth": 4, "breadth": 2, "budget": 9,
}  # fmt: skip


def request(query):
    return SimpleNamespace(query_params=dict(parse_qsl(query.removeprefix("?"))))


def unset(value):
    return isinstance(value, dict) and "value" not in value


def brought(engine, query):
    """(status, {name: value}) of an address of Side by side."""
    status, *values = compare.from_address(engine, named("compare", request(query)))
    return status, dict(zip(compare.LINKED, values, strict=True))


def test_a_comparison_comes_back_as_it_was(loads):
    status, query = compare.address("A & B", "fake", *COMPARED.values())
    assert status["kind"] == "done" and "prompt=A+%26+B" in query
    status, found = brought(Engine(), query)
    assert unset(status) and found == COMPARED


def test_a_tree_of_its_own_for_each_is_not_a_tree_for_all(loads):
    _, query = compare.address("A", "fake", *(COMPARED | {"trees": "own"}).values())
    assert "depth" not in query and "trees=own" in query


def test_an_address_of_a_comparison_says_what_it_cannot_use(loads):
    query = "?tab=compare&methods=moa-n1,moa-n7,magic&repeats=9&trees=tall&seed=4&target=x"
    status, found = brought(Engine(), query)
    for word in (
        "N = 7",
        "magic",
        "repeats must be a number from 1 to 5",
        "trees must be one of",
        "choose from moa-n0, moa-n1, ngram",
        "target must be fake",
    ):
        assert word in status["text"]
    assert ".;" not in status["text"] and status["text"].endswith("same.")
    assert (found["methods"], found["seed"]) == (["moa-n1"], 4)
    assert unset(found["repeats"]) and unset(found["trees"])
    assert all(unset(value) for value in brought(Engine(), "?tab=live&repeats=2")[1].values())


@pytest.mark.parametrize("auto", [True, False])
def test_a_sweep_comes_back_as_it_was(loads, auto):
    _, query = tli.address("A", 48, 3, "own", auto, "fake")
    status, *found = tli.from_address(Engine(), request(query))
    assert unset(status) and found == [48, 3, "own", auto]


def test_an_address_of_a_sweep_says_what_it_cannot_use(loads):
    query = "?tab=tli&tokens=400&trees=tall&repeats=2&n=9"
    status, *found = tli.from_address(Engine(), request(query))
    assert "there is no setting n, only" in status["text"]
    assert "from 8 to 256" in status["text"] and "trees must be" in status["text"]
    assert unset(found[0]) and found[1] == 2


def test_a_long_prompt_makes_no_link():
    for link in (
        compare.address("x" * 2000, "fake", *COMPARED.values()),
        tli.address("x" * 2000, 48, 1, "own", True, "fake"),
    ):
        assert link[1] == "" and "1,500 characters" in link[0]["text"]
