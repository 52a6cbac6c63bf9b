"""Drafter files: written, read back, and refused with a sentence when they are damaged."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Drafted, Trace
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.base import Drafter
from moa_core.drafters.eagle import EagleDrafter
from moa_core.drafters.moa import MoAConfig, MoADrafter, MoANet, Sizes
from moa_core.loading.checkpoints import load_drafter, load_target
from moa_core.loading.formats import read_config, save_drafter
from moa_core.loading.shapes import bare_net
from moa_core.model.target import Target
from moa_core.train.init import fresh
from tests.moa_core.folders import METHODS, TREE, WEIGHTS, edit, refused, save, saved
from tests.models import save_target, speaking_target, tiny_target, useful


def strip(folder: Path) -> None:
    """Leave a config that says nothing about sizes, as the authors' unconverted ones."""
    (folder / "config.json").write_text('{"architectures": ["MOASpec"]}')


def drafts(target: Target, drafter: Drafter) -> list[Any]:
    run = decode(target, drafter, [5, 9, 3], Settings(12, TreeSettings(3, 3, 9)))
    return [event.tree for event in Trace(events=list(run)).of(Drafted)]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "sizes",
    [
        {},
        {"hidden_size": 40, "num_attention_heads": 5, "num_key_value_heads": 1},
        {"family": "qwen3", "head_dim": 12},
        {"attention_bias": True, "mlp_bias": True},
    ],
    ids=["llama", "5 heads", "qwen3", "biases"],
)
def test_a_saved_drafter_drafts_as_before(
    tmp_path: Path, method: str, sizes: dict[str, Any]
) -> None:
    target = tiny_target(**sizes)
    drafter = useful(method, target)
    back = load_drafter(save(tmp_path / method, drafter, target), target)
    assert type(back) is type(drafter)
    assert isinstance(back, MoADrafter | EagleDrafter)
    assert back.net.config == drafter.net.config
    assert back.name == method
    assert back.tree == TreeSettings(**TREE)
    if isinstance(back, MoADrafter):
        assert back.tli == int(method[-1])
    assert drafts(target, back) == drafts(target, drafter)


@pytest.mark.parametrize("method", METHODS)
def test_sizes_are_inferred_where_a_config_is_silent(tmp_path: Path, method: str) -> None:
    target = tiny_target()
    drafter = useful(method, target)
    if isinstance(drafter, MoADrafter):  # silence means the paper's pooling
        drafter.net.config = replace(drafter.net.config, pool="mean")
    folder = save(tmp_path, drafter, target)
    strip(tmp_path)
    back = load_drafter(folder, target, 2 if method == "moa-n2" else None)
    assert isinstance(back, MoADrafter | EagleDrafter)
    assert back.net.config == drafter.net.config
    assert back.tree == TreeSettings()
    assert drafts(target, back) == drafts(target, drafter)


@pytest.mark.parametrize("method", METHODS)
def test_a_config_alone_tells_the_shapes_of_its_tensors(tmp_path: Path, method: str) -> None:
    """As published ones do: what a drafter will need is reckoned before it is downloaded."""
    target = tiny_target()
    saved(tmp_path, method, target)
    net = bare_net(read_config(tmp_path), target.config)
    shapes = {name: value.shape for name, value in load_file(tmp_path / WEIGHTS).items()}
    assert {name: value.shape for name, value in net.state_dict().items()} == shapes


def test_a_silent_config_means_n_0(tmp_path: Path) -> None:
    target = tiny_target()
    folder = saved(tmp_path, "moa-n2", target)
    strip(tmp_path)
    back = load_drafter(folder, target)
    assert isinstance(back, MoADrafter) and back.tli == 0


def test_a_drafter_without_lsa_reads_the_last_layer_alone(tmp_path: Path) -> None:
    target = tiny_target()
    one = Sizes(4, 1, 8, 24)
    net = MoANet(MoAConfig(32, target.kv_width, one, one, None, 1e-6))
    drafter = MoADrafter(net.requires_grad_(False), target)
    back = load_drafter(save(tmp_path, drafter, target), target)
    assert isinstance(back, MoADrafter) and back.net.config.lsa is None
    assert drafts(target, back) == drafts(target, drafter)
    vectors = torch.randn(2, 3, target.kv_width)
    changed = vectors.clone()
    changed[:, :-1] = 0
    assert torch.equal(net.memory(vectors, None), net.memory(changed, None))


def test_weights_are_written_in_the_dtype_asked_for_and_read_in_the_targets(
    tmp_path: Path,
) -> None:
    target = tiny_target()
    save_drafter(tmp_path, fresh("eagle2", target, 0), target, {}, torch.bfloat16)
    stored = load_file(tmp_path / WEIGHTS)
    assert {tensor.dtype for tensor in stored.values()} == {torch.bfloat16}
    back = load_drafter(str(tmp_path), target)
    assert isinstance(back, EagleDrafter)
    assert {p.dtype for p in back.net.parameters()} == {torch.float32}
    assert not any(p.requires_grad for p in back.net.parameters())


def test_another_n_than_the_trained_one_is_refused(tmp_path: Path) -> None:
    target = tiny_target()
    none = saved(tmp_path / "none", "moa-n0", target)
    assert refused(none, target, 1).startswith("none was trained for TLI N=0 and cannot")
    folder = saved(tmp_path / "mine", "moa-n2", target)
    assert refused(folder, target, 1).startswith(
        "mine was trained for TLI N=2 and cannot draft with N=1"
    )
    strip(tmp_path / "mine")  # a config that does not know N takes any that the target has
    assert load_drafter(folder, target, 3).name == "mine"
    assert refused(folder, target, 4).startswith("TLI N must be from 0 to 3")
    assert refused(folder, target, -1).startswith("TLI N must be from 0 to 3")


def test_eagle_has_no_n(tmp_path: Path) -> None:
    target = tiny_target()
    folder = saved(tmp_path, "eagle2", target)
    assert "TLI is a part of MoA" in refused(folder, target, 1)
    assert isinstance(load_drafter(folder, target, 0), EagleDrafter)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("keep", [0, 4, 100, 5000, -1])
def test_truncated_weights_are_refused(tmp_path: Path, method: str, keep: int) -> None:
    target = tiny_target()
    folder = saved(tmp_path, method, target)
    path = tmp_path / WEIGHTS
    path.write_bytes(path.read_bytes()[:keep])
    assert "damaged or cut short" in refused(folder, target)


@pytest.mark.parametrize("biases", [False, True], ids=["", "biases"])
@pytest.mark.parametrize("method", ["moa-n0", "eagle2"])
def test_every_missing_tensor_is_named(tmp_path: Path, method: str, biases: bool) -> None:
    target = tiny_target(attention_bias=biases, mlp_bias=biases)
    folder = saved(tmp_path, method, target)
    tensors = load_file(tmp_path / WEIGHTS)
    for name in tensors:
        rest = {key: value for key, value in tensors.items() if key != name}
        save_file(rest, tmp_path / WEIGHTS)
        sentence = refused(folder, target)
        # Without these a file cannot be told to be a drafter at all.
        known = name in sentence or "neither a MoA drafter nor any other" in sentence
        assert known or (name == "Ekv2E.weight" and "is None" in sentence), (name, sentence)


@pytest.mark.parametrize("method", ["moa-n0", "eagle2"])
def test_every_tensor_of_another_shape_is_refused(tmp_path: Path, method: str) -> None:
    target = tiny_target()
    folder = saved(tmp_path, method, target)
    tensors = load_file(tmp_path / WEIGHTS)
    for name, tensor in tensors.items():
        wrong = {**tensors, name: torch.cat([tensor, tensor[:1]], 0)}
        save_file(wrong, tmp_path / WEIGHTS)
        refused(folder, target)


def test_tensors_that_are_no_drafter_are_refused(tmp_path: Path) -> None:
    save_file({"model.norm.weight": torch.ones(3)}, tmp_path / WEIGHTS)
    (tmp_path / "config.json").write_text("{}")
    sentence = refused(str(tmp_path), tiny_target())
    assert "neither a MoA drafter nor any other" in sentence


@pytest.mark.parametrize("content", ["[1]", "{", "", "3", "null", b"\xff\xfe"])
def test_a_config_that_is_no_object_is_refused(tmp_path: Path, content: str | bytes) -> None:
    target = tiny_target()
    folder = saved(tmp_path, "moa-n0", target)
    data = content if isinstance(content, bytes) else content.encode()
    (tmp_path / "config.json").write_bytes(data)
    assert "config.json" in refused(folder, target)


@pytest.mark.parametrize(
    "drafter",
    [
        7, [1], "moa", {"tree": 3}, {"tree": {"depth": 0}}, {"tree": {"depth": "deep"}},
        {"target": 3}, {"target": {"shape": 5}}, {"tli": "two"}, {"tli": -1}, {"lsa_heads": 3},
        {"lsa_heads": "four"}, {"lsa_pool": "max"}, {"lsa_pool": 3},
    ],
    ids=str,
)  # fmt: skip
def test_nonsense_in_our_own_keys_is_refused(tmp_path: Path, drafter: Any) -> None:
    target = tiny_target()
    folder = saved(tmp_path, "moa-n0", target)
    edit(tmp_path, drafter=drafter)
    refused(folder, target)


@pytest.mark.parametrize(
    "change",
    [
        {"num_attention_heads": 3}, {"num_attention_heads": "4"}, {"num_attention_heads": -4},
        {"rms_norm_eps": "small"}, {"vocab_size": "64"},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("method", ["moa-n0", "eagle2"])
def test_nonsense_in_the_authors_keys_is_refused(
    tmp_path: Path, method: str, change: dict[str, Any]
) -> None:
    target = tiny_target()
    folder = saved(tmp_path, method, target)
    edit(tmp_path, **change)
    refused(folder, target)


def test_missing_files_are_named(tmp_path: Path) -> None:
    target = tiny_target()
    assert refused(str(tmp_path / "none"), target) == f"There is no folder {tmp_path / 'none'}."
    assert "has no config.json" in refused(str(tmp_path), target)
    (tmp_path / "config.json").write_text("{}")
    assert "has no model.safetensors" in refused(str(tmp_path), target)


def test_unknown_tensors_are_no_drafter(tmp_path: Path) -> None:
    target = tiny_target()
    (tmp_path / "config.json").write_text("{}")
    save_file({"weight": torch.zeros(2, 2)}, tmp_path / WEIGHTS)
    wanted = "holds neither a MoA drafter nor any other drafter known here."
    assert refused(str(tmp_path), target).endswith(wanted)


def test_a_target_comes_back_from_its_folder(tmp_path: Path) -> None:
    target = speaking_target()
    save_target(tmp_path / "mine", target)
    back = load_target(str(tmp_path / "mine"))
    assert back.name == "mine" and back.eos_ids == target.eos_ids
    assert not any(p.requires_grad for p in back.model.parameters())
    for name, weight in target.model.state_dict().items():
        assert torch.equal(weight, back.model.state_dict()[name])
