"""Checkpoints of models and optimisers, however accelerate spread them over processes.

One process, or a whole copy in each (DDP): one file, written by the main process. FSDP: the same
file, gathered from all processes. DeepSpeed: its own folders beside the file, one per update; the
file names the valid one.
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
ALONE = "without sharding"


def sharded(accelerator: Accelerator) -> bool:
    """Whether no process has everything, so that all of them must take part in saving."""
    return _fsdp(accelerator) or _deepspeed(accelerator)


def _fsdp(accelerator: Accelerator) -> bool:
    return accelerator.distributed_type is DistributedType.FSDP


def _deepspeed(accelerator: Accelerator) -> bool:
    return accelerator.distributed_type is DistributedType.DEEPSPEED


def _kind(accelerator: Accelerator) -> str:
    spread = sharded(accelerator)
    return f"under {accelerator.distributed_type.value}" if spread else ALONE


def check(accelerator: Accelerator, models: Models, rows: int) -> int:
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
    if _fsdp(accelerator) and not accelerator.is_fsdp2:
        raise UserError("Of FSDP only version 2 is supported: set fsdp_version: 2 in its config.")
    if _deepspeed(accelerator):
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
    """A model's whole weights under their own names, in the main process."""
    if not sharded(accelerator):
        return bare.state_dict()
    found: dict[str, Tensor] = accelerator.get_state_dict(model)
    return found


def clip(accelerator: Accelerator, model: nn.Module, norm: float) -> Tensor:
    """Scale gradients down to a norm. Returns what it was; 0 from DeepSpeed, which clips itself.

    accelerate compares lists of parameters under FSDP, which raises with more than one model.
    """
    if not _fsdp(accelerator):
        found = accelerator.clip_grad_norm_(model.parameters(), norm)
        return torch.as_tensor(0.0 if found is None else found, device=accelerator.device)
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
    state |= {"kind": _kind(accelerator), "models": {}, "optimisers": {}}
    options = whole.StateDictOptions(full_state_dict=True, cpu_offload=True)
    for name, of in optimisers.items():
        if _deepspeed(accelerator):
            engine: Any = models[name]
            engine.save_checkpoint(str(folder / f"deepspeed-{name}"), tag=str(state["update"]))
        elif _fsdp(accelerator):
            found = whole.get_state_dict(models[name], _inner(of), options=options)
            state["models"][name], state["optimisers"][name] = found
        else:
            state["models"][name] = bare[name].state_dict()
            state["optimisers"][name] = [each.state_dict() for each in of]
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
    """Load a checkpoint into models and optimisers. UserError if it was spread otherwise."""
    kind = state.get("kind", ALONE)
    if kind != _kind(accelerator):
        raise UserError(
            f"{folder} holds a run that was begun {kind}: go on the same way, or start "
            "anew in another folder."
        )
    for name, of in optimisers.items():
        if _deepspeed(accelerator):
            engine: Any = models[name]
            engine.load_checkpoint(str(folder / f"deepspeed-{name}"), tag=str(state["update"]))
            continue
        stored, steps = state["models"][name], state["optimisers"][name]
        if _fsdp(accelerator):
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
