"""Inside a cycle: what the page is told of a trace, and attention from a real tiny drafter."""

import json
import math

import pytest
import torch

from demo.inside.attention import (
    EARLIER,
    MEAN,
    NEAR,
    layers_chart,
    look_inside,
    refusal,
    text_chart,
)
from demo.inside.view import SHOWN, cycles_of, method_of, packed
from moa_core.decoding.decode import Settings, about, decode
from moa_core.decoding.trace import Drafted, Prefilled, Trace, Verified
from moa_core.decoding.tree import DraftTree, TreeSettings
from moa_core.errors import UserError
from moa_core.model.attention import look
from moa_core.text import prompt_ids, record_words
from moa_core.train.tokenizer import train_tokenizer
from tests.models import speaking_target, useful, variant

WORDS = ["the", " cat", " sat", " ran", " down", "."]
PROMPT = "<b>Tell</b> me of the fox that ran home, and of the cat on its ${6*7} mats."


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(iter(["the cat sat ran down."] * 3), 400)


@pytest.fixture
def made(tokenizer):
    """Two cycles below "the": { cat -> { sat, ran }, down }; the second one is cut at its end."""
    ids, end = [tokenizer.encode(word)[0] for word in WORDS], tokenizer.eos_token_id
    the, cat, sat, *_, stop = ids
    tree = DraftTree(tuple(ids[:5]), (-1, 0, 1, 1, 0), (0, 1, 2, 2, 1), (0.0, -0.1, -0.5, -1.0, -2))
    choices, sure = (cat, sat, end, stop, end), (0.9, 0.8, 0.7, 0.6, 0.5)
    drafts = (1, 0.6, 0.3, 0.2, 0.00001)
    first = Verified(0, (1, 2), the, choices, sure, drafts, (cat, sat, the), 0.02, 0.001)
    last = Verified(1, (1, 2), end, choices, sure, drafts, (cat,), 0.02, 0.001)
    prompt = Prefilled((stop, stop), the, 0.5, 0.1)
    events = [prompt, Drafted(0, 2, tree, 0.01), first, Drafted(1, 5, tree, 0.01), last]
    trace = Trace({"method": "moa-n1"}, events)
    record_words(trace, tokenizer)
    return trace


def test_columns_are_those_of_the_trace_and_the_output_can_be_cut_from_its_pieces(made):
    data = json.loads(packed(made))
    (first, last), names = data["cycles"], data["texts"]
    assert [names[place] for place in first["tokens"]] == WORDS[:5]
    assert first["parents"] == [-1, 0, 1, 1, 0] and first["path"] == [1, 2]
    assert [names[place] for place in first["choices"]][:2] == [" cat", " sat"]
    assert first["sure"] == [9000, 8000, 7000, 6000, 5000]
    assert first["target"] == [10000, 6000, 3000, 2000, 1]  # 0.001 % is not nothing
    for column, logs in (("reach", (0, -0.1, -0.5, -1, -2)), ("draft", (0, -0.1, -0.4, -0.9, -2))):
        assert first[column] == [round(10_000 * math.exp(value)) for value in logs]
    assert names[first["bonus"]] == "the" and first["ms"] == [10, 20]
    places = [(one["at"], one["before"], one["emitted"]) for one in (first, last)]
    assert places == [(2, 1, 3), (5, 4, 1)] and data["method"] == "MoA N=1"
    assert [names[place] for place in data["special"]] == ["<|end|>"]
    assert "".join(data["output"]) == "the cat satthe cat"
    for cycle in data["cycles"]:
        assert data["output"][cycle["before"] - 1] == names[cycle["tokens"][0]] == "the"
        kept = data["output"][cycle["before"] :][: cycle["emitted"]]
        whole = [names[place] for place in (*cycle["tokens"][1:3], cycle["bonus"])]
        assert kept == whole[: len(kept)]


def test_only_what_is_shown_is_sent(made):
    made.about["words"]["prompt"] = "a" * 5_000 + "end"
    made.events.pop()  # a draft that was never verified
    data = json.loads(packed(made))
    assert len(data["prompt"]) == SHOWN and data["prompt"].endswith("end")
    assert len(cycles_of(made)) == len(data["cycles"]) == 1
    assert method_of(Trace({"drafter": "moa-n2"})) == "moa-n2"
    assert method_of(Trace({"drafter": "given", "method": "eagle2"})) == "eagle2"


def test_a_trace_without_words_gets_a_sentence(made):
    del made.about["words"]
    with pytest.raises(UserError, match="not their text"):
        packed(made)


# ---- attention ----


class FakeEngine:
    """One target, drafters by name, and no turns to wait for."""

    def __init__(self, target, drafters):
        self.installed, self.drafters = {f"/models/{target.name}": None}, drafters
        self.target = lambda name: target
        self.drafter = lambda method, name: drafters[method]
        self.methods = lambda name: list(drafters)
        self.turns, self.borrows = 0, False

    def in_turn(self, events):
        self.turns += 1
        return events


@pytest.fixture(scope="module")
def engine():
    target = speaking_target(layers=4)
    made = {method: useful(method, target) for method in ("moa-n0", "moa-n1")}
    return FakeEngine(target, {**made, "given": variant("without LSA", target)})


def trace_of(engine, method):
    target, drafter = engine.target(""), engine.drafters[method]
    settings = Settings(12, TreeSettings(3, 2, 6))
    trace = Trace({**about(target, drafter, settings), "method": method})
    trace.events += decode(target, drafter, prompt_ids(target.tokenizer, PROMPT), settings)
    return trace


@pytest.fixture(scope="module", params=["moa-n0", "moa-n1"])
def trace(engine, request):
    return trace_of(engine, request.param)


def test_the_numbers_are_those_of_the_text_before_the_cycle(engine, trace):
    before = engine.turns
    found, target = look_inside(engine, trace, 2), engine.target("")
    assert engine.turns == before + 1
    ids = [*prompt_ids(target.tokenizer, PROMPT), *trace.output_ids]
    ids = ids[: trace.of(Drafted)[2].position + 1]
    expected = look(target, engine.drafters[trace.about["method"]], ids)
    near, mean = found.layers[MEAN]
    torch.testing.assert_close(torch.tensor(near), expected.layers[-NEAR:].mean(1))
    torch.testing.assert_close(torch.tensor(mean), expected.layers.mean((0, 1)))
    second = torch.tensor(found.layers["head 2"][0])
    torch.testing.assert_close(second, expected.layers[-NEAR:, 1])
    listed = torch.tensor(found.text)[:, -len(found.tokens) :]
    torch.testing.assert_close(listed, expected.text[:, -NEAR:])
    assert found.known == len(ids) - 1
    assert "".join(found.tokens) == target.tokenizer.decode(ids[-1 - NEAR : -1])
    bars, heat = text_chart(found).data
    sums = [sum(bars.x), *map(sum, zip(*heat.z, strict=True))]
    for head in found.layers:
        bars, heat = layers_chart(found, head).data
        sums += [sum(bars.y), *map(sum, heat.z)]
    assert sums == pytest.approx([1] * len(sums), abs=1e-5)
    assert (
        next(iter(found.layers)) == MEAN and text_chart(found).layout.yaxis.ticktext[0] == EARLIER
    )


def test_a_drafter_without_lsa_has_ca_alone(engine):
    found = look_inside(engine, trace_of(engine, "given"), 0)
    assert layers_chart(found) is None and not found.layers and text_chart(found).data


def test_what_cannot_be_looked_into_gets_a_sentence(engine, trace):
    name = trace.about["target"]
    assert refusal(engine, trace) is None
    others = {
        "EAGLE-2; only MoA has LSA and CA": {"method": "eagle2", "target": name},
        "target far-away of this trace": {"method": "moa-n0", "target": "far-away"},
        "MoA N=3 of this trace": {"method": "moa-n3", "target": name},
    }
    for sentence, known in others.items():
        assert sentence in refusal(engine, Trace(known, trace.events))
        with pytest.raises(UserError, match=sentence.split(":")[0]):
            look_inside(engine, Trace(known, trace.events), 0)
    for cycle in (-1, 10_000):
        with pytest.raises(UserError, match="no such cycle"):
            look_inside(engine, trace, cycle)
