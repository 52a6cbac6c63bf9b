"""What a checkpoint holds of models and optimisers, whichever way accelerate spread them.

One process, or several with a whole copy each (DDP): one file, written by the main process. FSDP:
the same file, put together from all processes and taken apart again. DeepSpeed: its own folders
beside the file, one per update, of which the file names the valid one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from accelerate.utils import DistributedType
from torch import Tensor, nn
from torch.distributed.checkpoint import state_dict as whole

from moa_core.errors import UserError

Models = Mapping[str, nn.Module]
Optimisers = Mapping[str, list[torch.optim.Optimizer]]
FILE = "checkpoint.pt"
WHOLE = "without sharding"


def sharded(accelerator: Accelerator) -> bool:
    """Whether no process has everything, so that all take part in saving."""
    return accelerator.distributed_type in (DistributedType.FSDP, DistributedType.DEEPSPEED)


def _kind(accelerator: Accelerator) -> str:
    """How a checkpoint's models lie in it."""
    spread = sharded(accelerator)
    return f"under {accelerator.distributed_type.value}" if spread else WHOLE


def check(accelerator: Accelerator, models: Models, rows: int) -> int:
    """Rows that a process goes over at a time. UserError for what cannot be spread as asked.

    rows  of an update, over all processes
    """
    world: int = accelerator.num_processes
    steps: int = accelerator.gradient_accumulation_steps
    part, rest = divmod(rows, world * steps)
    if rest or not part:
        raise UserError(
            f"{rows} rows cannot be shared out evenly: give a number of rows that {world} "
            f"process{'es' if world > 1 else ''} times {steps} accumulated "
            f"part{'s' if steps > 1 else ''} divide{'s' if world * steps == 1 else ''}."
        )
    if accelerator.distributed_type is DistributedType.FSDP and not accelerator.is_fsdp2:
        raise UserError("Of FSDP only version 2 is supported: set fsdp_version: 2 in its config.")
    if accelerator.distributed_type is DistributedType.DEEPSPEED:
        if len(models) > 1:
            raise UserError(
                "DeepSpeed trains one model at a time: give one method to --methods, and start "
                "the others as runs of their own."
            )
        # There is no data loader for accelerate to read these from.
        settings = accelerator.state.deepspeed_plugin.deepspeed_config
        settings["train_micro_batch_size_per_gpu"] = part
        settings["gradient_accumulation_steps"] = steps
    return part


def weights(accelerator: Accelerator, model: nn.Module, bare: nn.Module) -> dict[str, Tensor]:
    """A model's weights, whole, under their own names; elsewhere than in the main process maybe
    nothing."""
    if not sharded(accelerator):
        return bare.state_dict()
    found: dict[str, Tensor] = accelerator.get_state_dict(model)
    return found


def clip(accelerator: Accelerator, model: nn.Module, norm: float) -> Tensor:
    """Scale gradients down to a norm; what it was, 0 where DeepSpeed, which clips itself, is mute.

    accelerate compares lists of parameters under FSDP, which raises with more than one model.
    """
    if accelerator.distributed_type is DistributedType.FSDP:
        sharded_norm: Any = nn.utils.clip_grad_norm_(model.parameters(), norm)  # a DTensor
        return torch.as_tensor(sharded_norm.full_tensor())
    found = accelerator.clip_grad_norm_(model.parameters(), norm)
    return torch.as_tensor(0.0 if found is None else found, device=accelerator.device)


def save(
    accelerator: Accelerator,
    folder: Path,
    state: dict[str, Any],
    bare: Models,
    models: Models,
    optimisers: Optimisers,
) -> None:
    """Write a checkpoint beside the old one, then swap: a kill leaves one of the two."""
    state["kind"] = _kind(accelerator)
    if accelerator.distributed_type is DistributedType.DEEPSPEED:
        for name, model in models.items():
            engine: Any = model  # DeepSpeed's
            engine.save_checkpoint(str(_deepspeed(folder, name)), tag=str(state["update"]))
    else:
        spread = sharded(accelerator)
        found = {
            name: _whole(models[name], optimisers[name]) if spread else _plain(model, of)
            for (name, model), of in zip(bare.items(), optimisers.values(), strict=True)
        }
        state["models"] = {name: one for name, (one, _) in found.items()}
        state["optimisers"] = {name: other for name, (_, other) in found.items()}
    if not accelerator.is_main_process:
        return
    path = folder / FILE
    torch.save(state, path.with_suffix(".part"))
    os.replace(path.with_suffix(".part"), path)
    for old in folder.glob("deepspeed-*/[0-9]*"):
        if old.name != str(state["update"]):
            shutil.rmtree(old, ignore_errors=True)


def load(folder: Path) -> dict[str, Any] | None:
    """A folder's checkpoint, None where there is none."""
    path = folder / FILE
    return torch.load(path, map_location="cpu", weights_only=True) if path.exists() else None


def restore(
    accelerator: Accelerator,
    folder: Path,
    state: dict[str, Any],
    bare: Models,
    models: Models,
    optimisers: Optimisers,
) -> None:
    """Give models and optimisers what a checkpoint holds. UserError if it was spread otherwise."""
    kind = state.get("kind", WHOLE)
    if kind != _kind(accelerator):
        raise UserError(
            f"{folder} holds a run that was begun {kind}: go on the same way, or start "
            "anew in another folder."
        )
    if accelerator.distributed_type is DistributedType.DEEPSPEED:
        for name, model in models.items():
            engine: Any = model  # DeepSpeed's
            engine.load_checkpoint(str(_deepspeed(folder, name)), tag=str(state["update"]))
        return
    spread = sharded(accelerator)
    for name, model in bare.items():
        stored, steps = state["models"][name], state["optimisers"][name]
        if spread:
            whole.set_state_dict(
                models[name],
                [_inner(each) for each in optimisers[name]],
                model_state_dict=stored,
                optim_state_dict=steps,
                options=whole.StateDictOptions(full_state_dict=True),
            )
            continue
        model.load_state_dict(stored)
        for each, step in zip(optimisers[name], steps, strict=True):
            each.load_state_dict(step)


def _plain(model: nn.Module, of: list[torch.optim.Optimizer]) -> tuple[Any, Any]:
    return model.state_dict(), [each.state_dict() for each in of]


def _whole(model: nn.Module, of: list[torch.optim.Optimizer]) -> tuple[Any, Any]:
    options = whole.StateDictOptions(full_state_dict=True, cpu_offload=True)
    return whole.get_state_dict(model, [_inner(each) for each in of], options=options)


def _inner(optimiser: Any) -> torch.optim.Optimizer:
    """torch's own optimiser, without accelerate's wrapper."""
    inner: torch.optim.Optimizer = getattr(optimiser, "optimizer", optimiser)
    return inner


def _deepspeed(folder: Path, name: str) -> Path:
    return folder / f"deepspeed-{name}"
