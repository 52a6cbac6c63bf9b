"""What a checkpoint of models spread over processes holds; what cannot be spread is refused.

FSDP is real here, with one process. Several real processes: test_processes.py, in minutes.
"""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from accelerate.utils import DistributedType
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from moa_core.errors import UserError
from moa_core.train import states

FSDP, DEEPSPEED, ALONE = DistributedType.FSDP, DistributedType.DEEPSPEED, DistributedType.NO


def spread(kind: DistributedType, **more: Any) -> Any:
    """As much of an accelerator as is asked here."""
    defaults = {
        "distributed_type": kind, "num_processes": 2, "gradient_accumulation_steps": 2,
        "is_fsdp2": True, "is_main_process": True, "device": torch.device("cpu"),
    }  # fmt: skip
    return SimpleNamespace(**{**defaults, **more})


# ---- what can be spread ----


def test_rows_are_shared_out_evenly_or_not_at_all() -> None:
    assert states.check(spread(ALONE), 12) == 3
    for rows in (6, 2, 0):
        with pytest.raises(UserError, match=f"^{rows} rows cannot .* 2 processes times 2 acc"):
            states.check(spread(ALONE), rows)


def test_the_first_fsdp_is_refused() -> None:
    assert states.check(spread(FSDP), 8) == 2
    with pytest.raises(UserError, match="set fsdp_version: 2"):
        states.check(spread(FSDP, is_fsdp2=False), 8)


def test_deepspeed_is_refused() -> None:
    with pytest.raises(UserError, match="DeepSpeed is not supported"):
        states.check(spread(DEEPSPEED), 8)


# ---- FSDP ----


@pytest.fixture
def alone() -> Iterator[None]:
    """A group of one process."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def sharded(seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Two models whose weights are DTensors, each with an optimiser that has taken two steps."""
    torch.manual_seed(seed)
    models = {name: nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 2)) for name in ("a", "b")}
    for model in models.values():
        fully_shard(model, mesh=init_device_mesh("cpu", (1,)))
    optimisers = {name: [torch.optim.AdamW(model.parameters())] for name, model in models.items()}
    for name in models:
        for _ in range(2):
            models[name](torch.randn(3, 4)).square().sum().backward()
            optimisers[name][0].step()
            optimisers[name][0].zero_grad()
    return models, optimisers


def step(models: dict[str, Any], optimisers: dict[str, Any]) -> list[torch.Tensor]:
    """All weights after one step more, which what the optimisers know has its part in."""
    torch.manual_seed(9)
    found: list[torch.Tensor] = []
    for name, model in models.items():
        model(torch.randn(3, 4)).square().sum().backward()
        optimisers[name][0].step()
        found += [weight.full_tensor().detach() for weight in model.parameters()]
    return found


def test_a_run_under_fsdp_goes_on_where_its_checkpoint_was_written(
    tmp_path: Path, alone: None
) -> None:
    accelerator = spread(FSDP)
    models, optimisers = sharded(0)
    states.save(accelerator, tmp_path, {"update": 2}, models, models, optimisers)
    state = states.load(tmp_path)
    assert state is not None and state["update"] == 2
    for weight in state["models"]["a"].values():  # whole: any number of processes may take it
        assert type(weight) is torch.Tensor
    others, their_optimisers = sharded(1)
    states.restore(accelerator, tmp_path, state, others, others, their_optimisers)
    for ours, theirs in zip(step(models, optimisers), step(others, their_optimisers), strict=True):
        assert torch.equal(ours, theirs)


def test_gradients_are_clipped_by_the_norm_of_all_processes(alone: None) -> None:
    models, _ = sharded(0)
    models["a"](torch.randn(3, 4)).square().sum().mul(100).backward()
    grads = [weight.grad.full_tensor() for weight in models["a"].parameters()]
    norm = torch.cat([grad.flatten() for grad in grads]).norm()
    torch.testing.assert_close(states.clip(spread(FSDP), models["a"], 1.0), norm)
    clipped = [weight.grad.full_tensor() for weight in models["a"].parameters()]
    torch.testing.assert_close(
        torch.cat([grad.flatten() for grad in clipped]).norm(), torch.tensor(1.0)
    )


def test_a_run_goes_on_as_it_was_spread_or_not_at_all(tmp_path: Path, alone: None) -> None:
    models, optimisers = sharded(0)
    states.save(spread(FSDP), tmp_path, {"update": 2}, models, models, optimisers)
    state = states.load(tmp_path)
    assert state is not None
    with pytest.raises(UserError, match="was begun under FSDP: go on the same way"):
        states.restore(spread(ALONE), tmp_path, state, models, models, optimisers)
