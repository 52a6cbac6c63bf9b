"""The lesson's own runs: what is said and drawn is what happened."""

import json
from types import SimpleNamespace

import pytest

from demo.engine import Engine
from demo.lesson.run import CHAIN, TRIALS, drafter_of, drawn, first_cycle, request
from moa_core.decoding.trace import Drafted, Prefilled, Trace, Verified
from moa_core.decoding.tree import DraftTree
from moa_core.errors import UserError

#      0 -> 1 -> 3 (accepted), 0 -> 2, 1 -> 4
FORK = DraftTree((10, 11, 12, 13, 14), (-1, 0, 0, 1, 1), (0, 1, 1, 2, 2), (0, -0.3, -1, -0.5, -2))
LINE = DraftTree((10, 11, 12, 13), (-1, 0, 1, 2), (0, 1, 2, 3), (0, -0.1, -0.2, -0.3))


def trace(tree, path, choices):
    """One cycle below the prefill's token, with its words."""
    bonus = choices[path[-1] if path else 0]
    probs = (0.5,) * len(tree)
    emitted = (*(tree.tokens[node] for node in path), bonus)
    verified = Verified(0, path, bonus, choices, probs, probs, emitted, 0.02, 0)
    alone = {str(token): f" w{token}" for token in (*tree.tokens, *choices)}
    words = {"prompt": "", "output": [" w"] * (1 + len(emitted)), "alone": alone, "special": []}
    events = [Prefilled((1, 2), 10, 0.5, 0.1), Drafted(0, 2, tree, 0.01), verified]
    return Trace({"method": "moa-n1", "words": words}, events)


@pytest.mark.parametrize(
    ("trial", "tree", "path", "choices", "said"),
    [
        ("draft", FORK, (1, 3), (11, 13, 50, 51, 52), "4 guesses in 2 levels, drafted in 10.0 ms"),
        ("verify", FORK, (1, 3), (11, 13, 50, 51, 52), "2 of 4 guesses accepted. With the bonus, "
         "one target call gained 3 tokens (10.0 ms to draft, 20.0 ms to verify)"),
        ("verify", FORK, (), (50, 13, 50, 51, 52), "one target call gained 1 token ("),
        ("alone", LINE, (1,), (11, 50, 13, 51), "“w11 w12 w13”. The first one is what the target"),
        ("alone", LINE, (1, 2, 3), (11, 12, 13, 51), "All of them are what the target"),
    ],
)  # fmt: skip
def test_a_cycle_is_said_and_drawn(trial, tree, path, choices, said):
    found = json.loads(drawn(TRIALS[trial], trace(tree, path, choices)))
    assert found["said"].startswith("MoA N=1: ") and said in found["said"]
    assert found["judged"] == (trial != "draft")
    [cycle] = found["cycles"]
    words = [found["texts"][place] for place in (*cycle["tokens"], cycle["bonus"])]
    bonus = choices[path[-1] if path else 0]
    assert words == [f" w{token}" for token in (*tree.tokens, bonus)]
    assert cycle["path"] == list(path) and cycle["parents"] == list(tree.parents)


def test_a_run_shows_its_first_cycle_and_leaves_the_turn(loads):
    engine = Engine()
    engine.start().result()
    run = engine.prepare(request(engine, TRIALS["alone"], "Hello", ""))
    [(drafted, verified)] = first_cycle(run).cycles
    assert drafted.cycle == verified.cycle == 0 and not engine.busy
    assert loads[-1].tree == CHAIN and loads[-1].max_new_tokens > CHAIN.depth + 1


def test_an_answer_of_one_token_gets_a_sentence():
    for reason, words in (("eos", "another prompt"), ("stopped", "Stopped")):
        run = SimpleNamespace(events=(one for one in ()), trace=SimpleNamespace(reason=reason))
        with pytest.raises(UserError, match=words):
            first_cycle(run)


def test_the_moa_drafter_of_a_target_or_a_sentence(loads, monkeypatch):
    engine = Engine()
    assert drafter_of(engine, "") == engine.default() == "moa-n0"
    monkeypatch.setattr(engine, "methods", lambda target: ["eagle2", "vanilla"])
    with pytest.raises(UserError, match="No MoA drafter"):
        drafter_of(engine, "")
