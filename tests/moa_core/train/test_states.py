"""What a checkpoint of models spread over processes holds; what cannot be spread is refused.

FSDP is real here, with one process. DeepSpeed's engine is a stand-in: what counts is which of its
folders are there, and which one is read. Several real processes: test_processes.py, in minutes.
"""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.utils import DistributedType
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from moa_core.errors import UserError
from moa_core.train import states

FSDP, DEEPSPEED, ALONE = DistributedType.FSDP, DistributedType.DEEPSPEED, DistributedType.NO


def spread(kind: DistributedType, **more: Any) -> Any:
    """As much of an accelerator as is asked here."""
    settings: dict[str, Any] = {}
    plugin = SimpleNamespace(deepspeed_config=settings)
    defaults = {
        "distributed_type": kind, "num_processes": 2, "gradient_accumulation_steps": 2,
        "is_fsdp2": True, "is_main_process": True, "device": torch.device("cpu"),
        "state": SimpleNamespace(deepspeed_plugin=plugin),
    }  # fmt: skip
    return SimpleNamespace(**{**defaults, **more})


# ---- what can be spread ----


def test_rows_are_shared_out_evenly_or_not_at_all() -> None:
    assert states.check(spread(ALONE), {}, 12) == 3
    for rows in (6, 2, 0):
        with pytest.raises(UserError, match=f"^{rows} rows cannot .* 2 processes times 2 acc"):
            states.check(spread(ALONE), {}, rows)


def test_the_first_fsdp_is_refused() -> None:
    assert states.check(spread(FSDP), {}, 8) == 2
    with pytest.raises(UserError, match="set fsdp_version: 2"):
        states.check(spread(FSDP, is_fsdp2=False), {}, 8)


@pytest.mark.parametrize(
    ("name", "kind", "settings"),
    [
        ("ddp", "MULTI_GPU", {}),
        ("fsdp", "FSDP", {"fsdp_version": 2, "fsdp_auto_wrap_policy": "NO_WRAP"}),
        ("deepspeed-zero2", "DEEPSPEED", {"zero_stage": 2, "gradient_clipping": 1.0}),
    ],
)
def test_accelerate_reads_the_configs_and_they_suit_this_training(
    name: str, kind: str, settings: dict[str, Any]
) -> None:
    config = load_config_from_file(str(Path(__file__).parents[3] / "configs" / f"{name}.yaml"))
    assert config.distributed_type == kind and config.mixed_precision == "bf16"
    given = {**config.fsdp_config, **config.deepspeed_config}
    assert settings.items() <= given.items()


def test_deepspeed_trains_one_model_and_is_told_its_share_of_the_rows() -> None:
    accelerator, one = spread(DEEPSPEED), nn.Linear(2, 2)
    assert states.check(accelerator, {"moa-n0": one}, 8) == 2
    assert accelerator.state.deepspeed_plugin.deepspeed_config == {
        "train_micro_batch_size_per_gpu": 2,
        "gradient_accumulation_steps": 2,
    }
    with pytest.raises(UserError, match="one model at a time"):
        states.check(accelerator, {"moa-n0": one, "eagle2": one}, 8)


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
    for kind in (ALONE, DEEPSPEED):
        with pytest.raises(UserError, match="was begun under FSDP: go on the same way"):
            states.restore(spread(kind), tmp_path, state, models, models, optimisers)


# ---- DeepSpeed ----


class Engine(nn.Linear):
    """Writes folders as DeepSpeed's does."""

    def __init__(self) -> None:
        super().__init__(1, 1)
        self.read: list[Path] = []

    def save_checkpoint(self, folder: str, tag: str) -> None:
        (Path(folder) / tag).mkdir(parents=True)

    def load_checkpoint(self, folder: str, tag: str) -> None:
        assert (Path(folder) / tag).is_dir()
        self.read.append(Path(folder, tag))


def there(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.glob("deepspeed-*/*"))


def test_of_deepspeed_s_folders_the_one_that_the_file_names_is_valid(tmp_path: Path) -> None:
    accelerator, engine = spread(DEEPSPEED), Engine()
    models: dict[str, Any] = {"moa-n1": engine}

    def save(update: int, main: bool = True) -> None:
        accelerator.is_main_process = main
        states.save(accelerator, tmp_path, {"update": update}, models, models, {"moa-n1": []})

    save(4)
    save(8)
    assert there(tmp_path) == ["deepspeed-moa-n1/8"]  # the old one goes with the old file
    save(12, main=False)  # as if the run was killed before the file was swapped
    assert there(tmp_path) == ["deepspeed-moa-n1/12", "deepspeed-moa-n1/8"]
    state = states.load(tmp_path)
    assert state is not None and state["update"] == 8
    states.restore(accelerator, tmp_path, state, models, models, {"moa-n1": []})
    assert engine.read == [tmp_path / "deepspeed-moa-n1" / "8"]


def test_deepspeed_clips_itself_and_says_no_norm() -> None:
    mute = spread(DEEPSPEED, clip_grad_norm_=lambda parameters, norm: None)
    assert states.clip(mute, nn.Linear(1, 1), 1.0) == 0
