"""The training loop: several models on one stream of batches, resumable after a kill."""

import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from tqdm import tqdm

from moa_core.errors import UserError, saying
from moa_core.train.batches import Batch, Batches
from moa_core.train.masks import predictable
from moa_core.train.muon import Muon

BETAS = 0.9, 0.95  # of AdamW
Prepare = Callable[[Batch, int], tuple[Any, ...]]  # a batch and the update's number
CHECKPOINT = "checkpoint.pt"
FLOOR = 0.05  # the last learning rate, as a share of the peak
LOG_EVERY = 25  # updates


@dataclass(frozen=True)
class Machine:
    """Where and how a run computes. `workers` changes the answers, the rest only rounding.

    bf16        autocast
    parts       into which the rows of an update are split, to save memory
    workers     processes that write the target's own text
    stop_at     end at this update of an unchanged schedule
    save_every  seconds between checkpoints
    """

    device: str = "cpu"
    bf16: bool = False
    parts: int = 1
    workers: int = 2
    stop_at: int | None = None
    save_every: float = 60.0

    def autocast(self) -> torch.autocast:
        return torch.autocast(self.device, torch.bfloat16, enabled=self.bf16)

    @contextmanager
    def computing(self) -> Iterator[None]:
        """For a forward pass whose backward pass follows.

        On a CPU, that of fused attention is several times slower than matrix products, most of all
        for LSA's thousands of short sequences.
        """
        plain = sdpa_kernel(SDPBackend.MATH) if self.device == "cpu" else nullcontext()
        with self.autocast(), plain:
            yield


@dataclass(frozen=True)
class Schedule:
    """Length, learning rate and optimiser of a run.

    updates  optimiser steps; None for as many as fit into `minutes`
    rate     the peak
    muon     Muon for the weight matrices except embeddings; else AdamW for all
    """

    updates: int | None
    rate: float
    minutes: float | None = None
    warmup: int = 200
    muon: bool = False

    def factor(self, update: int, updates: int) -> float:
        """Share of the peak rate: it rises linearly, then falls to the floor as a cosine."""
        warmup = min(self.warmup, max(1, updates // 10))
        if update < warmup:
            return (update + 1) / warmup
        progress = (update - warmup) / max(1, updates - warmup)
        return FLOOR + (1 - FLOOR) * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))


def optimisers(
    schedule: Schedule, machine: Machine, model: nn.Module
) -> list[torch.optim.Optimizer]:
    """AdamW, or Muon and AdamW, for a model's trainable weights, without decay."""
    weights = [(key, p) for key, p in model.named_parameters() if p.requires_grad]
    matrices = [p for key, p in weights if p.ndim > 1 and "embed" not in key]
    tables = [p for key, p in weights if p.ndim > 1 and "embed" in key]
    vectors = {"params": [p for _, p in weights if p.ndim < 2]}
    adamw = partial(torch.optim.AdamW, lr=schedule.rate, betas=BETAS, weight_decay=0.0)
    if not schedule.muon:
        return [adamw([{"params": matrices + tables}, vectors])]
    muon = Muon(matrices, schedule.rate, torch.bfloat16 if machine.bf16 else torch.float32)
    return [muon, adamw([{"params": tables}, vectors])]


def checkpoint_in(folder: Path) -> dict[str, Any]:
    """The state that a run keeps in its folder. UserError if it is damaged."""
    path = folder / CHECKPOINT
    with saying(f"{path} cannot be read, so start anew in another folder"):
        state: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    return state


class TrainingRun:
    """A training run in a folder: `log.jsonl` grows, `checkpoint.pt` is replaced every so often."""

    def __init__(
        self, folder: Path, models: Mapping[str, nn.Module], batches: Batches, schedule: Schedule,
        machine: Machine, recipe: Mapping[str, Any],
    ) -> None:  # fmt: skip
        """recipe: what shapes the result besides the schedule, such as the target's weights; a
        resumed run has the same one."""
        self.folder, self.batches, self._lines = folder, batches, folder / "log.jsonl"
        self.schedule, self.machine = schedule, machine
        self.recipe = json.loads(json.dumps({**recipe, "schedule": asdict(schedule)}, default=str))
        folder.mkdir(parents=True, exist_ok=True)
        self.update, self.seconds = 0, 0.0
        self._kept = 0  # update of the checkpoint
        self.models = {name: model.to(machine.device) for name, model in models.items()}
        self.optimisers = {name: optimisers(schedule, machine, of) for name, of in models.items()}
        self._rows = batches.rows // machine.parts
        self._resume()

    def train(self, prepare: Prepare) -> None:
        """Train to the end of the schedule, or to an update before it.

        prepare  computes once what all models share: a target's lesson on the batch, and masks
        """
        bar = tqdm(total=self.updates, initial=self.update, smoothing=0.05)
        saved, stream = time.monotonic(), iter(self.batches)
        begun = saved - self.seconds
        try:
            if not self._done:
                bar.write(self.batches.about())
            while not self._done:
                parts = self._advance(next(stream), prepare)
                self.update += 1
                bar.update()
                now = time.monotonic()
                self.seconds = now - begun
                bar.total, last = self.updates, self._done
                if self.update % LOG_EVERY == 0 or last:
                    self._log(parts, bar)
                if now - saved > self.machine.save_every or last:
                    self.save()
                    saved = time.monotonic()
        except KeyboardInterrupt:
            said = f"Stopped; the same command goes on from update {self._kept:,}."
            raise KeyboardInterrupt(said) from None
        finally:
            bar.close()

    def _advance(self, whole: Batch, prepare: Prepare) -> dict[str, dict[str, Tensor]]:
        """One update of all models: their losses' parts."""
        parts: dict[str, dict[str, Tensor]] = {name: {} for name in self.models}
        total = float(predictable(whole).sum())
        for start in range(0, len(whole.ids), self._rows):
            part = whole.part(slice(start, start + self._rows))
            share = float(predictable(part).sum()) / max(total, 1e-9)  # of the mean loss
            batch = part.to(self.machine.device)
            with self.machine.autocast():
                shared = prepare(batch, self.update)
            for name, of in parts.items():
                with self.machine.computing():
                    loss, more = self.models[name](batch, *shared, self.update)
                (loss * share).backward()
                for key, value in {"loss": loss.detach(), **more}.items():
                    of[key] = of.get(key, 0) + value * share
        for name, of in parts.items():
            of["norm"] = self._step(name)
        return parts

    def _step(self, name: str) -> Tensor:
        """One optimiser step; returns the norm of the gradients."""
        factor = self.schedule.factor(self.update, self.updates or 100_000)
        norm = nn.utils.clip_grad_norm_(self.models[name].parameters(), 1.0)
        for optimiser in self.optimisers[name]:
            for group in optimiser.param_groups:
                group["lr"] = self.schedule.rate * factor
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        return norm

    @property
    def updates(self) -> int | None:
        """Of the whole schedule; of minutes, as many as fit at the pace so far, None at first."""
        minutes = self.schedule.minutes
        if minutes is None or not self.seconds:
            return self.schedule.updates
        return int(self.update * 60 * minutes / self.seconds)

    @property
    def _done(self) -> bool:
        ends = [end for end in (self.updates, self.machine.stop_at) if end is not None]
        return bool(ends) and self.update >= min(ends)

    def _log(self, parts: dict[str, dict[str, Tensor]], bar: tqdm) -> None:
        flat = torch.stack([value.float() for of in parts.values() for value in of.values()])
        found = iter(flat.tolist())
        values = {name: {k: round(next(found), 5) for k in of} for name, of in parts.items()}
        bar.set_postfix({name: f"{of['loss']:.3f}" for name, of in values.items()})
        line = {"update": self.update, "seconds": round(self.seconds, 1), **values}
        with self._lines.open("a", encoding="utf-8") as log:
            log.write(json.dumps(line) + "\n")

    def save(self) -> None:
        """Write a checkpoint beside the old one, then swap: a kill leaves one of the two."""
        state = {
            "recipe": self.recipe,
            "update": self.update,
            "updates": self.updates,
            "seconds": self.seconds,
            "place": self.batches.place,
            "logged": self._lines.stat().st_size,
            "models": {name: model.state_dict() for name, model in self.models.items()},
            "optimisers": {
                n: [one.state_dict() for one in of] for n, of in self.optimisers.items()
            },
        }
        path = self.folder / CHECKPOINT
        with saying(f"{path} cannot be written"):
            torch.save(state, path.with_suffix(".part"))
            os.replace(path.with_suffix(".part"), path)
        self._kept = self.update

    def _resume(self) -> None:
        if not (self.folder / CHECKPOINT).exists():
            self._lines.write_bytes(b"")
            return
        state = checkpoint_in(self.folder)
        if (before := state["recipe"]) != self.recipe:
            changed = [key for key in self.recipe if before.get(key) != self.recipe[key]]
            raise UserError(
                f"{self.folder} holds a run with other settings ({', '.join(changed) or 'fewer'}): "
                "give the same ones to go on, or another folder to start anew."
            )
        for name, model in self.models.items():
            model.load_state_dict(state["models"][name])
            for optimiser, step in zip(
                self.optimisers[name], state["optimisers"][name], strict=True
            ):
                optimiser.load_state_dict(step)
        self.update = self._kept = state["update"]
        self.seconds, self.batches.place = state["seconds"], tuple(state["place"])
        os.truncate(self._lines, state["logged"])  # what was logged later comes again
