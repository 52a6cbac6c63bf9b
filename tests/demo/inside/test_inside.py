"""Inside a cycle: attention from a real tiny drafter."""

import pytest
import torch

from demo.inside.attention import (
    NEAR,
    Look,
    layers_chart,
    look_inside,
    own_words,
    refusal,
    takeaway,
    text_chart,
)
from demo.inside.tab import look as look_at
from moa_core.decoding.trace import Drafted, Trace
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.attention import look
from moa_core.errors import UserError
from moa_core.text import prompt_ids
from tests.models import speaking_target, traced, useful, variant

PROMPT = "<b>Tell</b> me of the fox that ran home, and of the cat on its ${6*7} mats."


class FakeEngine:
    """One target, drafters by name, and no turns to wait for."""

    def __init__(self, target, drafters):
        self.installed, self.drafters = {f"/models/{target.name}": None}, drafters
        self.target = lambda name: target
        self.drafter = lambda method, name: drafters[method]
        self.methods = lambda name: list(drafters)
        self.turns, self.borrows, self.worker = 0, False, self

    def run(self, events):
        self.turns += 1
        return events


@pytest.fixture(scope="module")
def engine():
    target = speaking_target(layers=4)
    made = {method: useful(method, target) for method in ("moa-n0", "moa-n1")}
    return FakeEngine(target, {**made, "given": variant("without LSA", target)})


def trace_of(engine, method):
    target, drafter = engine.target(""), engine.drafters[method]
    ids, tree = prompt_ids(target.tokenizer, PROMPT), TreeSettings(3, 2, 6)
    trace = traced(target, drafter, ids, max_new_tokens=12, tree=tree)
    trace.about |= {"target": target.name, "method": method, "prompt": PROMPT}
    return trace


@pytest.fixture(scope="module", params=["moa-n0", "moa-n1"])
def trace(engine, request):
    return trace_of(engine, request.param)


def test_the_numbers_are_those_of_the_text_before_the_cycle(engine, trace):
    turns = engine.turns
    found, target = look_inside(engine, trace, 2), engine.target("")
    assert engine.turns == turns + 1
    ids = [*prompt_ids(target.tokenizer, PROMPT), *trace.output_ids]
    ids = ids[: trace.of(Drafted)[2].position + 1]
    expected = look(target, engine.drafters[trace.about["method"]], ids)
    near, mean = found.layers
    texts = [target.tokenizer.decode([token]) for token in ids[:-1]]
    own = [at for at, text in enumerate(texts) if not text.startswith("<|")][-NEAR:]
    rest = sorted({*range(len(texts))} - {*own})  # the chat template's, and earlier ones
    assert rest[-1] > own[0]
    listed = torch.tensor(found.text)[:, -NEAR:]
    for one, other in (
        (torch.tensor(near), expected.layers[own].mean(1)),
        (torch.tensor(mean), expected.layers.mean((0, 1))),
        (listed, expected.text[:, own]),
    ):
        torch.testing.assert_close(one, other)
    before, *newest = found.tokens
    assert newest == [texts[at] for at in own] and found.root == target.tokenizer.decode(ids[-1:])
    bars, heat = text_chart(found).data
    sums = [sum(bars.x), *map(sum, zip(*heat.z, strict=True))]
    assert sums == pytest.approx([1] * len(sums), abs=1e-5)
    together, *single = text_chart(found).layout.yaxis.ticktext
    assert together == f"{len(rest) - 1}\u00a0others" and len(single) == NEAR + 1
    most = rest[expected.text[:, rest].mean(0).argmax()]
    assert before == texts[most]
    assert [row[1] for row in found.text] == pytest.approx(expected.text[:, most].tolist())
    said, layer = takeaway(found), max(range(len(mean)), key=mean.__getitem__)
    assert f"most at layer {layer + 1} of 4 and, of single tokens, at “" in said
    last = f"The last layer, the only one that EAGLE-2 sees, gets {mean[-1]:.0%}; "
    assert f"{last}layer {layer + 1} {mean[layer]:.0%}; an even share is 25%. " in said
    assert "Cycle 3: to guess what follows “" in said
    assert "<b>" not in said


def test_tokens_of_one_text_are_named_once():
    found = Look(0, "a", ["\n", "b", "\n", "c"], None, None, [[0.3, 0.32, 0.28, 0.1]], 0)
    assert "most at “b” and “↵”.</p>" in takeaway(found)


def test_without_the_visitors_prompt_every_token_is_a_row():
    texts = ["<|user|>", "Hi", " there", "<|assistant|>", "Yes"]
    assert own_words(texts, 4, "Hi there") == [1, 2, 4]
    assert own_words(texts, 4, "") == own_words(texts, 4, "Ho") == [0, 1, 2, 3, 4]


def test_a_drafter_without_lsa_has_ca_alone(engine):
    found = look_inside(engine, trace_of(engine, "given"), 0)
    assert layers_chart(found) is None and text_chart(found).data


def test_what_cannot_be_looked_into_gets_a_sentence(engine, trace):
    assert refusal(engine, trace) is None
    others = {
        "EAGLE-2; only MoA has LSA and CA": {"method": "eagle2"},
        "target far-away of this trace": {"target": "far-away"},
        "MoA N=3 of this trace": {"method": "moa-n3"},
    }
    for sentence, known in others.items():
        with pytest.raises(UserError, match=sentence):
            look_inside(engine, Trace(trace.about | known, trace.events), 0)
    with pytest.raises(UserError, match="no such cycle"):
        look_inside(engine, trace, -1)
    with pytest.raises(UserError, match="The server has lost this run"):
        next(look_at(engine, bool, None, 0))
