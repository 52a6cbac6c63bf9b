"""All plots."""

from importlib import import_module
from pkgutil import iter_modules

from moa_core.train.bundle.world.plots.registry import PLOTS

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["PLOTS"]
