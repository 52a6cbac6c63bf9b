"""Training several drafters at once, on the same batches, against a frozen target."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from moa_core.drafters.base import Drafter
from moa_core.drafters.eagle import EagleDrafter
from moa_core.drafters.eagle3 import Eagle3Drafter
from moa_core.drafters.glide import GlideDrafter
from moa_core.drafters.independent import IndependentDrafter
from moa_core.drafters.medusa import MedusaDrafter
from moa_core.drafters.moa import MoADrafter
from moa_core.errors import UserError
from moa_core.loading.drafter_files import save_drafter
from moa_core.loading.load import load_drafter
from moa_core.loading.memory import parameters
from moa_core.loading.untrusted import read_config
from moa_core.model.target import Target
from moa_core.train import losses, own_text
from moa_core.train.batches import Batch, Batches, Recipe
from moa_core.train.init import fresh
from moa_core.train.loop import Machine, Run, Schedule
from moa_core.train.masks import BLOCK, Masks, on_policy, predictable
from moa_core.train.measure import Progress
from moa_core.train.teacher import Lesson, let_gradients_through, teach
from moa_core.train.unrolled import Eagle3Trainee

CPU = Machine()
TRAINEES: dict[type[Drafter], type[losses.Trainee]] = {
    MoADrafter: losses.MoATrainee,
    EagleDrafter: losses.EagleTrainee,
    Eagle3Drafter: Eagle3Trainee,
    GlideDrafter: losses.GlideTrainee,
    IndependentDrafter: losses.IndependentTrainee,
    MedusaDrafter: losses.MedusaTrainee,
}


@dataclass(frozen=True)
class Plan:
    """How drafters are trained, apart from the schedule.

    rows        packed rows of `row_length` tokens per update
    own_tokens  tokens that the target writes first; they become half of the training text
    staircase   share of rows, at the start, in which SA sees its block only; 0 from half-time on
    start       folder of drafters to continue from with a new schedule and without a staircase
    """

    methods: tuple[str, ...] = ("moa-n0", "moa-n1", "eagle2")
    rows: int = 16
    row_length: int = 1024
    own_tokens: int = 0
    staircase: float = 1.0
    start: Path | None = None
    weights: losses.Weights = field(default_factory=losses.Weights)
    seed: int = 0


def train_drafters(
    target: Target,
    data: Path,
    tokenizer: Path,
    out: Path,
    schedule: Schedule,
    plan: Plan,
    machine: Machine = CPU,
    watched: dict[str, list[list[int]]] | None = None,
    watch_times: int = 8,
) -> None:
    """Train every method of the plan into `out/<method>`; log and checkpoint in `out/run`.

    watched  prompts by kind, to measure acceptance during training; each drafter keeps its best
             weights
    """
    drafters = {method: _begun(method, target, plan) for method in plan.methods}
    if plan.row_length > target.context:
        raise UserError(
            f"Rows of {plan.row_length} tokens are longer than {target.name} can read: give a "
            f"--row-length of at most {target.context}."
        )
    out.mkdir(parents=True, exist_ok=True)
    about = {name: _about(name, drafter, plan) for name, drafter in drafters.items()}
    trainees = {name: trainee(drafter, target, plan.weights) for name, drafter in drafters.items()}
    if machine.compiled:
        for each in trainees.values():
            each.compile_features()
    batches = _batches(target, data, tokenizer, out, plan, machine.workers)
    progress = Progress(target, drafters, watched, watch_times) if watched else None
    models: dict[str, nn.Module] = dict(trainees)
    run = Run(out / "run", models, batches, schedule, machine, asdict(plan), progress)
    lessons = _Lessons(target, drafters.values(), plan, run)
    run.train(lessons, _step, count=lambda batch: predictable(batch).sum())
    if progress:
        progress.restore_best()
    for name, drafter in drafters.items():
        done = {"updates": run.update, "of": run.updates, "seconds": round(run.spent[name])}
        start = about[name].pop("start")
        training = {**run.recipe, "rate": schedule.rate(name), **done, "start": start}
        if progress:
            training["metrics"] = progress.metrics[name]
        more = {**about[name], "training": training, "commit": _commit()}
        save_drafter(out / name, drafter, target, more, torch.bfloat16)


def _begun(method: str, target: Target, plan: Plan) -> Drafter:
    if plan.start is None:
        return fresh(method, target, plan.seed)
    if not os.path.isdir(plan.start / method):
        raise UserError(
            f"There is no {method} in {plan.start} to go on from: --start names the folder that "
            "holds a folder for each method."
        )
    return load_drafter(str(plan.start / method), target)


def _about(name: str, drafter: Drafter, plan: Plan) -> dict[str, Any]:
    """A drafter's size, and the training of the drafter that it continues from."""
    earlier = None
    if plan.start is not None:
        ours = read_config(plan.start / name).get("drafter", {})
        earlier = {**ours.get("training", {}), "commit": ours.get("commit")}
    return {"parameters": parameters(drafter.net), "start": earlier}


def _batches(
    target: Target, data: Path, tokenizer: Path, out: Path, plan: Plan, workers: int
) -> Batches:
    """Batches, after the target has written the text that the plan asks for."""
    own = out / "own_text.npz" if plan.own_tokens else None
    if own:
        processes = workers if target.device.type == "cpu" else 1
        own_text.write(target, own, plan.own_tokens, own_text.Writing(data, plan.seed), processes)
    return Batches(Recipe(data, tokenizer, plan.seed, plan.row_length, own), plan.rows, workers)


def _step(
    model: nn.Module, batch: Batch, shared: tuple[Lesson, Masks], update: int
) -> tuple[Tensor, losses.Stats]:
    # On a CPU, the backward pass of fused attention is several times slower than matrix products,
    # most of all for LSA's thousands of short sequences.
    plain = batch.ids.device.type == "cpu"
    with sdpa_kernel(SDPBackend.MATH) if plain else nullcontext():
        loss: tuple[Tensor, losses.Stats] = model(batch, *shared, update)
        return loss


def trainee(drafter: Drafter, target: Target, weights: losses.Weights) -> losses.Trainee:
    """A drafter's training forward. Its net becomes float32 and trainable."""
    drafter.net.to(target.device, torch.float32).train().requires_grad_(True)
    let_gradients_through(target)
    made = next(made for kind, made in TRAINEES.items() if isinstance(drafter, kind))
    return made(drafter, target, weights)


class _Lessons:
    """What all drafters share on a batch: the target's lesson and the drawn boundaries."""

    def __init__(self, target: Target, drafters: Iterable[Drafter], plan: Plan, run: Run) -> None:
        self._target, self._plan, self._run = target, plan, run
        self._tails = {d.tli for d in drafters if isinstance(d, MoADrafter) and d.tli}
        for drafter in drafters:
            if isinstance(drafter, Eagle3Drafter):
                self._tails |= {len(target.layers) - at for at in drafter.net.config.layers}

    def __call__(self, batch: Batch, update: int) -> tuple[Lesson, Masks]:
        plan = self._plan
        progress = update / (self._run.updates or 100_000)
        staircase = 0.0 if plan.start else plan.staircase * max(0.0, 1 - 2 * progress)
        # Seed and update alone decide the draws, so resumed runs and runs in parts draw the same.
        generator = torch.Generator().manual_seed((plan.seed * 1_000_003 + update) * 1_009)
        masks = on_policy(batch, generator, BLOCK, staircase, plan.rows)
        return teach(self._target, batch, self._tails), masks


def _commit() -> str | None:
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or None
