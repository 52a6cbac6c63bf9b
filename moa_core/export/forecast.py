"""What vLLM would make of an acceptance that was measured here: a command that tries it.

vLLM can accept drafts by given rates instead of by what they say (`rejection_sample_method`
"synthetic"; by position since vllm-project/vllm PR 40662; read in 0.33.0). The text it then writes
is nonsense; its speed is that of a drafter with this acceptance and the stand-in's cost.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moa_core.bench.recorded import Recording, read_results
from moa_core.errors import UserError

HEADS = {"meta-llama/Meta-Llama-3-8B-Instruct": "yuhuili/EAGLE-LLaMA3-Instruct-8B"}
BENCHMARK = (
    "--dataset-name random --random-input-len 512 --random-output-len 256 --num-prompts 32 "
    "--max-concurrency 1"
)


@dataclass(frozen=True)
class Forecast:
    """Commands for vLLM, and what to bear in mind about them."""

    serve: str
    measure: str
    notes: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([*(f"# {note}" for note in self.notes), self.serve, self.measure])


def forecast(
    results: Path, method: str | None = None, target: str | None = None, head: str | None = None
) -> Forecast:
    """Commands that forecast serving speed from a benchmark's summary.json or its folder.

    method  of the benchmark; default: its first with drafts and a known acceptance
    target  what vLLM serves; default: the benchmark's own target
    head    an EAGLE head for that target, for a drafter's cost; default: the published one
    """
    path = results / "summary.json" if results.is_dir() else results
    recorded = Recording(path.parent.name, read_results(path))
    name = method or _first(recorded)
    figures = recorded.methods.get(name)
    if figures is None:
        raise UserError(f"{path} has no method {name}: there are {', '.join(recorded.methods)}.")
    rates = _rates(figures.get("acceptance_by_position"), name)
    served = (target or recorded.target).partition("@")[0]  # without a revision
    head = head or HEADS.get(served)
    if head is None:
        raise UserError(
            f"No EAGLE head for {served} is known here: name one with --head, whose cost stands "
            "for the drafter's, or another --target."
        )
    settings = {
        "method": "eagle",
        "model": head,
        "num_speculative_tokens": len(rates),
        "rejection_sample_method": "synthetic",
        "synthetic_acceptance_rates": rates,
    }
    serve = (
        f"vllm serve {shlex.quote(served)} --speculative-config {shlex.quote(json.dumps(settings))}"
    )
    measure = f"vllm bench serve --model {shlex.quote(served)} {BENCHMARK}"
    return Forecast(serve, measure, _notes(recorded, name, figures, rates, served))


def _first(recorded: Recording) -> str:
    for name, figures in recorded.methods.items():
        if figures.get("acceptance_by_position") and name != "vanilla":
            return name
    raise UserError("No method in these results has an acceptance by position.")


def _rates(found: Any, name: str) -> list[float]:
    """Shares of cycles that accepted at least so many drafts, as vLLM wants them: falling."""
    good = isinstance(found, list) and found and all(isinstance(x, int | float) for x in found)
    if not good or any(not 0 <= rate <= 1 for rate in found) or found != sorted(found)[::-1]:
        raise UserError(f"These results have no acceptance by position for {name}.")
    return [round(float(rate), 4) for rate in found]


def _notes(
    recorded: Recording, name: str, figures: dict[str, Any], rates: list[float], served: str
) -> tuple[str, ...]:
    tree = figures.get("tree") or {}
    notes = [
        f"{name} on {recorded.target}, {recorded.date}, {recorded.machine}: acceptance length "
        f"{1 + sum(rates):.2f}. The text vLLM writes under synthetic acceptance is nonsense.",
        "The head stands for the drafter's cost: one layer and the target's own head.",
    ]
    if isinstance(tree, dict) and tree.get("breadth", 1) != 1:
        notes.append(
            f"Measured with trees {tree.get('breadth')} wide, and vLLM drafts a chain, which is "
            "accepted less: measure a chain for a fair forecast."
        )
    if figures.get("tli"):
        notes.append(
            f"N = {figures['tli']} also runs so many target layers for each draft, which the "
            "stand-in does not: the drafter would be slower."
        )
    if served != recorded.target.partition("@")[0]:
        notes.append(f"Acceptance is of {recorded.target}, speed will be of {served}.")
    return tuple(notes)
