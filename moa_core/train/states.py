"""Checkpoints of models and optimisers: one file, however accelerate spread them over processes.

With one process, or a whole copy in each (DDP), the main process writes it. With FSDP it is
gathered from all processes.
"""

from __future__ import annotations

import os
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
ALONE, FSDP = "without sharding", "under FSDP"


def sharded(accelerator: Accelerator) -> bool:
    """Whether no process has everything, so that all of them must take part in saving."""
    return accelerator.distributed_type is DistributedType.FSDP


def check(accelerator: Accelerator, rows: int) -> int:
    """Rows of one part of a process's batch. UserError for what cannot be spread as asked.

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
    if sharded(accelerator) and not accelerator.is_fsdp2:
        raise UserError("Of FSDP only version 2 is supported: set fsdp_version: 2 in its config.")
    if accelerator.distributed_type is DistributedType.DEEPSPEED:
        raise UserError("DeepSpeed is not supported: launch with configs/fsdp.yaml instead.")
    return part


def weights(accelerator: Accelerator, model: nn.Module, bare: nn.Module) -> dict[str, Tensor]:
    """A model's whole weights under their own names, in the main process."""
    if not sharded(accelerator):
        return bare.state_dict()
    found: dict[str, Tensor] = accelerator.get_state_dict(model)
    return found


def clip(accelerator: Accelerator, model: nn.Module, norm: float) -> Tensor:
    """Scale gradients down to a norm; return what it was.

    accelerate compares lists of parameters under FSDP, which raises with more than one model.
    """
    if not sharded(accelerator):
        return torch.as_tensor(accelerator.clip_grad_norm_(model.parameters(), norm))
    sharded_norm: Any = nn.utils.clip_grad_norm_(model.parameters(), norm)  # a DTensor
    return torch.as_tensor(sharded_norm.full_tensor())


def save(
    accelerator: Accelerator,
    folder: Path,
    state: dict[str, Any],
    bare: Models,
    models: Models,
    optimisers: Optimisers,
) -> None:
    """Write a checkpoint beside the old one, then swap: a kill leaves one of the two."""
    state |= {"kind": FSDP if sharded(accelerator) else ALONE, "models": {}, "optimisers": {}}
    options = whole.StateDictOptions(full_state_dict=True, cpu_offload=True)
    for name, of in optimisers.items():
        if sharded(accelerator):
            found = whole.get_state_dict(models[name], _inner(of), options=options)
            state["models"][name], state["optimisers"][name] = found
        else:
            state["models"][name] = bare[name].state_dict()
            state["optimisers"][name] = [each.state_dict() for each in of]
    if accelerator.is_main_process:
        path = folder / FILE
        torch.save(state, path.with_suffix(".part"))
        os.replace(path.with_suffix(".part"), path)


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
    """Load a checkpoint into models and optimisers. UserError if it was spread otherwise."""
    kind = state.get("kind", ALONE)
    if kind != (FSDP if sharded(accelerator) else ALONE):
        raise UserError(
            f"{folder} holds a run that was begun {kind}: go on the same way, or start "
            "anew in another folder."
        )
    for name, of in optimisers.items():
        stored, steps = state["models"][name], state["optimisers"][name]
        if sharded(accelerator):
            whole.set_state_dict(
                models[name],
                _inner(of),
                model_state_dict=stored,
                optim_state_dict=steps,
                options=whole.StateDictOptions(full_state_dict=True),
            )
        else:
            bare[name].load_state_dict(stored)
            for each, step in zip(of, steps, strict=True):
                each.load_state_dict(step)


def _inner(optimisers: list[torch.optim.Optimizer]) -> list[torch.optim.Optimizer]:
    """torch's own optimisers, without accelerate's wrapper."""
    return [getattr(each, "optimizer", each) for each in optimisers]
