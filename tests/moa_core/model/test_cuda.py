"""On a GPU: every method's greedy text is the target's own, in bfloat16 and float32."""

from pathlib import Path

import pytest
import torch

from moa_core.decoding.tree import TreeSettings
from moa_core.decoding.verify import Sampling
from moa_core.loading.load import load_target, pick_dtype
from moa_core.runtime import free_bytes
from tests.moa_core.model.test_quantised import PROMPTS, check_texts, written
from tests.models import save_pair

METHODS = ("vanilla", "moa-n0", "moa-n1", "moa-n2", "eagle2")
TREES = (TreeSettings(5, 4, 12), TreeSettings(6, 8, 62))
NEAR_TIE = {"float32": 1e-3, "bfloat16": 0.5}  # of logits six apart on the average
pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    return save_pair(folder, METHODS[1:], hidden_size=128, intermediate_size=256)


@pytest.mark.parametrize("dtype", NEAR_TIE)
def test_lossless_on_a_gpu(saved, dtype):
    target = load_target(str(saved / "target"), dtype, "cuda")
    assert target.device.type == "cuda" and target.dtype == getattr(torch, dtype)
    check_texts(target, saved, NEAR_TIE[dtype], METHODS, TREES, 48, 50)


@pytest.mark.parametrize("bits", [8, 4])
def test_lossless_on_a_gpu_quantised(saved, bits):
    pytest.importorskip("bitsandbytes")
    target = load_target(str(saved / "target"), "bfloat16", "cuda", bits=bits)
    check_texts(target, saved, NEAR_TIE["bfloat16"], METHODS, TREES, 48, 50)


def test_sampled_text_is_the_same_for_a_seed(saved):
    target = load_target(str(saved / "target"), "float32", "cuda")
    draws = Sampling(0.8, seed=3)
    texts = [
        written(target, saved, method, PROMPTS[1], sampling=draws).output_ids for method in METHODS
    ]
    assert all(text == texts[0] for text in texts)


def test_memory_of_a_gpu_is_asked(saved):
    assert pick_dtype("auto", torch.device("cuda")) is torch.bfloat16
    assert free_bytes(torch.device("cuda")) > 0
