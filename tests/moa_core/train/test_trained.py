"""What training leaves: a target and drafters of every family that load and decode; its figures."""

import json
import math
from pathlib import Path
from statistics import mean
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from moa_core.__main__ import main
from moa_core.decoding.trace import Trace
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.moa import MoADrafter
from moa_core.loading.drafter_files import save_drafter
from moa_core.loading.load import load_drafter, load_target
from moa_core.model.target import Target
from moa_core.text import prompt_ids
from moa_core.train import measure
from moa_core.train.batches import same_document, whole_batch
from moa_core.train.bundle import tasks
from moa_core.train.drafters import Plan, _Lessons, fresh, train_drafters
from moa_core.train.loop import Machine, Schedule
from moa_core.train.losses import Weights
from moa_core.train.measure import Progress, heldout_loss, heldout_prompts, task_accuracy
from moa_core.train.target import TargetSizes, first_named, train_target
from tests.moa_core.train.conftest import logged, train
from tests.models import (
    SHAPES,
    one_reply,
    plain_greedy,
    speaking_target,
    tiny_target,
    traced,
    useful,
)

METHODS = ("moa-n0", "moa-n1", "eagle2")
TREE = TreeSettings(3, 3, 9)
FAMILIES = {
    "llama, scaled rope, tied": {
        **SHAPES["llama, scaled rope"], "tie_word_embeddings": True, "scale": 2.0
    },
    **{name: SHAPES[name] for name in ("qwen2, 14 heads on 2", "qwen3", "mistral, a window of 90")},
}  # fmt: skip


def drafted(target: Target, drafter: Any, text: str, count: int, tree: TreeSettings) -> Trace:
    prompt = prompt_ids(target.tokenizer, text)
    trace = traced(target, drafter, prompt, max_new_tokens=count, tree=tree, eos_ids=target.eos_ids)
    assert trace.output_ids == plain_greedy(target, prompt, count)
    return trace


def test_a_trained_target_is_a_folder_that_decodes(data, tmp_path):
    sizes = TargetSizes(layers=2, width=32, heads=4, kv_heads=2, inner=48, vocabulary=280)
    train_target(
        data, tmp_path, Schedule(60, {"": 1e-2}, warmup=4), sizes=sizes, rows=4, row_length=48,
        machine=Machine(workers=1),
    )  # fmt: skip
    losses = [line["target"]["loss"] for line in logged(tmp_path)]
    assert losses[-1] < losses[24] < 0.6 * math.log(280)
    about = json.loads((tmp_path / "training.json").read_text())
    assert about["schedule"]["updates"] == about["updates"] == 60 and about["rows"] == 4
    target = load_target(str(tmp_path))
    assert target.eos_ids == (target.tokenizer.eos_token_id,)
    drafted(target, useful("moa-n1", target), "What is 3 + 4?", 12, TREE)


def test_what_the_user_named_counts_more_when_a_reply_first_says_it():
    ids = torch.tensor([[1, 5, 6, 7, 5, 7, 5, 2, 1, 7, 8, 6, 7]])
    reply = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0, 1, 1]]).bool()
    document = torch.tensor([[0] * 8 + [1] * 5])
    named = first_named(whole_batch(ids, reply, document))[0]
    assert named.nonzero().flatten().tolist() == [4, 12]


@pytest.mark.parametrize("name", FAMILIES)
def test_trained_drafters_of_every_family_write_the_targets_own_text(name, data, tmp_path):
    target, methods = speaking_target(**FAMILIES[name]), ("moa-n0", "moa-n1", "moa-n2")
    train(target, data, tmp_path, 10, Plan(methods, rows=4, row_length=64))
    log = logged(tmp_path)
    for number, method in enumerate(methods):
        losses = [line[method]["loss"] for line in log]
        assert len(losses) == 10 and sum(losses[-3:]) < 0.95 * sum(losses[:3])
        drafter = load_drafter(str(tmp_path / method), target)
        assert isinstance(drafter, MoADrafter) and drafter.tli == number
        moved = drafter.net.state_dict()
        for key, weight in fresh(method, target, 0).net.state_dict().items():
            assert not torch.equal(moved[key], weight.bfloat16().float()), key
        for question in ("What is 3 + 4?", "The fox ran home on day 2. " * 3):
            drafted(target, drafter, question, 24, TREE)


def test_drafters_go_on_from_others_with_other_losses(data, tmp_path):
    """At a rate of nothing the weights are those they began with; else they are not."""
    target, begun = speaking_target(), tmp_path / "begun"
    for name in METHODS:
        about = {"training": {"updates": 7, "start": None}, "commit": "abc"}
        save_drafter(begun / name, useful(name, target), target, about, torch.float32)
    for rate in (0.0, 1e-3):
        out = tmp_path / f"out {rate}"
        plan = Plan(METHODS, rows=2, row_length=48, weights=Weights(1, 0), start=begun)
        train(target, data, out, 2, plan, rate)
        for name in METHODS:
            before, after = (load_file(each / name / "model.safetensors") for each in (begun, out))
            same = [torch.equal(before[key].bfloat16(), after[key]) for key in before]
            assert all(same) if rate == 0 else not all(same), name
            training = json.loads((out / name / "config.json").read_text())["drafter"]["training"]
            assert training["start"] == {"updates": 7, "start": None, "commit": "abc"}


@pytest.mark.parametrize("start", [None, Path("begun")])
def test_sa_is_narrowed_to_its_block_at_the_start_of_new_drafters_alone(start):
    ids = torch.randint(0, 60, (2, 40), generator=torch.Generator().manual_seed(0))
    batch = one_reply(ids, 6)
    lessons = _Lessons(tiny_target(), [], Plan(rows=2, start=start), SimpleNamespace(updates=100))
    _, masks = lessons(batch, 0)
    assert torch.equal(masks.sa, same_document(batch.segment)) is (start is not None)


def test_training_on_the_targets_text_leaves_drafters_that_are_accepted_more(data, tmp_path):
    target = speaking_target(max_position_embeddings=128)

    def tau(drafter: Any) -> float:
        asked = [f"What is {number} + 4?" for number in range(4)]
        traces = [drafted(target, drafter, text, 24, TreeSettings(4, 1, 4)) for text in asked]
        return mean(length for trace in traces for length in trace.accepted_lengths)

    plan = Plan(METHODS[1:], rows=4, row_length=64, own_tokens=4000)
    train(target, data, tmp_path, 50, plan)
    for name in METHODS[1:]:
        config = json.loads((tmp_path / name / "config.json").read_text())["drafter"]
        assert config["training"]["updates"] == 50 and config["parameters"] > 0
        trained = load_drafter(str(tmp_path / name), target)
        assert tau(trained) > tau(fresh(name, target, 0)) + 0.1, name


@pytest.fixture(scope="module")
def target() -> Target:
    return speaking_target(max_position_embeddings=512)


def test_loss_is_of_replies_alone(target, data):
    """Of a target that is sure of one token: all that counts is how seldom that is right."""
    chat = next(document for document in measure._held_out(data) if document.kind == "chat")
    [(ids, mask)] = measure.encode_many([chat], target.tokenizer)
    with torch.inference_mode():
        rows = target.model(torch.tensor([ids])).logits[0].log_softmax(-1)
    reply = [-float(rows[at - 1, ids[at]]) for at in range(1, len(ids)) if mask[at]]
    assert 0 < len(reply) < len(ids) - 1
    found = heldout_loss(target, data, most=1)["chat"]
    assert found == pytest.approx(sum(reply) / len(reply), rel=1e-3)


@pytest.mark.parametrize("right", [True, False])
def test_tasks_are_scored_by_their_own_check(target, right, monkeypatch):
    monkeypatch.setattr(measure, "answers", lambda target, prompts, longest: prompts)
    monkeypatch.setattr(tasks, "check", lambda task, text: right and task.prompt in text)
    scores = task_accuracy(target, per_kind=2)
    assert scores == dict.fromkeys([*tasks.KINDS, "all"], float(right))


def test_held_out_prompts_end_where_a_reply_begins(target, data):
    for number in range(400):
        (data / f"note{number}.txt").write_text(f"Day {number}: the fox ran home. " * 9)
    found = heldout_prompts(target, data, 3)
    assert set(found) == {"chat", "plain"} and len(found["plain"]) == 3 >= len(found["chat"])
    begins = target.tokenizer.convert_tokens_to_ids("<|assistant|>")
    assert all(ids[-1] == begins for ids in found["chat"])
    assert all("the fox" in target.tokenizer.decode(ids) for ids in found["plain"])


def test_the_command_tells_what_a_target_can_do(bundle, data, capsys):
    assert main(["train", "measure", "--data", str(data), "--tasks", "1", "--threads", "1"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert set(report) == {"tasks_right", "heldout_loss", "samples"}
    assert report["samples"] and all(prompt for prompt, _ in report["samples"])
    assert 0 <= report["tasks_right"]["all"] <= 1


MEASURED = ("moa-n0", "eagle2", "medusa")


@pytest.mark.parametrize(("updates", "times"), [(1440, 8), (100, 1), (7, 3), (5, 8)])
def test_measurements_are_spread_evenly_and_the_last_one_is_at_the_end(target, updates, times):
    watch = Progress(target, {}, {}, times)
    due = [update for update in range(1, updates + 1) if watch.due(update, updates)]
    assert len(due) == min(times, updates) and due[-1] == updates
    gaps = [after - before for before, after in zip([0, *due], due, strict=False)]
    assert max(gaps) - min(gaps) <= 1
    assert not watch.due(updates, None)


def test_the_weights_that_were_accepted_most_are_kept_through_a_stop(target, monkeypatch):
    drafters = {name: fresh(name, target, 0) for name in MEASURED}
    watch = Progress(target, drafters, {})
    values = {"moa-n0": [1.5, 2.5, 2.0], "eagle2": [1.0, 1.1, 1.3], "medusa": [2.0, 1.0, 2.0]}
    left = {name: iter(of) for name, of in values.items()}
    monkeypatch.setattr(measure, "acceptance", lambda _, drafter, *rest: next(left[drafter.name]))
    for place in range(3):
        for drafter in drafters.values():
            for weight in drafter.net.parameters():
                weight.data.fill_(place)
        found = watch.measure(100 * (place + 1), dict.fromkeys(MEASURED, 10.0 * (place + 1)))
        assert found == {name: of[place] for name, of in values.items()}
    again = Progress(target, drafters, {})
    again.load_state_dict(watch.state_dict())
    again.restore_best()
    kept = {name: next(d.net.parameters()).unique().item() for name, d in drafters.items()}
    assert kept == {"moa-n0": 1, "eagle2": 2, "medusa": 2}  # of two alike, the later one
    assert again.metrics["moa-n0"][1] == {"updates": 200, "seconds": 20.0, "tau": 2.5}


def test_training_records_how_acceptance_grew(target, data, tmp_path):
    prompts = {"chat": [prompt_ids(target.tokenizer, "What is 3 + 4?")]}
    train_drafters(
        target, data, tmp_path / "tokenizer", tmp_path / "out",
        Schedule(6, {"": 1e-3, "eagle2": 5e-4}), Plan(MEASURED, rows=2, row_length=48),
        Machine(workers=1), prompts, 3,
    )  # fmt: skip
    measured = [line["measured"] for line in logged(tmp_path / "out") if "measured" in line]
    for name in MEASURED:
        config = json.loads((tmp_path / "out" / name / "config.json").read_text())
        training = config["drafter"]["training"]
        metrics = training["metrics"]
        assert [entry["updates"] for entry in metrics] == [2, 4, 6]
        assert [entry["tau"] for entry in metrics] == [line[name] for line in measured]
        assert all(entry["tau"] >= 1 for entry in metrics)
        seconds = [entry["seconds"] for entry in metrics]
        assert 0 < seconds[0] <= seconds[1] <= seconds[2]
        assert training["rate"] == (5e-4 if name == "eagle2" else 1e-3)
        weights = load_file(tmp_path / "out" / name / "model.safetensors")
        assert all(torch.isfinite(weight).all() for weight in weights.values())
