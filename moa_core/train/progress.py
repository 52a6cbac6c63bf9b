"""How well drafters draft while they train: acceptance over time, and the best weights so far."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.base import Drafter
from moa_core.model.target import Target
from moa_core.train.measure import acceptance

TREE = TreeSettings(5, 4, 12)  # one for all: methods are compared, not trees


class Progress:
    """Measures every drafter's acceptance length a few times in a run, and remembers the best.

    Losses of different methods are not comparable, and one method's loss says little about its
    acceptance: the weights to keep are chosen by what is wanted of them.

    prompts  token ids by kind, never trained on nor reported on
    times    measurements in a run, evenly spaced
    tokens   written for each prompt, greedy
    """

    def __init__(
        self,
        target: Target,
        drafters: Mapping[str, Drafter],
        prompts: dict[str, list[list[int]]],
        times: int = 8,
        tokens: int = 64,
    ) -> None:
        self._target, self._drafters, self._prompts = target, drafters, prompts
        self._times, self._tokens = times, tokens
        self.metrics: dict[str, list[dict[str, Any]]] = {name: [] for name in drafters}
        self._best: dict[str, dict[str, Tensor]] = {}

    def due(self, update: int, updates: int | None) -> bool:
        """Whether to measure after this update."""
        if not updates:
            return False
        return update * self._times // updates > (update - 1) * self._times // updates

    def measure(self, update: int, seconds: Mapping[str, float]) -> dict[str, float]:
        """Measure all drafters, after so many seconds of training of each; their τ."""
        for name, drafter in self._drafters.items():
            found = acceptance(self._target, drafter, self._prompts, TREE, self._tokens)
            before = max((one["tau"] for one in self.metrics[name]), default=0.0)
            entry = {"updates": update, "seconds": round(seconds[name], 3), "tau": found["tau"]}
            self.metrics[name].append(entry)
            if found["tau"] >= before:
                state = drafter.net.state_dict()
                self._best[name] = {key: value.detach().clone() for key, value in state.items()}
        return {name: of[-1]["tau"] for name, of in self.metrics.items()}

    def restore_best(self) -> None:
        """Give every drafter the weights with which it was accepted most."""
        for name, state in self._best.items():
            self._drafters[name].net.load_state_dict(state)

    def state_dict(self) -> dict[str, Any]:
        return {"metrics": self.metrics, "best": self._best}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.metrics, self._best = state["metrics"], state["best"]
