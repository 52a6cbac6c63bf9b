"""Every family's drafters: trained for a few steps, saved, loaded, and the text stays its own."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator

from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Trace
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.moa import MoADrafter
from moa_core.errors import UserError
from moa_core.loading.checkpoints import load_drafter
from moa_core.text import prompt_ids
from moa_core.train.drafters import Plan, train_drafters
from moa_core.train.init import fresh
from moa_core.train.loop import Schedule
from tests.models import plain_greedy, speaking_target

METHODS = ("moa-n0", "moa-n1", "moa-n2")
UPDATES = 10
FAMILIES: dict[str, dict[str, Any]] = {
    "llama 3.2, scaled rope, tied": {
        "tie_word_embeddings": True,
        "scale": 2.0,
        "rope_parameters": {
            "rope_type": "llama3", "rope_theta": 500_000.0, "factor": 32.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 64,
        },
    },
    "qwen2.5, biases, 14 heads on 2": {
        "family": "qwen2", "hidden_size": 56, "num_attention_heads": 14,
    },
    "qwen3, norms on Q and K, a head size of its own": {"family": "qwen3", "head_dim": 12},
    "mistral": {"family": "mistral", "sliding_window": None},
    "mistral, a window of 100": {"family": "mistral", "sliding_window": 100},
}  # fmt: skip


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("name", FAMILIES)
def test_trained_drafters_of_every_family_write_the_targets_own_text(
    name: str, data: Path, tmp_path: Path
) -> None:
    target, out = speaking_target(**FAMILIES[name]), tmp_path / "out"
    train_drafters(
        target, data, data.parent / "tokenizer", out, Schedule(UPDATES, {"": 5e-3}, warmup=2),
        Plan(METHODS, rows=4, row_length=64, tasks=6), workers=1, log_every=1,
        accelerator=Accelerator(cpu=True),
    )  # fmt: skip
    log = [json.loads(line) for line in (out / "run/log.jsonl").read_text().splitlines()]
    for number, method in enumerate(METHODS):
        losses = [line[method]["loss"] for line in log]
        assert len(losses) == UPDATES and sum(losses[-3:]) < 0.95 * sum(losses[:3])
        drafter = load_drafter(str(out / method), target)
        assert isinstance(drafter, MoADrafter) and drafter.tli == number
        moved = drafter.net.state_dict()
        for key, weight in fresh(method, target, 0).net.state_dict().items():
            assert not torch.equal(moved[key], weight.bfloat16().float()), key
        for question in ("What is 3 + 4?", "The fox ran home on day 2. " * 3):
            prompt = prompt_ids(target.tokenizer, question)
            settings = Settings(24, TreeSettings(3, 3, 9))
            trace = Trace(events=list(decode(target, drafter, prompt, settings)))
            assert trace.output_ids == plain_greedy(target, prompt, 24)


def test_lsa_gets_a_number_of_heads_that_divides_its_width() -> None:
    target = speaking_target(**FAMILIES["qwen2.5, biases, 14 heads on 2"])
    lsa = fresh("moa-n0", target, 0).net.config.lsa
    assert target.config.num_attention_heads == 14 and target.kv_width == 16
    assert (lsa.heads, lsa.head_dim) == (8, 2)


def test_rows_longer_than_a_window_are_refused(data: Path, tmp_path: Path) -> None:
    target = speaking_target(**FAMILIES["mistral, a window of 100"])
    with pytest.raises(UserError, match=r"Rows of 128 tokens .* --row-length of at most 100"):
        train_drafters(
            target, data, data.parent / "tokenizer", tmp_path / "out", Schedule(1, {}),
            Plan(METHODS, rows=4, row_length=128), accelerator=Accelerator(cpu=True),
        )  # fmt: skip
