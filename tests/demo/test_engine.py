"""Loading once, refusing in sentences, and taking turns. No weights."""

import pytest

import demo.engine as module
from demo.engine import MOST_NEW_TOKENS, Engine, Request
from moa_core.errors import UserError
from moa_core.loading.catalog import DrafterInfo
from tests.demo.conftest import PROMPT, TREE, WITHOUT_FILES


def test_models_are_loaded_once_when_wanted_and_told_the_tree_and_every_eos(loads):
    engine = Engine()
    assert engine.stops() == [0, 1] and loads == []
    for _ in range(2):
        run = engine.prepare(Request(PROMPT, "moa-n1", tree=TREE))
        list(run.events)
    assert [item for item in loads if not hasattr(item, "tree")] == ["fake", "moa-n1"]
    assert loads[-1].tree == TREE and loads[-1].eos_ids == (5, 7)
    about = run.trace.about
    assert (about["target"], about["drafter"], about["method"]) == ("fake", "vanilla", "moa-n1")
    assert about["settings"]["tree"]["budget"] == 6 and about["machine"]["device"] == "cpu"


@pytest.mark.parametrize(
    ("request_", "word"),
    [
        (Request("  ", "moa-n1"), "empty"),
        (Request("a" * 100_000, "moa-n1"), "100,000"),
        (Request("a b " * 4_000, "moa-n1"), "Shorten"),
        (Request(PROMPT, "moa-n2"), "N = 2"),
        (Request(PROMPT, "magic"), "no magic drafter"),
        (Request(PROMPT, "vanilla", target="giant"), "no target 'giant'"),
        (Request(PROMPT, "vanilla", MOST_NEW_TOKENS + 1), str(MOST_NEW_TOKENS)),
        (Request(PROMPT, "vanilla", 0), "at least 1"),
    ],
)
def test_what_cannot_be_done_is_refused_in_one_sentence(loads, request_, word):
    with pytest.raises(UserError, match=word) as caught:
        Engine().prepare(request_)
    assert "\n" not in str(caught.value)


def fail(*_, **how):
    raise UserError("There is no bundled target.")


@pytest.mark.parametrize("loader", ["load_target", "load_method"])
def test_what_failed_to_load_is_told_to_every_run_and_tried_again(loads, monkeypatch, loader):
    engine = Engine()
    with monkeypatch.context() as patched:
        patched.setattr(module, loader, fail)
        for _ in range(2):
            with pytest.raises(UserError, match="no bundled target"):
                engine.prepare(Request(PROMPT, "moa-n1"))
        assert engine.ready()
    assert engine.drafter("moa-n1") is engine.drafter("moa-n1")


def test_a_damaged_bundle_leaves_vanilla(loads, monkeypatch):
    monkeypatch.setattr(module, "bundle", fail)
    assert Engine().methods() == WITHOUT_FILES


def test_a_named_drafter_takes_the_bundled_ones_place(loads):
    engine = Engine(drafters={"given": DrafterInfo("someone/head", "given", 0, TREE)})
    assert engine.methods() == ["given", *WITHOUT_FILES]
    assert engine.default() == "given"
    list(engine.prepare(Request(PROMPT, "given")).events)
    assert "someone/head" in loads
