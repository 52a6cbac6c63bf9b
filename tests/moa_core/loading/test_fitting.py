"""Does a drafter's file fit a target? Another shape, RoPE, tokenizer is refused; other weights are
said."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Trace
from moa_core.loading.checkpoints import load_drafter, load_target
from moa_core.loading.fitting import weights_mark
from tests.moa_core.folders import METHODS, edit, refused, saved
from tests.models import plain_greedy, save_target, speaking_target, tiny_target


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"hidden_size": 48}, "target's hidden size is 32, the target's is 48."),
        ({"layers": 5}, "target's layers is 3, the target's is 5."),
        ({"num_attention_heads": 8, "head_dim": 8}, "target's heads is 4, the target's is 8."),
        ({"num_key_value_heads": 1}, "target's kv heads is 2, the target's is 1."),
        ({"head_dim": 16}, "target's head size is 8, the target's is 16."),
        ({"vocab_size": 99}, "target's vocabulary is 64, the target's is 99."),
    ],
)
def test_a_drafter_of_another_target_is_refused_with_the_number(
    tmp_path: Path, method: str, sizes: dict[str, Any], words: str
) -> None:
    folder = saved(tmp_path / "mine", method, tiny_target())
    assert refused(folder, tiny_target(**sizes)) == f"mine does not fit this target: its {words}"


@pytest.mark.parametrize("method", METHODS)
def test_a_drafter_for_other_positions_is_refused(tmp_path: Path, method: str) -> None:
    folder = saved(tmp_path, method, tiny_target())
    other = {"rope_parameters": {"rope_type": "default", "rope_theta": 77_000.0}}
    assert "differ in their RoPE settings" in refused(folder, tiny_target(**other))


@pytest.mark.parametrize(
    ("method", "sizes", "words"),
    [
        ("moa-n0", {"hidden_size": 48}, "hidden size is 32, the target's is 48"),
        ("eagle2", {"hidden_size": 48}, "hidden size is 32, the target's is 48"),
        ("moa-n0", {"num_key_value_heads": 1}, "layer and token is 32, the target's is 16"),
        ("moa-n0", {"head_dim": 16}, "layer and token is 32, the target's is 64"),
        ("moa-n0", {"vocab_size": 99}, "vocabulary is 64, the target's is 99"),
        ("eagle2", {"vocab_size": 99}, "vocabulary is 64, the target's is 99"),
    ],
)  # fmt: skip
def test_the_authors_configs_are_checked_by_their_shapes(
    tmp_path: Path, method: str, sizes: dict[str, Any], words: str
) -> None:
    folder = saved(tmp_path, method, tiny_target())
    edit(tmp_path, drafter=None)
    assert words in refused(folder, tiny_target(**sizes))


def test_a_drafter_trained_with_another_tokenizer_is_refused(tmp_path: Path) -> None:
    target = speaking_target()
    folder = saved(tmp_path, "moa-n0", target)
    assert load_drafter(folder, target).name == tmp_path.name
    config = json.loads((tmp_path / "config.json").read_text())
    config["drafter"]["target"]["tokenizer"] = "0123456789abcdef"
    edit(tmp_path, **config)
    assert "another tokenizer" in refused(folder, target)
    target.tokenizer = None  # nothing to compare with
    assert load_drafter(folder, target).name == tmp_path.name


@pytest.mark.parametrize("method", ["moa-n1", "eagle2", "medusa"])
def test_a_drafter_of_other_weights_drafts_and_says_so(
    tmp_path: Path, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    target, other = tiny_target(seed=0), tiny_target(seed=1)
    folder = saved(tmp_path / "mine", method, target)
    assert load_drafter(folder, target).note == "" and not caplog.messages
    drafter = load_drafter(folder, other)
    assert "mine was trained on a target with other weights than tiny-llama-1" in drafter.note
    assert "(tiny-llama-0): text stays exact" in drafter.note and caplog.messages == [drafter.note]
    prompt = [5, 9, 33, 7]
    trace = Trace(events=list(decode(other, drafter, prompt, Settings(20))))
    assert trace.output_ids == plain_greedy(other, prompt, 20)


def test_a_targets_mark_is_of_its_weights_and_not_of_how_they_are_held(tmp_path: Path) -> None:
    target = tiny_target(layers=2)
    target.model.to(torch.bfloat16)
    known = weights_mark(target)
    save_target(tmp_path, target)
    assert weights_mark(load_target(str(tmp_path), "float32", "cpu")) == known
    assert weights_mark(load_target(str(tmp_path), "bfloat16", "cpu")) == known
    assert weights_mark(load_target(str(tmp_path), "float16", "cpu")) is None
    tuned = load_target(str(tmp_path), "float32", "cpu")
    tuned.layers[1].self_attn.q_proj.weight.data.mul_(1.02)
    assert weights_mark(tuned) not in (None, known)


def test_a_drafter_that_knows_no_weights_says_nothing(tmp_path: Path) -> None:
    target = tiny_target()
    folder = saved(tmp_path, "moa-n0", target)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["drafter"]["target"]["weights"]
    edit(tmp_path, **config)
    assert load_drafter(folder, tiny_target(seed=1)).note == ""
