"""Speculative decoding with Mixture of Attentions: targets, drafters, one decode loop, traces."""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moa_core.checkpoints import load_drafter, load_target
    from moa_core.decode import Settings, decode
    from moa_core.errors import UserError
    from moa_core.generation import Piece, Token, generate
    from moa_core.trace import Trace
    from moa_core.tree import AUTO, TreeSettings
    from moa_core.verify import Sampling

__all__ = [
    "AUTO", "Piece", "Sampling", "Settings", "Token", "Trace", "TreeSettings", "UserError",
    "decode", "generate", "load_drafter", "load_target",
]  # fmt: skip
_MODULES = {
    "checkpoints": ("load_drafter", "load_target"),
    "decode": ("Settings", "decode"),
    "errors": ("UserError",),
    "generation": ("Piece", "Token", "generate"),
    "trace": ("Trace",),
    "tree": ("AUTO", "TreeSettings"),
    "verify": ("Sampling",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


class _Package(ModuleType):
    """Imports a public name when it is first used: torch takes seconds, `--help` need not wait."""

    def __getattr__(self, name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        found = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        setattr(self, name, found)
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        # Whoever imports the module `decode` sets this attribute to it: the function stays.
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


sys.modules[__name__].__class__ = _Package
