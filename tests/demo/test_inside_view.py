"""A trace in, one JSON object out: what the page is told about the insides of cycles."""

import json
import math

import pytest

from demo.inside.view import SHOWN, cycles_of, method_of, packed
from moa_core.decoding.trace import Drafted, Prefilled, Trace, Verified
from moa_core.decoding.tree import DraftTree
from moa_core.errors import UserError
from moa_core.text import record_words
from moa_core.train.tokenizer import train_tokenizer

WORDS = ["the", " cat", " sat", " ran", " down", "."]


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(iter(["the cat sat ran down."] * 3), 400)


@pytest.fixture
def ids(tokenizer):
    return {word: tokenizer.encode(word)[0] for word in WORDS}


@pytest.fixture
def trace(tokenizer, ids):
    """Two cycles below "the": { cat -> { sat, ran }, down }; the second one is cut at its end."""
    tree = DraftTree(
        tuple(ids[word] for word in WORDS[:5]), (-1, 0, 1, 1, 0), (0, 1, 2, 2, 1),
        (0.0, -0.1, -0.5, -1.0, -2.0),
    )  # fmt: skip
    end = tokenizer.eos_token_id
    choices = (ids[" cat"], ids[" sat"], end, ids["."], end)
    sure, drafts = (0.9, 0.8, 0.7, 0.6, 0.5), (1, 0.6, 0.3, 0.2, 0.00001)
    first = Verified(
        0, (1, 2), ids["the"], choices, sure, drafts,
        (ids[" cat"], ids[" sat"], ids["the"]), 0.02, 0.001,
    )  # fmt: skip
    last = Verified(1, (1, 2), end, choices, sure, drafts, (ids[" cat"],), 0.02, 0.001)
    prompt = Prefilled((ids["."], ids["."]), ids["the"], 0.5, 0.1)
    events = [prompt, Drafted(0, 2, tree, 0.01), first, Drafted(1, 5, tree, 0.01), last]
    made = Trace({"method": "moa-n1"}, events)
    record_words(made, tokenizer)
    return made


def test_columns_are_those_of_the_trace(trace):
    data = json.loads(packed(trace))
    first, last = data["cycles"]
    names = data["texts"]
    assert [names[place] for place in first["tokens"]] == WORDS[:5]
    assert first["parents"] == [-1, 0, 1, 1, 0] and first["path"] == [1, 2]
    assert [names[place] for place in first["choices"]][:2] == [" cat", " sat"]
    assert first["sure"] == [9000, 8000, 7000, 6000, 5000]
    assert first["target"] == [10000, 6000, 3000, 2000, 1]  # 0.001 % is not nothing
    logs = (0, -0.1, -0.5, -1, -2)
    assert first["reach"] == [round(10_000 * math.exp(value)) for value in logs]
    given_parent = (0, -0.1, -0.4, -0.9, -2)
    assert first["draft"] == [round(10_000 * math.exp(value)) for value in given_parent]
    assert names[first["bonus"]] == "the" and first["ms"] == [10, 20, 1]
    assert (first["at"], first["before"], first["emitted"]) == (2, 1, 3)
    assert (last["at"], last["before"], last["emitted"]) == (5, 4, 1)
    assert data["method"] == "MoA N=1"


def test_the_output_before_and_in_each_cycle_can_be_cut_from_its_pieces(trace):
    data = json.loads(packed(trace))
    assert "".join(data["output"]) == "the cat satthe cat"
    for cycle in data["cycles"]:
        root = data["output"][cycle["before"] - 1]
        assert root == data["texts"][cycle["tokens"][0]] == "the"
        kept = data["output"][cycle["before"] :][: cycle["emitted"]]
        whole = [*cycle["tokens"][1:3], cycle["bonus"]]
        assert kept == [data["texts"][place] for place in whole][: len(kept)]


def test_special_tokens_are_named(trace):
    data = json.loads(packed(trace))
    [special] = data["special"]
    assert data["texts"][special] == "<|end|>"


def test_only_the_prompts_end_is_sent(trace):
    trace.about["words"]["prompt"] = "a" * 5_000 + "end"
    data = json.loads(packed(trace))
    assert len(data["prompt"]) == SHOWN and data["prompt"].endswith("end")


def test_a_draft_that_was_never_verified_is_left_out(trace):
    trace.events.pop()
    assert len(cycles_of(trace)) == len(json.loads(packed(trace))["cycles"]) == 1


def test_a_long_run_of_large_trees_stays_small(tokenizer, ids):
    count = 65
    tree = DraftTree(
        tuple(ids[WORDS[node % 6]] for node in range(count)),
        (-1, *(node // 2 for node in range(count - 1))),
        (0,) * count,
        tuple(-0.123456789 * node for node in range(count)),
    )
    events = [Prefilled((1,) * 100, ids["the"], 0.5, 0.1)]
    for cycle in range(170):
        probs = (0.123456789,) * count
        found = Verified(
            cycle, (1, 3), ids["."], (ids["the"],) * count, probs, probs, (ids["."],) * 3, 0.02, 0.0
        )
        events += [Drafted(cycle, 100 + 3 * cycle, tree, 0.01), found]
    trace = Trace({}, events)
    record_words(trace, tokenizer)
    assert len(packed(trace)) < 400_000


def test_a_trace_without_words_gets_a_sentence(trace):
    del trace.about["words"]
    with pytest.raises(UserError, match="not their text"):
        packed(trace)


@pytest.mark.parametrize(
    "damage",
    [
        {"path": (2,)},  # not a path from the root
        {"path": (1, 9)},
        {"choices": (3,)},
        {"draft_probs": ()},
    ],
)
def test_a_damaged_trace_gets_a_sentence(trace, damage):
    text = json.loads(trace.to_json())
    text["events"][2] |= {name: list(value) for name, value in damage.items()}
    with pytest.raises(UserError, match="damaged: its cycle 1"):
        packed(Trace.from_json(json.dumps(text)))


@pytest.mark.parametrize("parents", [[-1, 0, 1, 1, 4], [-1, 2, 1, 1, 0], [0, 0, 1, 1, 0], []])
def test_parents_that_make_no_tree_get_a_sentence(trace, parents):
    text = json.loads(trace.to_json())
    text["events"][1]["tree"]["parents"] = parents
    with pytest.raises(UserError, match="damaged"):
        packed(Trace.from_json(json.dumps(text)))


@pytest.mark.parametrize("value", ["x", None, float("nan"), 1e9])
def test_numbers_that_are_none_get_a_sentence(trace, value):
    text = json.loads(trace.to_json())
    text["events"][1]["tree"]["log_probs"][2] = value  # 1e9 is beyond what exp can hold
    text["events"][1]["seconds"] = value
    with pytest.raises(UserError, match="damaged"):
        packed(Trace.from_json(json.dumps(text)))


def test_a_trace_of_the_command_line_names_its_drafter():
    assert method_of(Trace({"drafter": "moa-n2"})) == "moa-n2"
    assert method_of(Trace({"drafter": "given", "method": "eagle2"})) == "eagle2"
