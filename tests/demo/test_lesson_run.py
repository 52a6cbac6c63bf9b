"""The lesson's own runs: what the table says is what happened."""

import re
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from demo.engine import Engine
from demo.lesson.run import CHAIN, TRIALS, Cycle, drafter_of, first_cycle, in_order, request, show
from moa_core.decoding.trace import Drafted, Verified
from moa_core.decoding.tree import DraftTree
from moa_core.errors import UserError
from moa_core.text import TokenText

#      0 -> 1 -> 3 (accepted), 0 -> 2, 1 -> 4
FORK = DraftTree((10, 11, 12, 13, 14), (-1, 0, 0, 1, 1), (0, 1, 1, 2, 2), (0, -0.3, -1, -0.5, -2))
LINE = DraftTree((10, 11, 12, 13), (-1, 0, 1, 2), (0, 1, 2, 3), (0, -0.1, -0.2, -0.3))


def cycle(tokenizer, tree, path, choices):
    bonus = choices[path[-1] if path else 0]
    probs = (0.5,) * len(tree)
    verified = Verified(0, path, bonus, choices, probs, probs, (*path, bonus), 0.02, 0)
    return Cycle("moa-n1", TokenText(tokenizer), Drafted(0, 5, tree, 0.01), verified)


@pytest.fixture
def forked(tokenizer):
    return cycle(tokenizer, FORK, (1, 3), (11, 13, 50, 51, 52))


def rows(trial, happened):
    body = re.search(r"<tbody>.*</tbody>", show(TRIALS[trial], happened))[0]
    return list(ElementTree.fromstring(body))


def test_a_drafted_tree_tells_no_verdict(forked):
    found = rows("draft", forked)
    assert [row.get("data-node") for row in found] == ["0", "1", "3", "4", "2"]
    assert {row.get("data-state") for row in found} == {"root", "draft"}
    assert float(found[1].get("data-path")) == pytest.approx(0.740818)
    assert "".join(found[2].itertext()).endswith("81.9 %60.7 %")  # exp(-0.2), exp(-0.5)


def test_a_verified_tree_agrees_with_the_target(forked):
    found = rows("verify", forked)
    states = {row.get("data-node"): row.get("data-state") for row in found}
    assert states == {"0": "root", "1": "accepted", "3": "accepted", "4": "rejected",
                      "2": "rejected", None: "bonus"}  # fmt: skip
    places = [row.get("data-node") for row in found]
    bonus = found[places.index(None)]
    assert places.index(None) == places.index("3") + 1
    assert bonus.get("data-token") == found[places.index("3")].get("data-choice") == "51"
    assert "2 accepted; with the bonus, 3 tokens gained" in show(TRIALS["verify"], forked)


def test_nothing_accepted_is_one_token(tokenizer):
    happened = cycle(tokenizer, FORK, (), (50, 13, 50, 51, 52))
    found = rows("verify", happened)
    assert found[1].get("data-state") == "bonus" and found[1].get("data-token") == "50"
    assert "0 accepted; with the bonus, 1 token gained" in show(TRIALS["verify"], happened)


def test_a_chain_stands_beside_what_the_target_would_have_said(tokenizer):
    happened = cycle(tokenizer, LINE, (1,), (11, 50, 13, 51))
    found = rows("alone", happened)
    assert [row.get("data-state") for row in found] == ["root", "accepted", "rejected", "later"]
    assert [row.get("data-choice") for row in found[1:]] == ["11", "50", "13"]
    assert "the first one is" in show(TRIALS["alone"], happened)


def test_lines_reach_up_to_each_parent(forked):
    rises = re.findall(r"--level: (\d); --rise: (\d)", show(TRIALS["verify"], forked))
    #        root        node 1      node 3      bonus       node 4      node 2
    assert rises == [("0", "0"), ("1", "1"), ("2", "1"), ("3", "1"), ("2", "3"), ("1", "5")]


def test_likely_branches_come_first():
    assert list(in_order(FORK)) == [0, 1, 3, 4, 2]


def test_tokens_are_text(forked):
    class Hostile:
        def alone(self, token):
            return {10: "<b>${6*7}</b>", 11: "\n", 12: "  ", 13: ""}.get(token, "&")

    happened = Cycle(forked.method, Hostile(), forked.drafted, forked.verified)
    for name in TRIALS:
        page = show(TRIALS[name], happened)
        assert "<b>" not in page and "&lt;b&gt;${6*7}&lt;/b&gt;" in page
        assert "↵" in page and "␣␣" in page and "·" in page


def test_a_run_shows_its_first_cycle_and_leaves_the_turn(loads, tokenizer):
    engine = Engine()
    engine.start().result()
    run = engine.prepare(request(engine, TRIALS["alone"], "Hello", ""))
    happened = first_cycle(run)
    assert happened.verified.cycle == 0 and not engine.busy
    assert loads[-1].tree == CHAIN and loads[-1].max_new_tokens > CHAIN.depth + 1


def test_an_answer_of_one_token_gets_a_sentence():
    run = SimpleNamespace(events=iter(()), trace=SimpleNamespace(reason="eos"))
    run.events = (event for event in ())
    with pytest.raises(UserError, match="another prompt"):
        first_cycle(run)
    run = SimpleNamespace(events=(event for event in ()), trace=SimpleNamespace(reason="stopped"))
    with pytest.raises(UserError, match="Stopped"):
        first_cycle(run)


def test_the_moa_drafter_of_a_target_or_a_sentence(loads, monkeypatch):
    engine = Engine()
    assert drafter_of(engine, "") == engine.default() == "moa-n1"
    monkeypatch.setattr(engine, "methods", lambda target: ["eagle2", "vanilla"])
    with pytest.raises(UserError, match="No MoA drafter"):
        drafter_of(engine, "")
