"""Drafter files: written, read back, and refused with a sentence when they do not fit."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.base import Drafter
from moa_core.drafters.moa import MoADrafter
from moa_core.errors import UserError
from moa_core.loading import drafter_files
from moa_core.loading.drafter_files import save_drafter, weights_hash
from moa_core.loading.load import load_drafter, load_target
from moa_core.model.target import Target
from tests.models import (
    draft_alike,
    drafter_of,
    edit_config,
    lossless,
    save_target,
    speaking_target,
    tiny_target,
    useful,
    variant,
)

METHODS = ("moa-n0", "moa-n2", "eagle2")
WEIGHTS = "model.safetensors"
TREE = {"depth": 4, "breadth": 2, "budget": 7}
FULL = SafetensorError("I/O error: No space left on device (os error 28)")


def saved(folder: Path, method: str | Drafter, target: Target) -> str:
    drafter = useful(method, target) if isinstance(method, str) else method
    save_drafter(folder, drafter, target, {"tree": TREE}, torch.float32)
    return str(folder)


def strip(folder: Path) -> None:
    """Leave a config without sizes, as the authors' unconverted ones."""
    (folder / "config.json").write_text('{"architectures": ["MOASpec"]}')


def refused(folder: str, target: Target, tli: int | None = None) -> str:
    with pytest.raises(UserError) as caught:
        load_drafter(folder, target, tli)
    sentence = str(caught.value)
    assert "\n" not in sentence and sentence.endswith(".")
    return sentence


@pytest.mark.usefixtures("plain_torch")
@pytest.mark.parametrize(
    ("method", "sizes", "silent"),
    [
        *((method, {}, silent) for method in METHODS for silent in (False, True)),
        *((method, {}, False) for method in ("eagle3", "medusa", "tandem", "independent")),
        ("moa-n2", {"family": "qwen3", "head_dim": 12}, True),
        # LSA's heads are then not the target's: the config has to say so.
        ("moa-n0", {"hidden_size": 40, "num_attention_heads": 5, "num_key_value_heads": 1}, False),
        ("moa-n2", {"attention_bias": True, "mlp_bias": True}, False),
        ("eagle2", {"attention_bias": True, "mlp_bias": True}, False),
    ],
)  # fmt: skip
def test_a_saved_drafter_drafts_as_before(tmp_path, method, sizes, silent):
    target = tiny_target(**sizes)
    drafter = drafter_of(method, target)
    if silent and isinstance(drafter, MoADrafter):  # silence means the paper's pooling
        drafter.net.config = replace(drafter.net.config, pool="mean")
    folder = saved(tmp_path / method, drafter, target)
    if silent:
        strip(tmp_path / method)
    back = load_drafter(folder, target, int(method[-1]) if silent and "moa" in method else None)
    assert type(back) is type(drafter) and back.name == method
    assert method == "independent" or back.net.config == drafter.net.config
    assert back.tree == (TreeSettings() if silent else TreeSettings(**TREE))
    assert not isinstance(back, MoADrafter) or back.tli == int(method[-1])
    assert draft_alike(target, back, drafter)


def test_a_drafter_that_cannot_be_written_leaves_the_one_before(tmp_path, monkeypatch):
    target = tiny_target()
    folder = saved(tmp_path, "moa-n0", target)
    monkeypatch.setattr(drafter_files, "save_file", Mock(side_effect=FULL))
    with pytest.raises(UserError, match=r"cannot be written to .*: I/O error: No space"):
        saved(tmp_path, "moa-n2", target)
    assert load_drafter(folder, target).tli == 0


@pytest.mark.usefixtures("plain_torch")
def test_a_drafter_without_lsa_reads_the_last_layer_alone(tmp_path):
    target = tiny_target()
    drafter = variant("without LSA", target)
    back = load_drafter(saved(tmp_path, drafter, target), target)
    assert back.net.config.lsa is None and draft_alike(target, back, drafter)
    vectors = torch.randn(2, 3, target.kv_width)
    changed = vectors.clone()
    changed[:, :-1] = 0
    assert torch.equal(drafter.net.memory(vectors, None), drafter.net.memory(changed, None))


@pytest.mark.parametrize(
    ("method", "silent", "tli", "words"),
    [
        ("moa-n2", False, 1, "mine was trained for TLI N=2 and cannot draft with N=1"),
        ("moa-n2", True, None, 0), ("moa-n2", True, 3, 3),
        ("moa-n2", True, 4, "TLI N must be from 0 to 3"),
        ("eagle2", False, 1, "mine is not a MoA drafter, so TLI does not apply"),
    ],
)  # fmt: skip
def test_n_is_the_one_of_the_training(tmp_path, method, silent, tli, words):
    target = tiny_target()
    folder = saved(tmp_path / "mine", method, target)
    if silent:
        strip(tmp_path / "mine")
    if isinstance(words, int):
        assert load_drafter(folder, target, tli).tli == words
    else:
        assert refused(folder, target, tli).startswith(words)


def put(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(content)


def cut(keep: int) -> Callable[[Path], object]:
    return lambda folder: (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:keep])


def keys(**changes: Any) -> Callable[[Path], object]:
    return lambda folder: edit_config(folder, **changes)


DAMAGES: list[tuple[Callable[[Path], object], str]] = [
    *((put("config.json", text), "config.json") for text in (b"[1]", b"{", b"\xff")),
    *((cut(keep), "damaged or cut short") for keep in (0, -1)),
    (lambda folder: (folder / "config.json").unlink(), "has no config.json"),
    (lambda folder: (folder / WEIGHTS).unlink(), "has no model.safetensors"),
    (
        lambda folder: [strip(folder), save_file({"weight": torch.zeros(2, 2)}, folder / WEIGHTS)],
        "mine holds neither a MoA drafter nor any other drafter known here.",
    ),
    (keys(drafter=7), "whose drafter is"),
    (keys(drafter={"tree": {"depth": "deep"}}), "mine has a config.json with a wrong tree. Tree d"),
    (keys(drafter={"target": {"shape": 5}}), "whose shape is 5"),
    (keys(num_attention_heads=3), "3 heads do not fit"),
    (keys(num_attention_heads=-4), "whose num_attention_heads is -4: Expected `int` >= 1"),
    (keys(rms_norm_eps="small"), "whose rms_norm_eps is 'small'"),
    (keys(vocab_size="64"), "vocabulary is 64, the target's is 64."),
    # These three are MoA's alone.
    (keys(drafter={"tli": -1}), "whose tli is -1"),
    (keys(drafter={"lsa_heads": 3}), "3 heads do not fit 32 rows of layer_self_attention"),
    (keys(drafter={"lsa_pool": "max"}), "max"),
]


@pytest.mark.parametrize(
    ("method", "change", "words"),
    [*(("moa-n0", *row) for row in DAMAGES), *(("eagle2", *row) for row in DAMAGES[:-3:4])],
)
def test_a_damaged_folder_is_refused(tmp_path, method, change, words):
    target = tiny_target()
    folder = saved(tmp_path / "mine", method, target)
    change(tmp_path / "mine")
    assert words in refused(folder, target)


@pytest.mark.parametrize("method", ["moa-n0", "eagle2"])
def test_every_tensor_that_is_missing_or_of_another_shape_is_named(tmp_path, method):
    target = tiny_target(attention_bias=True, mlp_bias=True)
    folder = saved(tmp_path, method, target)
    tensors = load_file(tmp_path / WEIGHTS)
    for name, tensor in tensors.items():
        save_file({key: value for key, value in tensors.items() if key != name}, tmp_path / WEIGHTS)
        sentence = refused(folder, target)
        # Without some tensors a file cannot be told to be a drafter at all.
        assert name in sentence or "neither a MoA drafter nor any other" in sentence, sentence
        save_file({**tensors, name: torch.cat([tensor, tensor[:1]], 0)}, tmp_path / WEIGHTS)
        refused(folder, target)


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"hidden_size": 48}, "hidden size is 32, the target's is 48."),
        ({"layers": 5}, "number of layers is 3, the target's is 5."),
        ({"num_attention_heads": 8, "head_dim": 8}, "number of heads is 4, the target's is 8."),
        ({"num_key_value_heads": 1}, "number of kv heads is 2, the target's is 1."),
        ({"head_dim": 16}, "head size is 8, the target's is 16."),
        ({"vocab_size": 99}, "vocabulary is 64, the target's is 99."),
        (
            {"rope_parameters": {"rope_type": "default", "rope_theta": 77_000.0}},
            "the two differ in their RoPE settings.",
        ),
    ],
)
def test_a_drafter_of_another_target_is_refused_with_the_mismatch(tmp_path, sizes, words):
    other = tiny_target(**sizes)
    sentence = refused(saved(tmp_path / "mine", "moa-n2", tiny_target()), other)
    assert sentence.startswith("mine does not fit this target: ") and words in sentence


def test_a_drafter_trained_with_another_tokenizer_is_refused(tmp_path):
    target = speaking_target()
    folder = saved(tmp_path, "moa-n0", target)
    assert load_drafter(folder, target).name == tmp_path.name
    edit_config(tmp_path, ours={"target": {"tokenizer": "0123456789abcdef"}})
    assert "another tokenizer" in refused(folder, target)
    target.tokenizer = None  # nothing to compare with
    assert load_drafter(folder, target).name == tmp_path.name


@pytest.mark.parametrize("method", ["moa-n1", "eagle2"])
def test_a_drafter_of_other_weights_drafts_and_says_so(tmp_path, method, caplog):
    target, other = tiny_target(seed=0), tiny_target(seed=1)
    folder = saved(tmp_path / "mine", method, target)
    assert load_drafter(folder, target) and not caplog.messages
    drafter = load_drafter(folder, other)
    (said,) = caplog.messages
    assert "mine was trained on a target with other weights than tiny-llama-1" in said
    assert "(tiny-llama-0): text stays exact" in said
    lossless(other, drafter, [5, 9, 33, 7], 20)
    edit_config(tmp_path / "mine", ours={"target": {}})  # nothing to compare with
    assert load_drafter(folder, other) and caplog.messages == [said]


def test_a_targets_hash_is_of_its_weights_and_not_of_how_they_are_held(tmp_path):
    target = tiny_target(layers=2)
    target.model.to(torch.bfloat16)
    known = weights_hash(target)
    save_target(tmp_path, target)
    for dtype, wanted in (("float32", known), ("bfloat16", known), ("float16", None)):
        assert weights_hash(load_target(str(tmp_path), dtype, "cpu")) == wanted
    tuned = load_target(str(tmp_path), "float32", "cpu")
    tuned.layers[1].self_attn.q_proj.weight.data.mul_(1.02)
    assert weights_hash(tuned) not in (None, known)
