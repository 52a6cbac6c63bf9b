"""transformers' own generation, timed from outside: what it does inside is not reported by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import torch

from moa_core.decoding.decode import Settings
from moa_core.model.target import Target


@dataclass(frozen=True)
class Made:
    """What one call of generate gave.

    ids         new tokens, eos included
    first_gain  those of the first target forward; more than one where it verified drafts as well
    """

    ids: list[int]
    target_calls: int
    first_gain: int
    seconds: float
    prefill: float  # seconds until the end of the first target forward


@dataclass
class _Watch:
    """Hooks around the target's forward: when the first one ended, what each found in the cache."""

    known: list[int] = field(default_factory=list)  # tokens cached before each forward
    first_end: float = 0.0

    def before(self, _model: Any, _args: Any, kwargs: dict[str, Any]) -> None:
        cache = kwargs.get("past_key_values")
        self.known.append(0 if cache is None else int(cache.get_seq_length()))

    def after(self, model: Any, _args: Any, _kwargs: Any, _output: Any) -> None:
        if len(self.known) == 1:
            _wait(model.device)
            self.first_end = perf_counter()


def generate(
    target: Target, ids: Sequence[int], settings: Settings, options: dict[str, Any]
) -> Made:
    """Decode one prompt with `target.model.generate`, with options such as an assistant model."""
    prompt = torch.tensor([list(ids)], device=target.device)
    wanted = min(settings.max_new_tokens, target.context - len(ids))
    watch, model = _Watch(), target.model
    hooks = [
        model.register_forward_pre_hook(watch.before, with_kwargs=True),
        model.register_forward_hook(watch.after, with_kwargs=True),
    ]
    torch.manual_seed(settings.sampling.seed)
    try:
        _wait(target.device)
        start = perf_counter()
        output = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=wanted,
            pad_token_id=0,
            eos_token_id=list(settings.eos_ids or ()) or None,
            **_sampling(settings),
            **options,
        )
        _wait(target.device)
        seconds = perf_counter() - start
    finally:
        for hook in hooks:
            hook.remove()
    new = output[0, len(ids) :].tolist()
    # The second forward finds the prompt and what the first one accepted, not yet its bonus token.
    first = watch.known[1] - len(ids) + 1 if len(watch.known) > 1 else len(new)
    return Made(new, len(watch.known), first, seconds, watch.first_end - start)


def _sampling(settings: Settings) -> dict[str, Any]:
    sampling = settings.sampling
    if sampling.greedy:
        return {"do_sample": False}
    # generate's own default is top-k 50.
    return {
        "do_sample": True,
        "temperature": float(sampling.temperature),
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
    }


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
