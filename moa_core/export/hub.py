"""A Hub repository with which transformers' own `generate` drafts: weights, and a file that imports
this package's decode loop."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from moa_core.export.source import Source
from moa_core.loading.formats import drafter_config

DISTRIBUTION = "moa-speculative"  # this package's name for pip; transformers looks for it
FILES = {
    "custom_generate/generate.py": '''"""Speculative decoding with its drafter: see README.md."""

from moa_core.export.generate import generate

__all__ = ["generate"]
''',
    "custom_generate/requirements.txt": f"{DISTRIBUTION}\n",
}


def custom_generate_files(source: Source) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Config and tensors in our own layout."""
    about = {key: value for key, value in source.ours.items() if key not in ("method", "tli")}
    written = drafter_config(source.drafter, source.target, {})
    written["drafter"] |= {key: about[key] for key in about if key != "target"}
    written["drafter"]["target"]["name"] = source.verifier
    return written, source.tensors
