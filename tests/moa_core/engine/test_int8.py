"""A target in 8 bits: what it tells others is close to float32, and exact whatever is beside it."""

import random
from typing import Any

import pytest
import torch
from torch import Tensor

from moa_core.decoding.settings import Settings, about
from moa_core.decoding.tree import DraftTree, TreeSettings
from moa_core.engine import accelerate, accelerate_drafter, int8
from moa_core.engine.target import OnnxTarget
from moa_core.errors import UserError
from moa_core.loading.load import load_target
from tests.models import BUSH, save_target, tiny_target, traced, useful

pytestmark = pytest.mark.usefixtures("cache")
PROMPT = [(i * i + 3) % 60 for i in range(21)]
SHAPES: dict[str, dict[str, Any]] = {
    "llama": {"hidden_size": 64},
    "llama, blocks of 8": {"hidden_size": 40, "num_attention_heads": 5, "num_key_value_heads": 1},
    "llama, all biases": {"attention_bias": True, "mlp_bias": True, "head_dim": 16},
    "llama, tied": {"tie_word_embeddings": True},
    "llama, blocks of 4 and 2": {"hidden_size": 36, "intermediate_size": 54, "head_dim": 16},
    "qwen2": {"family": "qwen2", "head_dim": 16},
    "qwen3": {"family": "qwen3", "head_dim": 24},
}  # fmt: skip


@pytest.mark.parametrize("top", [127, 63])
@pytest.mark.parametrize("shape", SHAPES)
@torch.inference_mode()
def test_what_others_read_is_close_to_float32_and_in_the_models_own_basis(shape, top, monkeypatch):
    if top > int8.largest():
        pytest.skip("This processor adds up products in 16 bits: its weights have 7.")
    monkeypatch.setattr(int8, "largest", lambda: top)
    slow = tiny_target(**SHAPES[shape])
    slow.embed.weight[7] = 0  # a row without a largest number
    said: list[list[Tensor]] = []
    for run in (slow.fork(), accelerate(slow, int8=True).fork()):
        run.taps = (0, 2)
        logits, seen = run.prefill(PROMPT, 64)
        parts = [logits, seen.hidden, *seen.keys_values().clone()]
        parts.append(run.verify(BUSH))
        seen = run.keep((2, 6))
        said.append([*parts, seen.hidden, *seen.keys_values()])
    off = []
    for one, other in zip(*said, strict=True):
        assert torch.isfinite(other).all()
        off.append(float((one - other).norm() / one.norm()))
    assert min(off) > 0 and max(off) < (0.06 if top == 127 else 0.12)


def bush(chain: list[int], count: int, seed: int) -> tuple[DraftTree, list[int]]:
    """A tree of `count` nodes with this path among others, and the places of its nodes."""
    rng, tokens, parents, depths = random.Random(seed), [chain[0]], [-1], [0]
    places = [0, *sorted(rng.sample(range(1, count), min(len(chain), count) - 1))]
    for place in range(1, count):
        above = [one for one in places if one < place]  # of the path
        mine = place in places
        parents.append(above[-1] if mine else rng.randrange(place))
        tokens.append(chain[len(above)] if mine else rng.randrange(60))
        depths.append(depths[parents[-1]] + 1)
    return DraftTree(tuple(tokens), tuple(parents), tuple(depths), (0.0,) * count), places


@pytest.mark.parametrize("shape", SHAPES)
@torch.inference_mode()
def test_a_tokens_logits_are_bit_equal_alone_and_in_any_tree(shape):
    """Its K and V as well."""
    target, chain = accelerate(tiny_target(**SHAPES[shape]), int8=True), [5, 33, 9, 41, 17, 2]
    plain, logits = target.fork(), []
    plain.prefill(PROMPT, 240)
    for token in chain:
        logits.append(plain.verify(DraftTree.only_root(token))[0])
        plain.keep(())
    known = plain._cache.read(len(PROMPT), len(PROMPT) + len(chain))
    for count in (2, 3, 12, 32, 63):
        for seed in range(4):
            run = target.fork()
            run.prefill(PROMPT, 240)
            tree, places = bush(chain, count, seed)
            found = run.verify(tree)
            for place, expected in zip(places, logits, strict=False):
                assert torch.equal(found[place], expected), (count, seed, place)
            keys_values = run.keep(places[1:]).keys_values()
            assert torch.equal(keys_values, known[..., : len(places), :])
            if len(places) < len(chain):  # behind a cache that was closed up
                rest = len(places)
                tree, places = bush(chain[rest:], 12, seed)
                found = run.verify(tree)
                for place, expected in zip(places, logits[rest:], strict=False):
                    assert torch.equal(found[place], expected)


@pytest.mark.parametrize("method", ["moa-n0", "moa-n2", "eagle2", "eagle3", "independent"])
def test_the_text_is_that_of_plain_decoding_in_int8(method):
    slow = tiny_target(scale=12.0)
    target = accelerate(slow, int8=True)
    drafter = accelerate_drafter(useful(method, slow), target, True)
    plain = traced(target, "vanilla", PROMPT, max_new_tokens=40, eos_ids=())
    for tree in (TreeSettings(), TreeSettings(3, 5, 14)):
        found = traced(target, drafter, PROMPT, max_new_tokens=40, tree=tree, eos_ids=())
        assert found.output_ids == plain.output_ids
        assert found.tau > 1.2 or method == "eagle3"  # drafts fit the target
    assert about(target, drafter, Settings())["machine"]["dtype"] == "int8"


@torch.inference_mode()
def test_weights_are_rounded_once_and_then_mapped(cache, monkeypatch, caplog):
    with torch.inference_mode(False):
        slow = tiny_target()
    first = accelerate(slow, int8=True).fork().prefill(PROMPT, 40)[0]
    path = max(cache.iterdir(), key=lambda path: path.stat().st_size)  # the other is the head's
    rounding, count = int8.folded, len(list(cache.iterdir()))
    monkeypatch.setattr(int8, "folded", None)  # cannot be called
    assert torch.equal(accelerate(slow, int8=True).fork().prefill(PROMPT, 40)[0], first)
    monkeypatch.setattr(int8, "folded", rounding)
    path.write_bytes(path.read_bytes()[:999])  # damaged: it is written again
    assert torch.equal(accelerate(slow, int8=True).fork().prefill(PROMPT, 40)[0], first)
    assert path.stat().st_size > 999
    slow.layers[0].mlp.down_proj.weight.mul_(2)  # other weights, another file
    assert not torch.equal(accelerate(slow, int8=True).fork().prefill(PROMPT, 40)[0], first)
    assert len(list(cache.iterdir())) == count + 1
    slow.layers[0].mlp.down_proj.weight.mul_(2)
    monkeypatch.setenv("MOA_CACHE", str(path))  # a file: nothing can be kept in it
    assert type(accelerate(slow, int8=True)) is OnnxTarget
    assert "cannot be kept" in caplog.text


def test_int8_is_loaded_by_name_and_refused_where_it_cannot_be(tmp_path, monkeypatch):
    save_target(tmp_path / "model", tiny_target())
    assert load_target(tmp_path / "model", "int8", "cpu").precision == "int8"
    with pytest.raises(UserError, match="int8 runs on a CPU"):
        load_target(tmp_path / "model", "int8", "cpu", bits=8)
    monkeypatch.setattr("moa_core.loading.load.pick_device", lambda _: torch.device("cuda"))
    with pytest.raises(UserError, match="int8 runs on a CPU"):
        load_target(tmp_path / "model", "int8")
    with pytest.raises(UserError, match="cannot run in int8"):
        accelerate(tiny_target(hidden_act="gelu"), int8=True)


def test_a_processor_that_is_slow_with_integers_is_named(monkeypatch, caplog):
    monkeypatch.setattr(int8, "largest", lambda: 63)
    for times, found in (([2.0, 1.0], True), ([1.0, 2.0], False)):
        left = iter(times)
        monkeypatch.setattr(int8, "repeat", lambda *_, left=left, **more: [next(left), 9.0])
        int8.slower.cache_clear()
        assert int8.slower() is found
    assert "0.5 x the speed of float32" in caplog.text
