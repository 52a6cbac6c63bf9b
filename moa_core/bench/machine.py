"""The machine that measures: device, processor, versions, commit."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import transformers


def machine(device: torch.device) -> dict[str, Any]:
    """What a reader needs to judge the speeds."""
    facts: dict[str, Any] = {
        "device": device.type,
        "processor": _processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }
    if device.type == "cuda":
        facts["gpu"] = torch.cuda.get_device_name(device)
    return facts


def versions() -> dict[str, str]:
    """Of what decides speed and rounding."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "onnxruntime": version("onnxruntime"),
        "transformers": transformers.__version__,
    }


def commit() -> str | None:
    """The commit of this program, `+ changes` if its code differs; None outside a repository."""
    try:
        head = _git("rev-parse", "--short", "HEAD")
        changed = _git("status", "--porcelain", "--", "moa_core", "assets/models")
    except (OSError, subprocess.CalledProcessError):
        return None
    return f"{head} + changes" if changed else head


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(Path(__file__).parents[2]), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if "model name" in line)
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
