"""Drafters are trained through quantised and spread targets as through plain ones."""

import importlib.util
from pathlib import Path

import pytest
import torch
from torch import Tensor

from moa_core.__main__ import main
from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Trace
from moa_core.decoding.verify import compare_with_plain
from moa_core.loading.load import Plan, load_drafter, load_target
from moa_core.model.target import Target
from moa_core.text import prompt_ids
from moa_core.train.batches import Batch, as_batch
from moa_core.train.drafters import trainee
from moa_core.train.init import fresh
from moa_core.train.losses import Weights
from moa_core.train.masks import on_policy
from moa_core.train.teacher import teach
from tests.models import plain_greedy, save_target, speaking_target, ultrachat

SIZES = {"hidden_size": 64, "intermediate_size": 128}
needs_bitsandbytes = pytest.mark.skipif(
    importlib.util.find_spec("bitsandbytes") is None, reason="bitsandbytes is not installed"
)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("target")
    save_target(folder, speaking_target(**SIZES))
    return folder


def batch() -> Batch:
    ids = torch.randint(5, 270, (2, 40), generator=torch.Generator().manual_seed(0)).numpy()
    response = (torch.arange(40) > 8).expand(2, 40).numpy()
    return as_batch(ids, response, torch.zeros(2, 40).numpy())


def gradients(target: Target, method: str) -> tuple[Tensor, dict[str, Tensor]]:
    """Loss, and gradients of a fresh drafter's weights."""
    net = trainee(fresh(method, target, 0), target, Weights())
    masks = [on_policy(batch(), torch.Generator().manual_seed(0))]
    loss, _ = net(batch(), teach(target, batch(), {1}), masks, 0)
    loss.backward()
    return loss.detach(), {name: weight.grad for name, weight in net.named_parameters()}


@needs_bitsandbytes
def test_the_command_trains_for_a_target_in_4_bits(saved: Path, tmp_path: Path) -> None:
    ultrachat(tmp_path / "data", 40)
    arguments = [
        "train", "drafters", "--target", str(saved), "--data", str(tmp_path / "data"), "--out",
        str(tmp_path / "out"), "--updates", "4", "--rows", "4", "--row-length", "64", "--methods",
        "moa-n0,moa-n1", "--device", "cpu", "--precision", "no", "--watch-times", "0",
    ]  # fmt: skip
    assert main([*arguments, "--load-in-4bit"]) == 0
    target = load_target(str(saved), "float32", "cpu", Plan(4))
    prompt = prompt_ids(target.tokenizer, "What is 3 + 4?")
    for name in ("moa-n0", "moa-n1"):
        drafter = load_drafter(str(tmp_path / "out" / name), target)
        settings = Settings(20, eos_ids=target.eos_ids)
        trace = Trace(events=list(decode(target, drafter, prompt, settings)))
        found = compare_with_plain(
            target, prompt, trace.output_ids, plain_greedy(target, prompt, 20)
        )
        assert found.same or abs(found.gap or 0) < 1e-3
