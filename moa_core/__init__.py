"""Speculative decoding with Mixture of Attentions: targets, drafters, one decode loop, traces."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moa_core.decoding.decode import Settings, decode
    from moa_core.decoding.trace import Trace
    from moa_core.decoding.tree import AUTO, TreeSettings
    from moa_core.decoding.verify import Sampling
    from moa_core.errors import UserError
    from moa_core.generation import Piece, Token, generate
    from moa_core.loading.load import load_drafter, load_target

__version__ = "0.2.0"
__all__ = [
    "AUTO", "Piece", "Sampling", "Settings", "Token", "Trace", "TreeSettings", "UserError",
    "decode", "generate", "load_drafter", "load_target",
]  # fmt: skip
_MODULES = {
    "decoding.decode": ("Settings", "decode"),
    "decoding.trace": ("Trace",),
    "decoding.tree": ("AUTO", "TreeSettings"),
    "decoding.verify": ("Sampling",),
    "errors": ("UserError",),
    "generation": ("Piece", "Token", "generate"),
    "loading.load": ("load_drafter", "load_target"),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name at its first use: torch takes seconds, and `--help` need not wait."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return globals().setdefault(name, getattr(import_module(f"{__name__}.{_HOMES[name]}"), name))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
