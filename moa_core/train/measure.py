"""The acceptance of drafters, measured on held-out text as they train."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from torch import Tensor

from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Trace
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.base import Drafter
from moa_core.model.target import Target
from moa_core.text import prompt_ids, tokenizer_of
from moa_core.train import corpus
from moa_core.train.encode import encode_many
from moa_core.train.own_text import prompts_in

PLAIN_START = 48  # tokens of a plain text, as a prompt
LONGEST = 256  # tokens of a prompt that acceptance is measured on
TREE = TreeSettings(5, 4, 11)  # the same for all methods, to compare the methods alone


def heldout_prompts(target: Target, data: Path, each: int) -> list[list[int]]:
    """So many held-out prompts of each kind: chats up to their last reply, openings of texts."""
    found: dict[str, list[list[int]]] = defaultdict(list)
    for document in corpus.shuffled(corpus.load(data, "heldout"), 0, 0, "heldout"):
        if len(found.get(document.kind, ())) == each:
            continue
        # Nothing if the template refuses the chat.
        for ids, mask in encode_many([document], tokenizer_of(target)):
            starts = [n for n in range(1, len(mask)) if mask[n] and not mask[n - 1]]
            if mask[0]:
                starts = [min(PLAIN_START, len(ids) // 2)]
            if starts and 0 < starts[-1] < target.context - 128:
                found[document.kind].append(ids[: starts[-1]])
    return [*chain(*found.values())]


def heldout_chats(target: Target, path: Path, count: int) -> list[list[int]]:
    """The first few held-out prompts of a file of prompts."""
    prompts = [prompt for _, prompt in prompts_in(path, kept=True)]
    ids = [prompt_ids(tokenizer_of(target), prompt) for prompt in prompts[: 4 * count]]
    return [one for one in ids if len(one) < LONGEST][:count]


def acceptance(
    target: Target, drafter: Drafter, prompts: Sequence[list[int]], tokens: int
) -> float:
    """τ of greedy decoding: tokens gained per target forward after the prefill, bonus included."""
    settings = Settings(tokens, TREE, eos_ids=target.eos_ids)
    lengths: list[int] = []
    for ids in prompts:
        lengths += Trace(events=list(decode(target, drafter, ids, settings))).accepted_lengths
    return round(sum(lengths) / max(1, len(lengths)), 3)


class Progress:
    """Measures each drafter's acceptance a few times in a run, and keeps its best weights.

    Acceptance decides, because a loss says little about it.

    prompts  token ids, not used for training or reports
    times    measurements in a run, evenly spaced
    tokens   for each prompt, greedy
    """

    def __init__(
        self,
        target: Target,
        drafters: Mapping[str, Drafter],
        prompts: Sequence[list[int]],
        times: int = 8,
        tokens: int = 64,
    ) -> None:
        self._target, self._drafters, self._prompts = target, drafters, prompts
        self._times, self._tokens = times, tokens
        self.metrics: dict[str, list[dict[str, Any]]] = {name: [] for name in drafters}
        self._best: dict[str, dict[str, Tensor]] = {}

    def due(self, update: int, updates: int | None) -> bool:
        """Whether to measure after this update."""
        times = self._times
        return updates is not None and update * times // updates > (update - 1) * times // updates

    def measure(self, update: int, seconds: Mapping[str, float]) -> dict[str, float]:
        """Every drafter's τ; `seconds` is each one's training time."""
        for name, drafter in self._drafters.items():
            found = acceptance(self._target, drafter, self._prompts, self._tokens)
            before = max((one["tau"] for one in self.metrics[name]), default=0.0)
            entry = {"updates": update, "seconds": round(seconds[name], 3), "tau": found}
            self.metrics[name].append(entry)
            if found >= before:
                state = drafter.net.state_dict()
                self._best[name] = {key: value.detach().clone() for key, value in state.items()}
        return {name: of[-1]["tau"] for name, of in self.metrics.items()}

    def restore_best(self) -> None:
        for name, state in self._best.items():
            self._drafters[name].net.load_state_dict(state)

    def state_dict(self) -> dict[str, Any]:
        return {"metrics": self.metrics, "best": self._best}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.metrics, self._best = state["metrics"], state["best"]
