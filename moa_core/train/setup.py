"""What a training command begins with: accelerate, the data, and the target's number format."""

from __future__ import annotations

import argparse
import os
from datetime import timedelta
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import InitProcessGroupKwargs, is_tensorboard_available

from moa_core.errors import UserError
from moa_core.train.hub_data import fetch
from moa_core.train.sources import has_text


def data_of(name: str, out: Path, accelerator: Accelerator, stream: bool) -> Path | str:
    """A folder of text, or the name of a data set to stream; or the folder it was brought into.

    A folder that holds no text files is a data set's, as the Hub would have it.
    """
    folder = Path(name).expanduser()
    if folder.is_dir():
        if has_text(folder):
            return folder
        name = str(folder)
    elif folder.is_absolute() or name.startswith((".", "~")) or name.count("/") > 1:
        raise UserError(f"There is no folder {name}.")
    if stream:
        return name
    with accelerator.main_process_first():
        return fetch(name, out / "data")


def target_dtype(options: argparse.Namespace, accelerator: Accelerator) -> str:
    """A frozen target needs no more than what is computed in."""
    mixed = accelerator.mixed_precision == "bf16"
    if options.target_dtype == "bfloat16" and not mixed:
        raise UserError("A target in bfloat16 needs --precision bf16.")
    if options.target_dtype != "auto":
        return str(options.target_dtype)
    return "bfloat16" if mixed and accelerator.device.type == "cuda" else "float32"


def device_map(options: argparse.Namespace, accelerator: Accelerator) -> str | None:
    """A target may be spread over the devices of one process; several have a whole one each."""
    if options.device_map and accelerator.num_processes > 1:
        raise UserError(
            "Each process has a target of its own: leave out --device-map, or start one process. "
            "--load-in-4bit makes a target small enough for most GPUs."
        )
    device_map: str | None = options.device_map
    return device_map


def accelerator_of(options: argparse.Namespace) -> Accelerator:
    """The processes, precision, accumulation and trackers that were asked for."""
    if options.tensorboard and not is_tensorboard_available():
        raise UserError(
            "TensorBoard is not installed: pip install tensorboard, or leave out --tensorboard; "
            "the same figures are in log.jsonl."
        )
    cpu = options.device == "cpu" or not torch.cuda.is_available()
    fast = not cpu or torch.ops.mkldnn._is_mkldnn_bf16_supported()
    configured = os.environ.get("ACCELERATE_MIXED_PRECISION", "no")  # by accelerate launch
    wanted = options.precision
    if wanted == "auto":
        wanted = configured if configured != "no" else ("bf16" if fast else "no")
    # The others wait while the main process writes the target's own text or measures acceptance.
    patience = InitProcessGroupKwargs(timeout=timedelta(hours=6))
    accelerator = Accelerator(
        cpu=options.device == "cpu",
        mixed_precision=wanted,
        gradient_accumulation_steps=options.accumulate,
        log_with="tensorboard" if options.tensorboard else None,
        project_dir=options.out,
        kwargs_handlers=[patience],
    )
    accelerator.init_trackers("tensorboard")
    return accelerator
