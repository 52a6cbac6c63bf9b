"""The tab Layers (TLI): what is swept, its sentences, its charts and its drawing."""

import re
from xml.etree import ElementTree

import pytest

import demo.engine as module
from demo.common import measure as measuring
from demo.compare.run import Comparison, compare
from demo.engine import Engine
from demo.tli.drawing import drawing_html, explanation
from demo.tli.tab import TREE, plan_of
from moa_core.decoding.decode import Settings
from moa_core.errors import UserError
from moa_core.loading.catalog import Installed
from tests.demo.conftest import PROMPT


def test_plain_decoding_eagle_2_and_every_n_take_turns_with_one_tree(loads, monkeypatch):
    monkeypatch.setattr(measuring, "INTERVAL", 1e9)
    engine = Engine()
    made = Comparison(plan=plan_of(engine, PROMPT, 30, 2))
    methods = list(made.plan.methods)
    assert methods[0] == "vanilla" and {"moa-n0", "moa-n1"} < set(methods)
    steps = list(compare(engine, made))
    assert [step.method for step in steps if step.run][: len(methods)] == methods
    assert [len(found) for found in made.traces.values()] == [2] * len(methods)
    assert {item.tree for item in loads if isinstance(item, Settings)} == {TREE}


def test_what_cannot_be_swept_is_refused(loads, monkeypatch):
    with pytest.raises(UserError, match="1 to 5"):
        plan_of(Engine(), PROMPT, 20, 6)
    monkeypatch.setattr(module, "bundle", lambda: Installed("fake", {}))
    with pytest.raises(UserError, match="no N to sweep"):
        plan_of(Engine(), PROMPT, 20, 1)


@pytest.mark.parametrize("tli", range(4))
def test_the_drawing_runs_the_last_n_layers_and_no_other(tli):
    page = drawing_html(tli)
    assert "<em>adds</em>" in page and 'role="img"' in page
    groups = ElementTree.fromstring(re.search(r"<svg.*</svg>", page)[0]).iter("g")
    drawn = [(one.get("class"), one[1].text) for one in groups if float(one[0].get("x")) > 200]
    layers = ["layer L", "layer L−1", "layer L−2"][:tli]
    assert [text for _, text in drawn if text.startswith("layer")] == layers
    assert [text for kind, text in drawn if kind == "box drafter dashed"] == ["CA", "SA"]
    assert (("box bonus", "norm") in drawn) == bool(tli)
    assert explanation(0).endswith("while drafting.")
    assert "last layer (same weights), once per draft level" in explanation(1)
    assert "last 3 layers (same weights)" in explanation(3)
