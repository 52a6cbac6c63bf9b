"""Every drafting method. A method's class says how it is called, read, saved and trained."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from moa_core.drafters.base import Drafter, Vanilla
from moa_core.drafters.eagle import EagleDrafter
from moa_core.drafters.eagle3 import Eagle3Drafter
from moa_core.drafters.independent import IndependentDrafter
from moa_core.drafters.medusa import MedusaDrafter
from moa_core.drafters.moa import MoADrafter
from moa_core.drafters.ngram import NgramDrafter
from moa_core.drafters.tandem import TandemDrafter
from moa_core.drafters.trained import Trained

METHODS: dict[str, type[Drafter]] = {
    "moa": MoADrafter,
    "eagle3": Eagle3Drafter,  # before EAGLE-2, which would recognise its files as well
    "eagle2": EagleDrafter,
    "medusa": MedusaDrafter,
    "tandem": TandemDrafter,
    "independent": IndependentDrafter,
    "ngram": NgramDrafter,
    "vanilla": Vanilla,
}


def without_weights() -> dict[str, Callable[[], Drafter]]:
    """Drafters that need no files, by name."""
    return {name: kind for name, kind in METHODS.items() if not issubclass(kind, Trained)}


def trained() -> dict[str, type[Trained]]:
    """Drafters with weights, by the `method` in their configs."""
    return {name: kind for name, kind in METHODS.items() if issubclass(kind, Trained)}


def found_in(
    ours: Mapping[str, Any], config: Mapping[str, Any], tensors: Collection[str] = ()
) -> type[Trained] | None:
    """The class of a drafter's files: by the `method` of our keys, else by config and tensors."""
    named = trained().get(str(ours.get("method")))
    kinds = trained().values()
    return named or next((one for one in kinds if one.recognises(config, tensors)), None)
