"""What can be run without a download: the bundle, and published pairs in the Hub's cache."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import try_to_load_from_cache

from moa_core.checkpoints import DrafterInfo, bundled_drafters, bundled_target
from moa_core.tree import TreeSettings

# Hub ids: a target, and by method the drafters that were published for it.
PUBLISHED = {
    "meta-llama/Meta-Llama-3-8B-Instruct": {
        "moa-n0": "huawei-noah/MOASpec-Llama-3-8B-Instruct",
        "eagle2": "yuhuili/EAGLE-LLaMA3-Instruct-8B",
    },
}
GPU_TREE = TreeSettings(6, 8, 62)  # the authors', in our words; such targets need a GPU
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
    for target, drafters in PUBLISHED.items():
        if cached(target):
            here = {
                method: DrafterInfo(spec, method.partition("-")[0], 0, GPU_TREE, None)
                for method, spec in drafters.items()
                if cached(spec)
            }
            found.append(Installed(target, _with_derived(here)))
    return found


def cached(repository: str) -> bool:
    """Whether a Hub repository's weights, not only its config, were downloaded before."""
    path = try_to_load_from_cache(repository, "config.json")
    if not isinstance(path, str):
        return False
    folder = Path(path).parent
    return any(folder.glob("*.safetensors")) or any(folder.glob("pytorch_model*.bin"))


def _with_derived(found: dict[str, DrafterInfo]) -> dict[str, DrafterInfo]:
    more = {name: found[source] for name, source in DERIVED.items() if source in found}
    return {**found, **more}
