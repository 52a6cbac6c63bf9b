"""What is written after a link was cut for ever: cut where it was asked, judged as it should be."""

import json
from typing import Any

import pytest

from moa_core.__main__ import main
from moa_core.bench import offline
from moa_core.bench.offline import Item, Measure, alone, answer, judged, log_probs, rows
from moa_core.bench.records import read, select
from moa_core.decoding.cuttable import Cuttable
from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import LinkDown, Trace
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.base import Drafter
from moa_core.model.target import Target
from moa_core.train.bundle import tasks
from tests.models import drafter_of, plain_greedy, speaking_target, tiny_target

PROMPT = [5, 9, 33, 2]
METHODS = ("moa-n0", "moa-n1", "eagle2", "tandem", "independent")


@pytest.fixture(scope="module")
def target() -> Target:
    return tiny_target()


def drafter_for(method: str, target: Target) -> Drafter:
    drafter = drafter_of(method, target)
    drafter.tree = TreeSettings(3, 3, 8)
    return drafter


@pytest.mark.parametrize("method", METHODS)
def test_the_target_is_never_heard_after_the_cut_and_a_run_from_there_is_the_same(target, method):
    drafter, own = drafter_for(method, target), plain_greedy(target, PROMPT, 30)
    lengths = set()
    for after in (1, 7, 12):
        severed, settings = Cuttable(target, drafter, after), Settings(30, drafter.tree)
        trace = Trace(events=list(decode(target, drafter, PROMPT, settings, remote=severed)))
        known = trace.verified_ids
        assert after <= len(known) <= after + drafter.tree.depth
        assert known == own[: len(known)] and trace.reason == "offline"
        assert len(trace.of(LinkDown)) == 1
        lengths.add(len(known))
        again = alone(target, drafter, [*PROMPT, *known[:-1]], 30 - len(known) + 1)
        assert again == trace.offline_ids and len(again) == 30 - len(known)
    assert len(lengths) == 3


def test_the_target_s_opinion_is_that_of_its_own_forward(target):
    answer = [7, 1, 60]
    found = log_probs(target, PROMPT, answer)
    for at, token in enumerate(answer):
        text = [*PROMPT, *answer[:at]]
        logits, _ = target.fork().prefill(text, len(text))
        assert found[at] == pytest.approx(float(logits.log_softmax(-1)[token]), abs=1e-4)


def test_a_whole_answer_is_judged_and_not_what_was_written_offline():
    target = speaking_target()
    task = tasks.Task("reverse", "Reverse this list: 3, 5, 8", "8, 5, 3")
    own = target.tokenizer(task.answer)["input_ids"] + list(target.eos_ids)
    item = Item(0, "reverse", PROMPT, lambda reply: tasks.check(task, reply))
    known = round(len(own) / 2)
    whole, half = (judged(target, item, own, known, rest) for rest in (own[known:], []))
    assert whole["right"] is True and whole["known"] == known
    assert whole["tokens"] == len(own) - known
    expected = sum(log_probs(target, PROMPT, own)[known:])
    assert whole["log_prob"] == pytest.approx(expected, abs=1e-3)
    assert half["right"] is False and half["tokens"] == 0
    wrong = target.tokenizer("8, 3, 5")["input_ids"]
    assert judged(target, item, wrong, 1, wrong[1:])["right"] is False


def test_a_run_is_what_its_drafter_wrote_from_the_cut_on(target):
    item = Item(3, "story", PROMPT)
    own = answer(target, item, 20)
    assert own == plain_greedy(target, PROMPT, 20)
    drafters = {method: drafter_for(method, target) for method in ("moa-n3", "eagle2")}
    run = Measure(target, drafters, [item], 20)
    for method, drafter in drafters.items():
        record = run((method, "story", 3, 0.25))
        assert record["known"] == 5 and record["tokens"] == 15 and record["right"] is None
        text = [*own[:5], *alone(target, drafter, [*PROMPT, *own[:4]], 16)]
        expected = sum(log_probs(target, PROMPT, text)[5:])
        assert record["log_prob"] == pytest.approx(expected, abs=1e-3)
    held, cut = (run((method, "story", 3, 0.25)) for method in ("target", "stream"))
    assert held["tokens"] == 15 and cut["tokens"] == 0


def record(method: str, item: int, right: bool | None, tokens=4, log_prob=-2.0) -> dict[str, Any]:
    kind = "sum" if right is not None else "story"
    made = {"method": method, "kind": kind, "item": item, "cut": 0.5, "right": right}
    return {**made, "tokens": tokens, "log_prob": log_prob}


def test_figures_of_texts_by_hand():
    records = [
        *(record("a", item, right) for item, right in enumerate((True, True, False))),
        *(record("b", item, right) for item, right in enumerate((True, False, False))),
        record("a", 0, None),
        record("a", 1, None, 1, -3.0),
        record("b", 1, None, 0, 0.0),
    ]
    found = rows(records)
    assert {row["kind"] for row in found} == {"sum", "story", offline.TASKS, offline.TEXTS}
    [ours] = select(found, method="a", kind=offline.TASKS)
    assert ours["right"] == pytest.approx(2 / 3)
    assert ours["items"] == 3 and ours["cut"] == 0.5
    low, high = ours["right_spread"]
    assert 0 <= low < ours["right"] < high <= 1
    [texts] = select(found, method="a", kind="story")
    assert texts["log_prob"] == pytest.approx(-1.0)  # 5 nats over 5 tokens


def test_the_whole_command(bundle, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(offline, "CUTS", (0.0, 0.5))
    suite, out = tmp_path / "one.jsonl", tmp_path / "new" / "out.json"
    suite.write_text(json.dumps({"kind": "story", "prompt": "The fox ran"}) + "\n")
    short = ("--max-new-tokens", "12", "--device", "cpu", "--limit", "1")
    command = ["bench", "--offline", "--out", str(out), *short, "--suite", str(suite)]
    assert main(command) == 0
    found = read(out)
    methods = ["target", "stream", "eagle2", "moa-n0", "moa-n1"]
    assert list(dict.fromkeys(row["method"] for row in found["rows"])) == methods
    assert {row["cut"] for row in found["rows"]} == {0, 0.5}
    assert found["settings"]["each"] == 1 and str(tmp_path) not in out.read_text()
    printed = capsys.readouterr().out
    assert "moa-n1" in printed and printed.strip().endswith(str(out))
    # A run that was cut off goes on where it was; the same command again runs nothing.
    runs = tmp_path / "new" / "out.runs" / "runs.jsonl"
    whole = runs.read_text()
    runs.write_text("\n".join(whole.splitlines()[:-3]) + "\n")
    assert main(command) == 0
    assert read(out)["rows"] == found["rows"] and runs.read_text() == whole
