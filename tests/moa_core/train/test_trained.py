"""What training leaves: drafters of every family that load and decode; their figures."""

import json
from statistics import mean
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from moa_core.decoding.trace import Trace
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.moa import MoADrafter
from moa_core.errors import UserError
from moa_core.loading.drafter_files import save_drafter
from moa_core.loading.load import load_drafter
from moa_core.model.target import Target
from moa_core.text import prompt_ids
from moa_core.train.drafters import Plan, export, fresh, train_drafters
from moa_core.train.loop import Machine, Schedule
from moa_core.train.losses import Weights
from moa_core.train.own_text import load
from moa_core.train.words import keep_words
from tests.moa_core.train.conftest import PROMPTS, logged, train
from tests.models import SHAPES, lossless, speaking_target, useful

METHODS = ("moa-n0", "moa-n1", "eagle2")
TREE = TreeSettings(3, 3, 9)
FAMILIES = {
    "llama, scaled rope, tied": {
        **SHAPES["llama, scaled rope"], "tie_word_embeddings": True, "scale": 2.0
    },
    **{name: SHAPES[name] for name in ("qwen2, 14 heads on 2", "qwen3", "mistral, a window of 90")},
}  # fmt: skip


def drafted(target: Target, drafter: Any, text: str, count: int, tree: TreeSettings) -> Trace:
    ids = prompt_ids(target.tokenizer, text)
    return lossless(target, drafter, ids, count, tree=tree, eos_ids=target.eos_ids)


@pytest.mark.parametrize("name", FAMILIES)
def test_trained_drafters_of_every_family_write_the_targets_own_text(name, own, tmp_path):
    target, methods = speaking_target(**FAMILIES[name]), ("moa-n0", "moa-n2")
    train(target, own, tmp_path, 40, Plan(PROMPTS, methods, rows=4, row_length=64))
    log = logged(tmp_path)
    for method in methods:
        losses = [line[method]["loss"] for line in log]
        assert len(losses) == 40 and sum(losses[-3:]) < 0.99 * sum(losses[:3])
        drafter = load_drafter(str(tmp_path / method), target)
        assert isinstance(drafter, MoADrafter) and drafter.tli == int(method[-1])
        moved = drafter.net.state_dict()
        for key, weight in fresh(method, target, 0).net.state_dict().items():
            assert not torch.equal(moved[key], weight.bfloat16().float()), key
        for question in ("What is 3 + 4?", "The fox ran home on day 2. " * 3):
            drafted(target, drafter, question, 24, TREE)


def test_drafters_go_on_from_others_with_other_losses(own, tmp_path):
    """At a rate of nothing the weights are those they began with; else they are not."""
    target, begun = speaking_target(), tmp_path / "begun"
    for name in METHODS:
        save_drafter(begun / name, useful(name, target), target, {}, torch.float32)
    for rate in (0.0, 1e-3):
        out = tmp_path / f"out {rate}"
        plan = Plan(PROMPTS, METHODS, rows=2, row_length=48, weights=Weights(1, 0), start=begun)
        train(target, own, out, 2, plan, rate)
        for name in METHODS:
            before, after = (load_file(each / name / "model.safetensors") for each in (begun, out))
            same = [torch.equal(before[key].bfloat16(), after[key]) for key in before]
            assert all(same) if rate == 0 else not all(same), name
            training = json.loads((out / name / "config.json").read_text())["drafter"]["training"]
            assert training["start"] == "begun" and training["updates"] == 2


def test_a_moa_drafter_of_another_n_goes_on_from_the_one_without_tli(own, tmp_path):
    """Its last layer is fitted anew, so it starts with smaller losses than those weights have."""
    target, losses = speaking_target(), {}
    for name in ("moa-n0", "moa-n1"):  # the same weights, as a drafter of each N
        begun = tmp_path / f"from {name}"
        drafter = MoADrafter(useful("moa-n0", target).net, target, int(name[-1]), name)
        save_drafter(begun / name, drafter, target, {}, torch.float32)
        plan = Plan(PROMPTS, ("moa-n1",), rows=4, row_length=64, start=begun)
        train(target, own, out := tmp_path / name, 1, plan, 0.0)
        losses[name] = logged(out)[0]["moa-n1"]
        found = load_drafter(str(out / "moa-n1"), target)
        assert found.tli == 1
        drafted(target, found, "What is 3 + 4?", 12, TREE)
    fitted, as_they_are = losses["moa-n0"], losses["moa-n1"]
    assert fitted["entering"] < 0.8 * as_they_are["entering"]
    assert fitted["cross_entropy"] < as_they_are["cross_entropy"]
    with pytest.raises(UserError, match="no eagle2 in"):
        train(target, own, tmp_path / "none", 1, Plan(PROMPTS, ("eagle2",), 2, 48, start=begun))


@pytest.mark.parametrize("stop_at", [3, None])
def test_a_run_that_may_go_on_is_exported_in_eight_bits(stop_at, own, tmp_path):
    target, out = speaking_target(), tmp_path / "out"
    with pytest.raises(UserError, match="holds no training run"):
        export(target, out, tmp_path / "exported")
    plan = Plan(PROMPTS, METHODS, rows=2, row_length=48, words=60)
    train(target, own, out, 6, plan, stop_at=stop_at)
    assert export(target, out, tmp_path / "exported") == list(METHODS)
    for name in METHODS:
        folder = tmp_path / "exported" / name
        done = json.loads((folder / "config.json").read_text())["drafter"]["training"]["updates"]
        assert done == (stop_at or 6)
        found, kept = (load_drafter(str(each), target) for each in (folder, out / name))
        words = found.vocabulary
        assert torch.equal(words, kept.vocabulary) and len(words) == 60
        assert set(target.eos_ids) <= set(found.vocabulary.tolist())
        theirs = kept.net.state_dict()
        for key, weight in found.net.state_dict().items():
            most = theirs[key].abs().amax(-1, keepdim=True)
            assert bool(((weight - theirs[key]).abs() <= most / 100).all()), key
        drafted(target, found, "What is 3 + 4?", 12, TREE)
    # Trained on, they keep their words, whatever a count of the new text would choose.
    plan = Plan(PROMPTS, METHODS, rows=2, row_length=48, words=30, start=tmp_path / "exported")
    train(target, own, tmp_path / "further", 1, plan)
    for name in export(target, tmp_path / "further", tmp_path / "again"):
        assert load_drafter(str(tmp_path / "again" / name), target).vocabulary.equal(words)


def test_training_on_the_targets_text_leaves_drafters_that_are_accepted_more(tmp_path):
    target = speaking_target(max_position_embeddings=128)

    def tau(drafter: Any) -> float:
        asked = [f"What is {number} + 4?" for number in range(4)]
        traces = [drafted(target, drafter, text, 24, TreeSettings(4, 1, 4)) for text in asked]
        return mean(length for trace in traces for length in trace.accepted_lengths)

    prompts = tmp_path / "prompts.jsonl"
    asked = [{"prompt": f"What is {number} + {more}?"} for number in range(20) for more in range(9)]
    prompts.write_text("\n".join(map(json.dumps, asked)))
    plan = Plan(prompts, METHODS[1:], rows=4, row_length=64, own_tokens=4000)
    train_drafters(target, tmp_path, Schedule(50, 5e-3, warmup=2), plan, Machine(workers=1))
    for name in METHODS[1:]:
        config = json.loads((tmp_path / name / "config.json").read_text())["drafter"]
        assert config["training"]["updates"] == 50 and config["parameters"] > 0
        trained = load_drafter(str(tmp_path / name), target)
        assert tau(trained) > tau(fresh(name, target, 0)) + 0.1, name


def test_trained_drafters_keep_their_weights_and_the_most_frequent_of_their_words(own, tmp_path):
    target, out = speaking_target(), tmp_path / "out"
    train(target, own, out, 1, Plan(PROMPTS, METHODS, rows=2, row_length=48, words=60))
    assert keep_words(out, own, 12, tmp_path / "fewer") == sorted(METHODS)
    replies = [token for text in load(own) for token, told in zip(*text, strict=True) if told]
    for name in METHODS:
        folders = out / name, tmp_path / "fewer" / name
        before, after = (load_drafter(str(folder), target) for folder in folders)
        words, others = after.vocabulary.tolist(), set(before.vocabulary.tolist())
        assert len(words) == 12 and others > set(words) and words == sorted(words)
        counts = [replies.count(token) for token in words]
        assert min(counts) >= max(replies.count(token) for token in others - set(words))
        theirs = before.net.state_dict()
        assert all(weight.equal(theirs[key]) for key, weight in after.net.state_dict().items())
        drafted(target, after, "What is 3 + 4?", 12, TREE)
    with pytest.raises(UserError, match="drafts 12 words: fewer than 13"):
        keep_words(tmp_path / "fewer", own, 13, tmp_path / "more")
    with pytest.raises(UserError, match="holds no folders of drafters"):
        keep_words(tmp_path / "none", own, 13, tmp_path / "more")
    file = out / METHODS[0] / "model.safetensors"
    save_file(load_file(file) | {"lm_head.weight": torch.zeros(60, 8)}, file)
    with pytest.raises(UserError, match=f"{METHODS[0]} has a head of its own"):
        keep_words(out, own, 12, tmp_path / "more")
