"""How drafters are accepted as they train, and which weights are kept."""

import json

import pytest
import torch
from safetensors.torch import load_file

from moa_core.model.target import Target
from moa_core.text import prompt_ids
from moa_core.train import measure
from moa_core.train.corpus import chat
from moa_core.train.drafters import Plan, fresh, train_drafters
from moa_core.train.loop import Machine, Schedule
from moa_core.train.measure import Progress, heldout_prompts
from tests.moa_core.train.conftest import logged
from tests.models import speaking_target


@pytest.fixture(scope="module")
def target() -> Target:
    return speaking_target(max_position_embeddings=512)


def test_held_out_prompts_end_where_a_reply_begins(target, data):
    for number in range(400):
        (data / f"note{number}.txt").write_text(f"Day {number}: the fox ran home. " * 9)
    talks = [{"messages": chat(f"What is {n} + 4?", f"It is {n + 4}.")} for n in range(80, 110)]
    (data / "more.jsonl").write_text("\n".join(map(json.dumps, talks)))
    found = heldout_prompts(target, data, 3)
    texts = [ids for ids in found if "the fox" in target.tokenizer.decode(ids)]
    chats = [ids for ids in found if ids not in texts]
    assert len(texts) == 3 >= len(chats) > 0
    begins = target.tokenizer.convert_tokens_to_ids("<|assistant|>")
    assert all(ids[-1] == begins for ids in chats)


MEASURED = ("moa-n0", "eagle2", "medusa")


@pytest.mark.parametrize(("updates", "times"), [(1440, 8), (100, 1), (7, 3), (5, 8)])
def test_measurements_are_spread_evenly_and_the_last_one_is_at_the_end(target, updates, times):
    watch = Progress(target, {}, [], times)
    due = [update for update in range(1, updates + 1) if watch.due(update, updates)]
    assert len(due) == min(times, updates) and due[-1] == updates
    gaps = [after - before for before, after in zip([0, *due], due, strict=False)]
    assert max(gaps) - min(gaps) <= 1
    assert not watch.due(updates, None)


def test_the_weights_that_were_accepted_most_are_kept_through_a_stop(target, monkeypatch):
    drafters = {name: fresh(name, target, 0) for name in MEASURED}
    watch = Progress(target, drafters, [])
    values = {"moa-n0": [1.5, 2.5, 2.0], "eagle2": [1.0, 1.1, 1.3], "medusa": [2.0, 1.0, 2.0]}
    left = {name: iter(of) for name, of in values.items()}
    monkeypatch.setattr(measure, "acceptance", lambda _, drafter, *rest: next(left[drafter.name]))
    for place in range(3):
        for drafter in drafters.values():
            for weight in drafter.net.parameters():
                weight.data.fill_(place)
        found = watch.measure(100 * (place + 1), dict.fromkeys(MEASURED, 10.0 * (place + 1)))
        assert found == {name: of[place] for name, of in values.items()}
    again = Progress(target, drafters, [])
    again.load_state_dict(watch.state_dict())
    again.restore_best()
    kept = {name: next(d.net.parameters()).unique().item() for name, d in drafters.items()}
    assert kept == {"moa-n0": 1, "eagle2": 2, "medusa": 2}  # of two alike, the later one
    assert again.metrics["moa-n0"][1] == {"updates": 200, "seconds": 20.0, "tau": 2.5}


def test_training_records_how_acceptance_grew(target, data, tmp_path):
    prompts = [prompt_ids(target.tokenizer, "What is 3 + 4?")]
    train_drafters(
        target, data, tmp_path / "out",
        Schedule(6, 1e-3), Plan(MEASURED, rows=2, row_length=48),
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
        weights = load_file(tmp_path / "out" / name / "model.safetensors")
        assert all(torch.isfinite(weight).all() for weight in weights.values())
