"""What a GPU is to reach with the shape of Llama-3-8B at batch 1, beside what was found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

STEP_OVER_FLOOR = 1.25
VERIFY = 1.3  # in steps of plain decoding, of 62 drafted nodes
DRAFTS = {"moa-n0": 0.65, "eagle2": 0.65, "moa-n1": 0.85, "moa-n3": 1.2}  # of six levels
TAU, OVER_GENERATE = 4.5, 8.0  # tokens a cycle, if weights were trained; times transformers' speed


@dataclass(frozen=True)
class Split:
    """Seconds of a method's mean cycle: drafting, and verifying with all that belongs to it."""

    draft: float
    verify: float

    @property
    def cycle(self) -> float:
        """All of it."""
        return self.draft + self.verify


def ratios(cycles: Mapping[str, Split], floor: float) -> list[tuple[str, float, float | None]]:
    """What, found, aimed at: of every method that there are times of; empty without vanilla's.

    floor  seconds in which the memory can hand over what a step of plain decoding reads
    """
    plain = cycles.get("vanilla")
    if plain is None or not plain.verify:
        return []
    step = plain.cycle
    found: list[tuple[str, float, float | None]] = []
    if floor:
        found.append(("vanilla: step / memory floor", step / floor, STEP_OVER_FLOOR))
    for name, one in cycles.items():
        if name != "vanilla":
            found.append((f"{name}: verification / step", one.verify / step, VERIFY))
            found.append((f"{name}: draft / step", one.draft / step, DRAFTS.get(name)))
    return found


def projections(cycles: Mapping[str, Split], generate: float) -> list[tuple[str, float]]:
    """How many times as fast as transformers' `generate` MoA would be at an acceptance of TAU.

    generate  seconds of a token there. With random weights this is a projection: the cycle is
              measured, what it gains is not.
    """
    return [
        (f"{name}: projected speed / generate, at τ = {TAU}", TAU * generate / one.cycle)
        for name, one in cycles.items()
        if name.startswith("moa-") and one.cycle
    ]


def table(
    cycles: Mapping[str, Split], floor: float, generate: float = 0.0
) -> tuple[list[str], list[list[str]]]:
    """The same as heads and lines, to be printed. generate: 0 where it was not measured."""
    lines = [
        [what, f"{value:.2f}", "-" if aim is None else f"at most {aim:.2f}"]
        for what, value, aim in ratios(cycles, floor)
    ]
    if generate:
        lines += [
            [what, f"{value:.2f}", f"at least {OVER_GENERATE:.2f}"]
            for what, value in projections(cycles, generate)
        ]
    return ["ratio", "found", "for a GPU, 8B, tree 6-8-62"], lines
