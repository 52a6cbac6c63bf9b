"""A target spread over devices by accelerate decodes as one that lies in one piece.

The devices here are main memory and disk: weights on disk wait as tensors without memory, and
accelerate's hooks fetch them when a layer runs, just as between GPUs.
"""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from moa_core.decoding.trace import Drafted, Trace
from moa_core.decoding.tree import TreeSettings
from moa_core.link.client_weights import WEIGHTS, write
from moa_core.loading.load import Plan, load_drafter, load_target
from moa_core.loading.untrusted import read_config
from moa_core.model.target import Target, computes_on, is_split
from tests.models import plain_greedy, save_pair, traced

PARTS = ("model.embed_tokens", "model.layers.0", "model.layers.1", "model.layers.2", "model.norm")
PROMPT = [5, 9, 33, 7, 21, 40, 11]
MAPS = {
    "a layer in the middle": ("model.layers.1",),
    "the layers that TLI reuses, norm and head": ("model.layers.2", "model.norm", "lm_head"),
    "the embeddings": ("model.embed_tokens",),
    "everything but the first layer": (*PARTS[:1], *PARTS[2:], "lm_head"),
}


METHODS = ("moa-n0", "moa-n1", "moa-n2", "eagle2")


@pytest.fixture(scope="module", params=["llama", "qwen2", "llama, tied"])
def saved(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folders of a target and its drafters."""
    family, _, tied = request.param.partition(",")
    folder = tmp_path_factory.mktemp("models")
    return save_pair(folder, METHODS, family=family, tie_word_embeddings=bool(tied))


def spread(folder: Path, on_disk: tuple[str, ...]) -> Target:
    """Loaded with these parts on disk; tied embeddings and head are one part."""
    tied = read_config(folder / "target")["tie_word_embeddings"]
    if tied and {"model.embed_tokens", "lm_head"} & set(on_disk):
        on_disk = (*on_disk, "model.embed_tokens", "lm_head")
    places: dict[str, Any] = dict.fromkeys((*PARTS, "model.rotary_emb", "lm_head"), "cpu")
    places |= dict.fromkeys(on_disk, "disk")
    return load_target(str(folder / "target"), "float32", "cpu", Plan(device_map=places))


def written(target: Target, method: str, folder: Path) -> Trace:
    drafter = load_drafter(method if method == "vanilla" else str(folder / method), target)
    return traced(target, drafter, PROMPT, max_new_tokens=24, tree=TreeSettings(4, 3, 12))


@pytest.mark.parametrize("name", MAPS)
def test_a_split_target_decodes_as_a_whole_one(saved: Path, name: str) -> None:
    on_disk = MAPS[name]
    whole = load_target(str(saved / "target"), "float32", "cpu")
    split = spread(saved, on_disk)
    assert is_split(split.model) and not is_split(whole.model)
    waiting = [name for name, weight in split.model.named_parameters() if weight.is_meta]
    assert all(
        any(name.startswith(part) for name in waiting) for part in on_disk if "head" not in part
    )
    expected, accepted = plain_greedy(whole, PROMPT, 24), 0
    for method in ("vanilla", *METHODS):
        one, other = written(whole, method, saved), written(split, method, saved)
        assert one.output_ids == other.output_ids == expected, method
        trees = [[event.tree.tokens for event in each.of(Drafted)] for each in (one, other)]
        assert trees[0] == trees[1], method
        accepted += sum(one.accepted_lengths) - len(one.accepted_lengths)
    assert accepted > 0


def test_what_is_on_disk_has_a_place_to_compute(saved: Path) -> None:
    split = spread(saved, (*PARTS, "lm_head"))
    assert split.device == torch.device("cpu") and split.dtype == torch.float32
    assert all(computes_on(layer).type == "cpu" for layer in split.layers)


def test_auto_leaves_the_map_to_accelerate(saved: Path) -> None:
    target = load_target(str(saved / "target"), "float32", "cpu", Plan(device_map="auto"))
    expected = plain_greedy(target, PROMPT, 24)
    assert written(target, "moa-n1", saved).output_ids == expected


def test_a_client_gets_what_a_server_has_on_disk(saved: Path, tmp_path: Path) -> None:
    whole = load_target(str(saved / "target"), "float32", "cpu")
    split = spread(saved, ("model.layers.2", "model.norm", "lm_head"))
    for number, target in enumerate((whole, split)):
        (tmp_path / str(number)).mkdir()
        write(target, 1, tmp_path / str(number))
    one, other = (load_file(tmp_path / name / WEIGHTS) for name in "01")
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


@pytest.mark.cuda
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_two_gpus_write_what_one_does(saved: Path) -> None:
    places: dict[str, Any] = dict.fromkeys((*PARTS[:2], "model.rotary_emb"), "cuda:0")
    places |= dict.fromkeys((*PARTS[2:], "lm_head"), "cuda:1")
    folder = str(saved / "target")
    two = load_target(folder, "float32", "cuda", Plan(device_map=places))
    expected = plain_greedy(load_target(folder, "float32", "cuda:0"), PROMPT, 24)
    assert two.device == torch.device("cuda:1")
    for method in ("vanilla", *METHODS):
        assert written(two, method, saved).output_ids == expected, method
