"""Training several drafters at once, on the same batches, against a frozen target."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from moa_core.drafters.base import Drafter
from moa_core.drafters.eagle import EagleDrafter
from moa_core.drafters.eagle3 import Eagle3Drafter
from moa_core.drafters.medusa import MedusaDrafter
from moa_core.drafters.moa import MoADrafter, MoANet
from moa_core.drafters.names import family, tli_of
from moa_core.drafters.registry import trained
from moa_core.drafters.tandem import TandemDrafter
from moa_core.drafters.trained import Trained
from moa_core.errors import UserError
from moa_core.loading.drafter_files import save_drafter, weights_hash
from moa_core.loading.load import load_drafter
from moa_core.model.target import Target, parameters
from moa_core.runtime import commit
from moa_core.text import tokenizer_of
from moa_core.train import losses, own_text
from moa_core.train.batches import Batch, Batches
from moa_core.train.loop import CHECKPOINT, Machine, Schedule, TrainingRun, checkpoint_in
from moa_core.train.masks import BLOCK, Masks, on_policy
from moa_core.train.own_text import Writing
from moa_core.train.teacher import Lesson, let_gradients_through, teach
from moa_core.train.transplant import BATCHES, TOKENS, refit, suits, transplant
from moa_core.train.unrolled import Eagle3Trainee

# Methods with a loss of their own.
TRAINEES: dict[type[Drafter], type[losses.Trainee]] = {
    MoADrafter: losses.MoATrainee,
    EagleDrafter: losses.EagleTrainee,
    Eagle3Drafter: Eagle3Trainee,
    TandemDrafter: losses.TandemTrainee,
    MedusaDrafter: losses.MedusaTrainee,
}
OTHERS = tuple(name for name in trained() if name != "moa")
METHODS = ("moa-n0", "moa-n1", "...", *OTHERS)


@dataclass(frozen=True)
class Plan:
    """How drafters are trained, apart from the schedule.

    prompts     file of prompts, whose answers by the target are the training text
    rows        packed rows of `row_length` tokens per update
    own_tokens  tokens of these answers
    words       D, the most frequent tokens of the text, which drafters may draft; 0: all
    start       folder of drafters to continue from with a new schedule; they keep their words.
                A MoA drafter that it lacks starts as its moa-n0, whose last layer is fitted anew
    block       shortest and longest block of MoA's on-policy masks
    """

    prompts: Path
    methods: tuple[str, ...] = ("moa-n0", "moa-n1", "eagle2")
    rows: int = 8
    row_length: int = 512
    own_tokens: int = 1_000_000
    words: int = 0
    start: Path | None = None
    block: tuple[int, int] = BLOCK
    weights: losses.Weights = field(default_factory=losses.Weights)
    seed: int = 0


def train_drafters(
    target: Target, out: Path, schedule: Schedule, plan: Plan, machine: Machine
) -> None:
    """Train every method of the plan into `out/<method>`; log and checkpoint in `out/run`."""
    if plan.row_length > target.context:
        raise UserError(
            f"Rows of {plan.row_length} tokens are longer than {target.name} can read: give a "
            f"--row-length of at most {target.context}."
        )
    if plan.rows % machine.parts:
        raise UserError(
            f"An update's --rows, {plan.rows}, cannot be taken in {machine.parts} equal parts: "
            f"give a multiple of {machine.parts}."
        )
    let_gradients_through(target)  # its first use is to answer the prompts
    # Before the target writes, for hours perhaps: so mistakes are told at once.
    drafters = {method: _begun(method, target, plan) for method in plan.methods}
    out.mkdir(parents=True, exist_ok=True)
    own = out / own_text.OWN_TEXT
    workers = machine.workers if target.device.type == "cpu" else 1
    own_text.write(target, own, plan.own_tokens, Writing(plan.prompts, plan.seed), workers)
    batches = Batches(own, tokenizer_of(target), plan.rows, plan.row_length, plan.seed)
    if plan.start is None:
        words = _words(target, batches, out / "words.npy", plan.words)
        for drafter in drafters.values():
            drafter.vocabulary = words
    else:
        words = _same_words(drafters, out / "words.npy")
    trainees = {name: trainee(drafter, target, plan.weights) for name, drafter in drafters.items()}
    recipe = {**asdict(plan), "target": weights_hash(target)}
    run = TrainingRun(out / "run", trainees, batches, schedule, machine, recipe)
    lessons = _Lessons(target, drafters.values(), plan, run, words)
    if run.update == 0:
        _first_weights(target, drafters, trainees, batches, lessons, plan)
    run.train(lessons)
    for name, drafter in drafters.items():
        about = _about(drafter, run.recipe, run.update, run.updates, run.seconds)
        save_drafter(out / name, drafter, target, about, torch.bfloat16)


def export(target: Target, trained: Path, out: Path) -> list[str]:
    """Write the drafters of a training run, finished or not, in eight bits; return their names.

    trained  the folder that they are trained into
    UserError if it holds no run, or one for another target
    """
    words = trained / "words.npy"
    if not (trained / "run" / CHECKPOINT).exists():
        raise UserError(f"{trained} holds no training run: nothing was trained into it.")
    state = checkpoint_in(trained / "run")
    if state["recipe"].get("target") not in (None, weights_hash(target)):
        raise UserError(f"{trained} holds drafters for another target: name theirs by --target.")
    for name, weights in state["models"].items():
        drafter = fresh(name, target, 0)
        own = {key.removeprefix("net."): weight for key, weight in weights.items()}
        drafter.net.load_state_dict(own)
        drafter.net.to(target.device).eval().requires_grad_(False)
        drafter.vocabulary = torch.from_numpy(np.load(words)) if words.exists() else None
        done = state["update"], state["updates"], state["seconds"]
        about = _about(drafter, state["recipe"], *done)
        save_drafter(out / name, drafter, target, about, torch.int8)
    return list(state["models"])


def _about(
    drafter: Drafter, recipe: dict[str, Any], update: int, of: int | None, seconds: float
) -> dict[str, Any]:
    """What a drafter's config says about its training; files and folders by their names."""
    paths = {key: Path(recipe[key]).name for key in ("prompts", "start") if recipe.get(key)}
    done = {"updates": update, "of": of, "seconds": round(seconds)}
    training = {**recipe, **paths, **done}
    return {"parameters": parameters(drafter.net), "training": training, "commit": commit()}


def _begun(method: str, target: Target, plan: Plan) -> Trained:
    if plan.start is None:
        return fresh(method, target, plan.seed)
    source = _source(method, plan.start)
    drafter = load_drafter(str(plan.start / source), target)
    assert isinstance(drafter, Trained)
    if source == method:
        return drafter
    grown = MoADrafter(drafter.net, target, tli_of(method), method)
    grown.vocabulary = drafter.vocabulary
    return grown


def _source(method: str, start: Path) -> str:
    """The drafter in a folder that this one goes on from."""
    found = [method, "moa-n0"] if family(method) == "moa" else [method]
    for name in found:
        if os.path.isdir(start / name):
            return name
    raise UserError(
        f"There is no {method} in {start} to go on from: --start names the folder that "
        "holds a folder for each method."
    )


def _words(target: Target, batches: Batches, path: Path, count: int) -> Tensor | None:
    """The ids [D] of the most frequent tokens in replies, and those that end them.

    path   keeps them; they are counted only if it lacks them or holds another number
    count  D; 0: all tokens, and the result is None
    """
    if not count:
        path.unlink(missing_ok=True)  # of a run before
        return None
    if not path.exists() or len(np.load(path)) != count:
        frequency = batches.frequencies(target.config.vocab_size)
        frequency[list(target.eos_ids)] = frequency.max() + 1
        # Of equally rare ones, those that the tokenizer learnt first.
        most = np.argsort(-frequency, kind="stable")[:count]
        np.save(path, np.sort(most))
    return torch.from_numpy(np.load(path)).to(target.device)


def _same_words(drafters: Mapping[str, Trained], path: Path) -> Tensor | None:
    """The ids [D] of the tokens that all these drafters draft, kept in a file for `export`."""
    found = {None if of.vocabulary is None else tuple(of.vocabulary.tolist()): of.vocabulary
             for of in drafters.values()}  # fmt: skip
    if len(found) > 1:
        raise UserError("These drafters draft different tokens: go on with each by itself.")
    words = next(iter(found.values()))
    if words is None:
        path.unlink(missing_ok=True)  # of a run before
    else:
        np.save(path, words.cpu().numpy())
    return words


def _first_weights(
    target: Target, drafters: Mapping[str, Drafter], trainees: Mapping[str, losses.Trainee],
    batches: Batches, lessons: _Lessons, plan: Plan,
) -> None:  # fmt: skip
    """Fit the drafters that do not go on from weights of their own, on the first batches."""
    start, place = plan.start, batches.place
    new = [name for name in drafters if start is None or _source(name, start) != name]
    if not new:
        return
    count = max(1, min(BATCHES, TOKENS // (plan.rows * plan.row_length)))
    bar = tqdm(islice(batches, count), "first weights", count, leave=False)
    taught = [(batch, *lessons(batch, 0)) for batch in (one.to(str(target.device)) for one in bar)]
    batches.place = place
    for name in new:
        trainee, drafter = trainees[name], drafters[name]
        if start is None:
            transplant(trainee, drafter, target, taught)
        elif isinstance(drafter, MoADrafter):
            refit(trainee, drafter, taught)


def trainee(drafter: Drafter, target: Target, weights: losses.Weights) -> losses.Trainee:
    """A drafter's training forward. Its net becomes float32 and trainable."""
    drafter.net.to(target.device, torch.float32).train().requires_grad_(True)
    made = (made for kind, made in TRAINEES.items() if isinstance(drafter, kind))
    return next(made, losses.StatesTrainee)(drafter, target, weights)


class _Lessons:
    """What all drafters share on a batch: the target's lesson and the drawn boundaries."""

    def __init__(
        self, target: Target, drafters: Iterable[Drafter], plan: Plan, run: TrainingRun,
        words: Tensor | None,
    ) -> None:  # fmt: skip
        self._target, self._plan, self._run, self._words = target, plan, run, words
        self._tails = {d.tli for d in drafters if isinstance(d, MoADrafter) and d.tli}
        for drafter in drafters:
            if isinstance(drafter, Eagle3Drafter):
                self._tails |= {len(target.layers) - at for at in drafter.net.config.layers}

    def __call__(self, batch: Batch, update: int) -> tuple[Lesson, Masks]:
        plan = self._plan
        # Fresh weights begin with SA that sees only its block in all rows; from half-time on, in
        # none. Those of the target's layers have learnt to read a text.
        progress = update / (self._run.updates or 100_000)
        known = plan.start is not None or suits(self._target)
        staircase = 0.0 if known else max(0.0, 1 - 2 * progress)
        # Seed and update alone decide the draws, so resumed runs and runs in parts draw the same.
        generator = torch.Generator().manual_seed((plan.seed * 1_000_003 + update) * 1_009)
        masks = on_policy(batch, generator, plan.block, staircase, plan.rows)
        return teach(self._target, batch, self._tails, self._words), masks


def fresh(method: str, target: Target, seed: int) -> Trained:
    """An untrained drafter with as many parameters as a MoA drafter, within a few percent."""
    if (kind := trained().get(family(method))) is None:
        raise UserError(f"Unknown method {method!r:.80}: choose from {', '.join(METHODS)}.")
    torch.manual_seed(seed)
    return kind.fresh(target, parameters(MoANet(MoADrafter.fresh_sizes(target))), method)
