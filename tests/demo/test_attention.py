"""Attention at a cycle of a trace, from a real drafter on a tiny random target."""

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
    words,
)
from moa_core.decoding.decode import Settings, about, decode
from moa_core.decoding.trace import Drafted, Trace
from moa_core.decoding.tree import TreeSettings
from moa_core.errors import UserError
from moa_core.model.attention import look
from moa_core.text import prompt_ids
from moa_core.train.fresh import fresh
from tests.models import speaking_target, useful

PROMPT = "<b>Tell</b> me of the fox that ran home, and of the cat on its ${6*7} mats."


class FakeEngine:
    """One target, drafters by name, and no turns to wait for."""

    def __init__(self, target, drafters):
        self.installed = {f"/models/{target.name}": None}
        self.drafters = drafters
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
    return FakeEngine(target, {**made, "given": fresh("moa-no-lsa", target, 0)})


def trace_of(engine, method):
    target, drafter = engine.target(""), engine.drafters[method]
    settings = Settings(12, TreeSettings(3, 2, 6))
    trace = Trace({**about(target, drafter, settings), "method": method})
    for _ in trace.record(decode(target, drafter, prompt_ids(target.tokenizer, PROMPT), settings)):
        pass
    return trace


@pytest.fixture(scope="module", params=["moa-n0", "moa-n1"])
def trace(engine, request):
    return trace_of(engine, request.param)


def test_the_numbers_are_those_of_the_text_before_the_cycle(engine, trace):
    cycle = 2
    found = look_inside(engine, trace, cycle)
    target = engine.target("")
    prompt = prompt_ids(target.tokenizer, PROMPT)
    ids = [*prompt, *trace.output_ids][: trace.of(Drafted)[cycle].position + 1]
    expected = look(target, engine.drafters[trace.about["method"]], ids)
    near, mean = found.layers[MEAN]
    torch.testing.assert_close(torch.tensor(near), expected.layers[-NEAR:].mean(1))
    torch.testing.assert_close(torch.tensor(mean), expected.layers.mean((0, 1)))
    second = torch.tensor(found.layers["head 2"][0])
    torch.testing.assert_close(second, expected.layers[-NEAR:, 1])
    listed = torch.tensor(found.text)[:, -len(found.tokens) :]
    torch.testing.assert_close(listed, expected.text[:, -NEAR:])
    assert found.known == len(ids) - 1 and found.root == target.tokenizer.decode([ids[-1]])
    assert "".join(found.tokens) == target.tokenizer.decode(ids[-1 - NEAR : -1])


def test_whatever_is_shown_sums_to_one(engine, trace):
    found = look_inside(engine, trace, 1)
    first, *heads = found.layers
    assert first == MEAN and len(heads) > 1
    for head in found.layers:
        for row in layers_chart(found, head).data[1].z:
            assert sum(row) == pytest.approx(1, abs=1e-5)
        assert sum(layers_chart(found, head).data[0].y) == pytest.approx(1, abs=1e-5)
    bars, heat = text_chart(found).data
    assert sum(bars.x) == pytest.approx(1, abs=1e-5)
    for column in zip(*heat.z, strict=True):
        assert sum(column) == pytest.approx(1, abs=1e-5)
    assert text_chart(found).layout.yaxis.ticktext[0] == EARLIER


def test_words_say_what_is_reused_and_hold_no_markup_of_the_text(engine, trace):
    found = look_inside(engine, trace, 0)
    said = words(found)
    depth = {"moa-n0": "N = 0: no target layer", "moa-n1": "of the target’s 4 layers layer 4 is"}
    assert depth[trace.about["method"]] in said
    assert "The memory is its last row." in said  # how fresh drafters pool
    assert "<b>" not in said


def test_the_mean_of_rows_is_called_that(engine):
    target = engine.target("")
    paper = FakeEngine(target, {"given": fresh("moa-mean-lsa", target, 0)})
    found = look_inside(paper, trace_of(paper, "given"), 0)
    assert "the mean of its rows, one per layer" in words(found)


def test_a_drafter_without_lsa_has_one_chart_only(engine):
    found = look_inside(engine, trace_of(engine, "given"), 0)
    assert layers_chart(found) is None and not found.layers and text_chart(found).data
    assert "has no LSA" in words(found)


def test_looking_waits_for_its_turn(engine, trace):
    before = engine.turns
    look_inside(engine, trace, 0)
    assert engine.turns == before + 1


def test_what_cannot_be_looked_into_gets_a_sentence(engine, trace):
    name = trace.about["target"]
    assert refusal(engine, trace) is None
    others = {
        "EAGLE-2: LSA and CA are parts of MoA": {"method": "eagle2", "target": name},
        "target far-away of this trace": {"method": "moa-n0", "target": "far-away"},
        "MoA N=3 of this trace": {"method": "moa-n3", "target": name},
    }
    for sentence, known in others.items():
        other = Trace(known, trace.events)
        assert sentence in refusal(engine, other)
        with pytest.raises(UserError, match=sentence.split(":")[0]):
            look_inside(engine, other, 0)


@pytest.mark.parametrize("cycle", [-1, 10_000])
def test_a_cycle_that_is_not_there_gets_a_sentence(engine, trace, cycle):
    with pytest.raises(UserError, match="no such cycle"):
        look_inside(engine, trace, cycle)
