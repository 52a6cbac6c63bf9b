"""The training loop: several models on one stream of batches, resumable after a kill."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, Protocol

import torch
from accelerate import Accelerator
from torch import Tensor, nn
from tqdm import tqdm

from moa_core.errors import UserError
from moa_core.train.batches import Batch, Batches

Step = Callable[[nn.Module, Batch, Any, int], tuple[Tensor, dict[str, Tensor]]]
PROBE = 40  # updates of a process before --minutes is turned into a number of updates


@dataclass(frozen=True)
class Schedule:
    """How long and how fast.

    updates  optimiser steps; None: as many as fit into `minutes`, which then must be given
    rates    peak learning rate by model name, "" for all others
    muon     Muon for the weight matrices, embeddings left out; else AdamW for all
    """

    updates: int | None
    rates: Mapping[str, float]
    minutes: float | None = None
    warmup: int = 200
    floor: float = 0.05
    decay: float = 0.0
    betas: tuple[float, float] = (0.9, 0.95)
    muon: bool = False

    def __post_init__(self) -> None:
        if self.updates is None and self.minutes is None:
            raise UserError("Say how long to train: give either updates or minutes.")

    def rate(self, name: str) -> float:
        """A model's peak learning rate."""
        return self.rates.get(name, self.rates.get("", 1e-3))

    def factor(self, update: int, updates: int) -> float:
        """Share of the peak rate: a linear rise, then a cosine down to the floor."""
        warmup = min(self.warmup, max(1, updates // 10))
        if update < warmup:
            return (update + 1) / warmup
        progress = (update - warmup) / max(1, updates - warmup)
        return self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))


class Watch(Protocol):
    """Looks at the models now and then as they are trained; its findings go into the log."""

    def due(self, update: int, updates: int | None) -> bool: ...

    def measure(self, update: int, seconds: Mapping[str, float]) -> dict[str, float]: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class Run:
    """A training run in a folder: `log.jsonl` grows, `checkpoint.pt` is replaced every so often."""

    def __init__(
        self,
        folder: Path,
        models: dict[str, nn.Module],
        batches: Batches,
        schedule: Schedule,
        accelerator: Accelerator,
        recipe: Mapping[str, Any],
        save_every: float = 60.0,
        watch: Watch | None = None,
    ) -> None:
        """recipe: what shapes the result, beside the schedule; a resume with another is refused."""
        self.folder, self.batches, self.schedule = folder, batches, schedule
        self.accelerator, self.save_every, self.watch = accelerator, save_every, watch
        self.recipe = json.loads(json.dumps({**recipe, "schedule": asdict(schedule)}, default=str))
        folder.mkdir(parents=True, exist_ok=True)
        self.update, self.updates, self.seconds = 0, schedule.updates, 0.0
        self.spent = dict.fromkeys(models, 0.0)  # seconds, as if each had been trained alone
        self.bare = models
        self.models: dict[str, nn.Module] = {}
        self.optimisers: dict[str, list[torch.optim.Optimizer]] = {}
        for name, model in models.items():
            prepared = accelerator.prepare(model, *self._optimisers(name, model))
            self.models[name], *self.optimisers[name] = prepared
        self._resume()

    def train(
        self, prepare: Callable[[Batch, int], Any], step: Step, stop_at: int | None = None
    ) -> None:
        """Train to the end of the schedule, or to an update before it.

        prepare  what all models share of a batch (a target's lesson, say), computed once
        step     (model, batch, prepared, update) -> loss and its parts
        """
        shown = self.accelerator.is_main_process
        bar = tqdm(total=self.updates, initial=self.update, disable=not shown, smoothing=0.05)
        saved = begun = time.monotonic()
        before = self.seconds
        stream = iter(self.batches)
        first, mark = self.update, begun
        while not self._done(stop_at):
            batch = next(stream).to(self.accelerator.device)
            start = _clock()
            with self.accelerator.autocast():
                shared = prepare(batch, self.update)
            shared_seconds = _clock() - start
            parts = {}
            for name in self.models:
                start = _clock()
                parts[name] = self._advance(name, batch, shared, step)
                self.spent[name] += shared_seconds + _clock() - start
            self.update += 1
            bar.update()
            now = time.monotonic()
            self.seconds = before + now - begun
            if self.updates is None:
                mark = self._probe(self.update - first, mark, bar)
            begun += self._look()
            last = self._done(stop_at)
            if self.update % 25 == 0 or last:
                self._log(parts, bar)
            if now - saved > self.save_every or last:
                self.save()
                saved = time.monotonic()
        bar.close()
        self.batches.close()

    def _look(self) -> float:
        """Let the watch measure if it is time; the seconds that this took."""
        if self.watch is None or not self.watch.due(self.update, self.updates):
            return 0.0
        begun = time.monotonic()
        found = {}
        if self.accelerator.is_main_process:
            found = self.watch.measure(self.update, self.spent)
        self.accelerator.wait_for_everyone()
        self._write({"measured": found})
        return time.monotonic() - begun

    def _done(self, stop_at: int | None) -> bool:
        ends = [end for end in (self.updates, stop_at) if end is not None]
        return bool(ends) and self.update >= min(ends)

    def _advance(self, name: str, batch: Batch, shared: Any, step: Step) -> dict[str, Tensor]:
        model, optimisers = self.models[name], self.optimisers[name]
        rate = self.schedule.rate(name) * self.schedule.factor(self.update, self.updates or 100_000)
        with self.accelerator.autocast():
            loss, parts = step(model, batch, shared, self.update)
        self.accelerator.backward(loss)
        norm = self.accelerator.clip_grad_norm_(model.parameters(), 1.0)
        for optimiser in optimisers:
            for group in optimiser.param_groups:
                group["lr"] = rate
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)
        return {"loss": loss.detach(), "norm": norm, **parts}

    def _optimisers(self, name: str, model: nn.Module) -> list[torch.optim.Optimizer]:
        schedule, rate = self.schedule, self.schedule.rate(name)
        weights = [(key, p) for key, p in model.named_parameters() if p.requires_grad]
        matrices = [p for key, p in weights if p.ndim > 1 and "embed" not in key]
        tables = [p for key, p in weights if p.ndim > 1 and "embed" in key]
        rest = {"params": [p for _, p in weights if p.ndim < 2], "weight_decay": 0.0}
        if schedule.muon:
            muon = torch.optim.Muon(
                matrices, lr=rate, weight_decay=schedule.decay, adjust_lr_fn="match_rms_adamw"
            )
            others = [{"params": tables, "weight_decay": schedule.decay}, rest]
            return [muon, torch.optim.AdamW(others, lr=rate, betas=schedule.betas)]
        groups = [{"params": matrices + tables, "weight_decay": schedule.decay}, rest]
        return [torch.optim.AdamW(groups, lr=rate, betas=schedule.betas)]

    def _probe(self, done: int, mark: float, bar: tqdm) -> float:
        """Turn minutes into updates, once this process has done enough of them to know its pace.

        mark  when the timed ones began; the half before them, slow with warming up, is not timed
        """
        assert self.schedule.minutes is not None
        left = 60 * self.schedule.minutes - self.seconds
        if left <= 0:  # slow updates, or many kills
            self.updates = bar.total = self.update
        elif done == PROBE // 2:
            return self._synchronised()
        elif done == PROBE:
            pace = (self._synchronised() - mark) / (PROBE - PROBE // 2)
            self.updates = bar.total = self.update + int(left / pace)
        return mark

    def _synchronised(self) -> float:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        return time.monotonic()

    def _log(self, parts: dict[str, dict[str, Tensor]], bar: tqdm) -> None:
        values = {
            name: {k: round(float(v), 5) for k, v in of.items()} for name, of in parts.items()
        }
        self._write(values)
        bar.set_postfix({name: f"{of['loss']:.3f}" for name, of in values.items()})

    def _write(self, values: Mapping[str, Any]) -> None:
        if self.accelerator.is_main_process:
            line = {"update": self.update, "seconds": round(self.seconds, 1), **values}
            with (self.folder / "log.jsonl").open("a", encoding="utf-8") as log:
                log.write(json.dumps(line) + "\n")

    def save(self) -> None:
        """Write the checkpoint beside the old one, then swap: a kill leaves one of the two."""
        if not self.accelerator.is_main_process:
            return
        state = {
            "recipe": self.recipe,
            "update": self.update,
            "updates": self.updates,
            "seconds": self.seconds,
            "spent": self.spent,
            "watch": self.watch and self.watch.state_dict(),
            "place": self.batches.place,
            "models": {name: model.state_dict() for name, model in self.bare.items()},
            "optimisers": {
                name: [each.state_dict() for each in of] for name, of in self.optimisers.items()
            },
        }
        path = self.folder / "checkpoint.pt"
        torch.save(state, path.with_suffix(".part"))
        os.replace(path.with_suffix(".part"), path)

    def _resume(self) -> None:
        path = self.folder / "checkpoint.pt"
        if not path.exists():
            return
        state = torch.load(path, map_location="cpu", weights_only=True)
        if state["recipe"] != self.recipe:
            changed = [k for k in self.recipe if state["recipe"].get(k) != self.recipe[k]]
            raise UserError(
                f"{self.folder} holds a run with other settings ({', '.join(changed) or 'fewer'}): "
                "give the same ones to go on, or another folder to start anew."
            )
        for name, model in self.bare.items():
            model.load_state_dict(state["models"][name])
            for each, stored in zip(self.optimisers[name], state["optimisers"][name], strict=True):
                each.load_state_dict(stored)
        self.update, self.updates = state["update"], state["updates"]
        self.seconds, self.batches.place = state["seconds"], tuple(state["place"])
        self.spent = state["spent"]
        if self.watch:
            self.watch.load_state_dict(state["watch"])


def _clock() -> float:
    """Seconds, with all work done that was begun."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return perf_counter()
