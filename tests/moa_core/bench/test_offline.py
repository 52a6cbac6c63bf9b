"""What is written after a link was cut for ever: cut where it was asked, judged as it should be."""

import json
import shutil
from functools import partial

import pytest
import torch

from moa_core.__main__ import main
from moa_core.bench import offline
from moa_core.bench.methods import Record
from moa_core.bench.offline import Alone, alone, answer, judged, log_probs, right_rows, rows
from moa_core.bench.records import ALL, read, select
from moa_core.bench.suites import Prompt
from moa_core.decoding.cuttable import Cuttable
from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import LinkDown, Trace
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.base import Drafter, Vanilla
from moa_core.loading.drafter_files import save_drafter
from moa_core.model.target import Target
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


def test_a_run_is_what_its_drafter_wrote_from_the_cut_on(target):
    own = answer(target, PROMPT, 20)
    assert own == plain_greedy(target, PROMPT, 20)

    def run(name: str, drafter: Drafter) -> Record:
        method = Alone(name, target, drafter, 0.25, partial(answer, target), judges=True)
        return method.run(PROMPT, Settings(20))

    for name in ("moa-n3", "eagle2"):
        found = run(name, drafter := drafter_for(name, target))
        assert found["known"] == 5 and found["tokens"] == 15
        text = [*own[:5], *alone(target, drafter, [*PROMPT, *own[:4]], 16)]
        expected = sum(log_probs(target, PROMPT, text)[5:])
        assert found["log_prob"] == pytest.approx(expected, abs=1e-3)
        differ = [at for at in range(5, 20) if text[at] != own[at]]
        assert found["same"] == (differ[0] - 5 if differ else 15)
    held = run("target", Vanilla())
    assert held["tokens"] == held["same"] == 15


def test_an_answer_is_the_target_s_own_up_to_the_first_other_token(target):
    own = [7, 1, 60, 4]
    found = [judged(target, PROMPT, own, 2, rest) for rest in ([60, 4], [60, 5, 4], [3, 4], [])]
    assert [(one["tokens"], one["same"]) for one in found] == [(2, 2), (3, 1), (2, 0), (0, 0)]
    assert found[0]["log_prob"] == pytest.approx(sum(log_probs(target, PROMPT, own)[2:]), abs=1e-3)


def record(method: str, same: int, tokens: int = 4) -> Record:
    made = {"method": f"{method}@0.5", "tokens": tokens}
    return {**made, "same": same, "log_prob": -float(tokens)}


def test_figures_by_hand():
    mine = [*(record("a", same) for same in (4, 1, 1)), record("a", 8, 8)]
    whole, silent = rows([*mine, record("b", 0, 0)])
    assert (whole["method"], silent["method"], whole["kind"]) == ("a", "b", ALL)
    assert whole["same"] == pytest.approx(14 / 20) and whole["tokens"] == 5
    low, high = whole["same_spread"]
    assert 0 <= low < whole["same"] < high <= 1 and whole["items"] == 4
    assert whole["log_prob"] == pytest.approx(-1) and whole["cut"] == 0.5
    assert silent["same"] is None and silent["log_prob"] is None


@pytest.mark.parametrize(("text", "right"), [
    ("It is green.", True), ("Greens, then red.", True), ("It is red, not green.", False),
    ("An evergreen.", False), ("", False),
])  # fmt: skip
def test_an_answer_is_right_if_its_first_choice_is(text, right):
    assert offline.is_right(text, ["green", "red"]) == right


def test_right_answers_are_counted_where_the_target_has_one_that_it_had_not_told():
    target = speaking_target()
    prompts = [Prompt(at, "ab"[at % 2], "", ("fox", "dog")) for at in range(5)]

    def run(method: str, at: int, text: str, known: str = "the ") -> Record:
        both = [target.tokenizer(part)["input_ids"] for part in (known, text)]
        return {"method": f"{method}@0.5", "prompt": at, "kind": prompts[at].kind,
                "text": [*both[0], *both[1]], "known": len(both[0])}  # fmt: skip

    own = ["fox", "a fox", "dog", "fox and dog"]
    told = [*(run("target", at, text) for at, text in enumerate(own))]
    told.append(run("target", 4, "fox", known="fox "))
    mine = [*(run("eagle2", at, text) for at, text in enumerate(["fox", "dog", "fox", "no"]))]
    mine.append(run("eagle2", 4, "fox", known="fox "))
    found = select(right_rows([*told, *mine], prompts, target), method="eagle2")
    whole, even, odd = found
    assert [row["kind"] for row in found] == [ALL, "a", "b"]
    assert [row["asked"] for row in found] == [3, 1, 2] and whole["cut"] == 0.5
    assert [row["right"] for row in (whole, even, odd)] == [pytest.approx(1 / 3), 1, 0]


def test_the_whole_command(saved_bundle, tmp_path, capsys, monkeypatch):
    target, models = speaking_target(), tmp_path / "models"
    shutil.copytree(saved_bundle, models)
    save_drafter(models / "medusa", drafter_of("medusa", target), target, {}, torch.float32)
    monkeypatch.setenv("MOA_MODELS", str(models))
    monkeypatch.setattr(offline, "CUTS", (0.0, 0.5))
    suite, out = tmp_path / "one.jsonl", tmp_path / "new" / "out.json"
    suite.write_text(json.dumps({"kind": "story", "prompt": "The fox ran"}) + "\n")
    short = ("--max-new-tokens", "12", "--device", "cpu", "--limit", "1")
    command = ["bench", "--offline", "--out", str(out), *short, "--suite", str(suite)]
    assert main(command) == 0
    found = read(out)
    methods = ["target", "eagle2", "moa-n0", "moa-n1"]
    assert list(dict.fromkeys(row["method"] for row in found["rows"])) == methods
    assert {row["cut"] for row in found["rows"]} == {0, 0.5}
    assert found["settings"]["limit"] == 1 and str(tmp_path) not in out.read_text()
    printed = capsys.readouterr().out
    assert main([*command, "--methods", "medusa"]) == 2  # by default it is left out
    assert "medusa cannot write without its target" in capsys.readouterr().err
    assert "moa-n1" in printed and printed.strip().endswith(str(out))


def test_a_suite_with_known_answers_counts_the_right_ones(bundle, tmp_path, capsys):
    suite, out = tmp_path / "one.jsonl", tmp_path / "out.json"
    suite.write_text(json.dumps({"kind": "a", "prompt": "The fox ran", "choices": ["fox"]}) + "\n")
    command = ["bench", "--offline", "--out", str(out), "--suite", str(suite), "--device", "cpu"]
    assert main([*command, "--max-new-tokens", "6", "--methods", "moa-n0"]) == 0
    found = read(out)
    assert found["kind"] == "answers" and {row["kind"] for row in found["rows"]} == {ALL, "a"}
    assert {row["cut"] for row in found["rows"]} == set(offline.CUTS_OF_ANSWERS)
    printed = capsys.readouterr().out
    assert "% still right" in printed and "nats a token" not in printed
