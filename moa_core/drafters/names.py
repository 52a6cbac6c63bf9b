"""Names of methods, and the forms that users may write."""

import re
from collections.abc import Iterable, Sequence

from moa_core.errors import UserError

VANILLA = "vanilla"  # plain decoding
NGRAM = "ngram"
LOOKUP = "+ngram"  # after a name: its drafts and those of n-gram lookup in one tree
MOA = re.compile(r"moa-n(\d{1,4})")
LABELS = {  # of methods that are not in the registry
    "given": "Drafter",
    "hf-generate": "transformers",
    "hf-lookup": "transformers, prompt lookup",
    "llama-cpp": "llama.cpp",
    "llama-cpp-q8": "llama.cpp, Q8_0",
    "llama-cpp-q8-ngram": "llama.cpp, Q8_0, its n-gram lookup",
    "llama-cpp-q4": "llama.cpp, Q4_1",
    "openvino": "OpenVINO, Q4_1",
}


def method_name(method: str, tli: int) -> str:
    return f"moa-n{tli}" if method == "moa" else method


def tli_of(method: str) -> int:
    """moa-n1 -> 1; 0 for a method without N."""
    found = MOA.fullmatch(method)
    return int(found[1]) if found else 0


def family(name: str) -> str:
    """moa-n1 -> moa; any other name is itself."""
    return "moa" if MOA.fullmatch(name) else name


def label(name: str) -> str:
    """moa-n1 -> MoA N=1, eagle2 -> EAGLE-2, moa-n0+ngram -> MoA N=0 + n-gram."""
    from moa_core.drafters.registry import METHODS  # imports torch, which --help avoids

    if name.endswith(LOOKUP):
        return f"{label(name.removesuffix(LOOKUP))} + n-gram"
    kind = METHODS.get(family(name))
    words = kind.label if kind else LABELS.get(name, name)
    return f"{words} N={tli_of(name)}" if family(name) == "moa" else words


def matched(text: str, names: Iterable[str]) -> str | None:
    """The name for a text: a name in any case, or a label; "none" is vanilla."""
    forms = {form.casefold(): name for name in names for form in (label(name), name)}
    if VANILLA in forms.values():
        forms["none"] = VANILLA
    return forms.get(text.strip().casefold())


def listed(text: str, names: Sequence[str]) -> list[str]:
    """The comma-separated methods of --methods, each as in `names`; unknown ones are unchanged.
    UserError for a duplicate, or none."""
    parts = (part.strip() for part in text.split(","))
    found = [matched(part, names) or part for part in parts if part]
    if not found:
        raise UserError("--methods is empty: name at least one, as in moa-n0,moa-n1.")
    if twice := [name for name in found if found.count(name) > 1]:
        raise UserError(f"--methods names {twice[0]} twice.")
    return found


def no_such(text: str, names: Sequence[str], what: str) -> str:
    return (
        f"There is no {what} {text!r:.80}: choose from {', '.join(names)}, or "
        "name a folder or a Hub id, which looks like owner/name."
    )
