"""The folder of bundled files: drafters, prompts, recorded results."""

from pathlib import Path

_PACKED = Path(__file__).parent / "_assets"  # in an installed package, by pyproject.toml
ASSETS = _PACKED if _PACKED.is_dir() else Path(__file__).parents[1] / "assets"
LICENCE = (_PACKED if _PACKED.is_dir() else Path(__file__).parents[1]) / "LICENSE"  # Apache 2.0
