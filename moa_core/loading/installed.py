"""What can be run without a download: the bundle, and published pairs in the Hub's cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from huggingface_hub import try_to_load_from_cache

from moa_core.decoding.tree import TreeSettings
from moa_core.errors import UserError
from moa_core.loading.checkpoints import (
    DrafterInfo,
    bundled_drafters,
    bundled_target,
    drafter_name,
    locate,
)
from moa_core.loading.fitting import mapping, whole
from moa_core.loading.formats import read_config, tree_settings
from moa_core.loading.hub import fetch_config, split
from moa_core.loading.names import tli_of
from moa_core.loading.presets import PRESETS, Preset

METHODS = ("moa", "eagle2", "medusa", "glide", "independent")
DERIVED = {"eagle": "eagle2"}  # methods that need no files of their own


@dataclass(frozen=True)
class Installed:
    """A target that is here, and the drafters that go with it, by method name (moa-n1, eagle2).

    bundled  whether they came with the program
    """

    target: str
    drafters: dict[str, DrafterInfo]
    bundled: bool = False


def method_name(method: str, tli: int) -> str:
    """The name of a drafter's method: MoA's says which N."""
    return f"moa-n{tli}" if method == "moa" else method


def bundle() -> Installed:
    """The bundled target and drafters. UserError if there is no target."""
    target = bundled_target()
    found = {method_name(info.method, info.tli): info for info in bundled_drafters()}
    return Installed(target, _with_derived(found), bundled=True)


def published() -> list[Installed]:
    """Published targets whose files lie in the Hub's cache, with those of their drafters."""
    found = []
    for preset in PRESETS.values():
        if target := here(preset.target):
            known = of_preset(preset)
            drafters = {
                method: replace(info, name=spec)
                for method, info in known.items()
                if (spec := here(info.name))
            }
            found.append(Installed(target, drafters))
    return found


def of_preset(preset: Preset) -> dict[str, DrafterInfo]:
    """A preset's drafters by method, wherever their files are."""
    return _with_derived(
        {
            method: DrafterInfo(
                spec, method.partition("-")[0], tli_of(method), TreeSettings(*preset.tree), None
            )
            for method, spec in preset.by_method.items()
        }
    )


def named(spec: str, tree: TreeSettings | None = None) -> tuple[str, DrafterInfo]:
    """A drafter's method and facts, from its config alone, which a Hub id's is fetched for.

    The authors' files are silent about N: theirs is 0.
    """
    place = locate(drafter_name(spec))
    folder = place if isinstance(place, Path) else fetch_config(place)
    config = read_config(folder)
    ours = mapping(config, "drafter", spec)
    kind, tli = ours.get("method"), whole(ours, "tli", 0, spec, 0)
    if kind not in METHODS:  # the page shows it, and anything may stand there
        kind = _kind(config)
    shape = tree_settings(own) if (own := mapping(ours, "tree", spec)) else tree or TreeSettings()
    return method_name(kind, tli), DrafterInfo(spec, kind, tli, shape, ours.get("parameters"))


def _kind(config: dict[str, Any]) -> str:
    """Which kind of drafter a config of somebody else's describes."""
    architectures = config.get("architectures") or []
    listed = isinstance(architectures, list) and "MOASpec" in architectures
    if config.get("model_type") == "moa_spec" or listed:
        return "moa"
    layers = config.get("num_hidden_layers")
    return "given" if layers is None else "eagle2" if layers == 1 else "independent"


def several(specs: Sequence[str], tree: TreeSettings | None = None) -> dict[str, DrafterInfo]:
    """Drafters by method. UserError for two of one method."""
    found: dict[str, DrafterInfo] = {}
    for spec in specs:
        method, info = named(spec, tree)
        if method in found:
            raise UserError(
                f"{found[method].name} and {spec} are both {method} drafters: name one of them."
            )
        found[method] = info
    return _with_derived(found)


def here(spec: str) -> str | None:
    """A Hub id whose files were downloaded before: at the revision meant, or else at all."""
    return next((one for one in (spec, spec.partition("@")[0]) if cached(one)), None)


def cached(spec: str) -> bool:
    """Whether a Hub repository's weights, not only its config, were downloaded before."""
    repository, revision = split(spec)
    path = try_to_load_from_cache(repository, "config.json", revision=revision)
    if not isinstance(path, str):
        return False
    folder = Path(path).parent
    return any(folder.glob("*.safetensors")) or any(folder.glob("pytorch_model*.bin"))


def _with_derived(found: dict[str, DrafterInfo]) -> dict[str, DrafterInfo]:
    more = {name: found[source] for name, source in DERIVED.items() if source in found}
    return {**found, **more}
