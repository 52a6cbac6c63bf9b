"""Acceptance: which drafted tokens the target would have written itself."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import NamedTuple, cast

import torch
from torch import Tensor
from transformers import (
    LogitsProcessorList,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from moa_core.decoding.tree import DraftTree
from moa_core.errors import UserError, is_whole

COLDEST = 1e-6  # below this, decoding is greedy: logits would overflow


@dataclass(frozen=True)
class Sampling:
    """How the target chooses its next token. Temperature 0: greedy; top_k 0 and top_p 1: off."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if not (isinstance(self.temperature, Real) and 0 <= self.temperature <= 100):
            raise UserError("Temperature must be a number from 0 (greedy) to 100.")
        if not (isinstance(self.top_p, Real) and 0 < self.top_p <= 1):
            raise UserError("Top-p must be a number above 0 and at most 1.")
        if not is_whole(self.top_k, 0):
            raise UserError("Top-k must be a whole number, 0 for off.")
        if not is_whole(self.seed, -(2**62), 2**62):
            raise UserError("The seed must be a whole number of at most 18 digits.")

    @property
    def greedy(self) -> bool:
        return self.temperature < COLDEST


class Choices(NamedTuple):
    """The target's own next token after each node, with its probabilities.

    tokens  token id chosen after each node
    probs   the target's probability of that choice
    drafts  the target's probability of each node's own token, given its parent; 1 for the root
    """

    tokens: tuple[int, ...]
    probs: tuple[float, ...]
    drafts: tuple[float, ...]


def uniform(seed: int, position: int) -> float:
    """The random number in [0, 1) that decides the token at a position, for every method."""
    return random.Random(f"{seed}/{position}").random()


def target_probs(logits: Tensor, sampling: Sampling) -> Tensor:
    """[n, V] the distribution that output tokens must follow; plain softmax if greedy."""
    logits = logits.float()
    if sampling.greedy:
        return logits.softmax(-1)
    warpers = LogitsProcessorList([TemperatureLogitsWarper(float(sampling.temperature))])
    if sampling.top_k:
        warpers.append(TopKLogitsWarper(sampling.top_k))
    if sampling.top_p < 1:
        warpers.append(TopPLogitsWarper(sampling.top_p))
    text = cast(torch.LongTensor, None)  # the text so far, which no warper reads
    return warpers(text, logits).softmax(-1)


def choose(logits: Tensor, tree: DraftTree, position: int, sampling: Sampling) -> Choices:
    """The target's choice after each node, as if the text ended there.

    logits    [n, V] one row per node
    position  position of the root in the sequence
    """
    probs = target_probs(logits, sampling)
    if sampling.greedy:
        tokens = logits.argmax(-1)
    else:
        draws = [uniform(sampling.seed, position + depth + 1) for depth in tree.depths]
        tokens = sample(probs, draws)
    parents, nodes = torch.tensor([tree.parents, tree.tokens], device=probs.device).clamp(min=0)
    of_choice = probs.gather(1, tokens[:, None])[:, 0]
    of_draft = probs[parents, nodes]
    # One copy from the device for all three: float32 holds any id below 2**24 exactly.
    ids, of_choice, of_draft = torch.stack([tokens.float(), of_choice, of_draft]).tolist()
    return Choices(tuple(map(int, ids)), tuple(of_choice), (1.0, *of_draft[1:]))


def sample(probs: Tensor, draws: Sequence[float] | Tensor) -> Tensor:
    """[n] tokens by inverse transform: the first whose cumulative probability exceeds the draw."""
    cumulative = probs.cumsum(-1)  # [n, V]
    levels = torch.as_tensor(draws, device=probs.device, dtype=probs.dtype)[:, None]
    tokens = torch.searchsorted(cumulative, levels * cumulative[:, -1:], right=True)[:, 0]
    # A draw that rounds up to 1 finds no token: then take the most probable one.
    return torch.where(tokens < probs.shape[-1], tokens, probs.argmax(-1))


def walk(tree: DraftTree, choices: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """Follow the target's choices down the tree as long as they were drafted.

    Returns the accepted nodes below the root, in order, and the bonus token: the target's choice
    after the last of them.

    Lossless at any temperature: the token at a position is the target's own draw, made before it is
    looked up among the drafts. Summed over the children, this accepts with the same probability as
    EAGLE-2, which tries siblings in turn. The draw depends only on seed and position, so every
    method writes the same text for the same seed.
    """
    path: list[int] = []
    node = 0
    while (child := tree.children[node].get(choices[node])) is not None:
        path.append(child)
        node = child
    return tuple(path), choices[node]


def first_difference(ours: Sequence[int], plain: Sequence[int]) -> int | None:
    """Index of the first token that differs; None if one text is a prefix of the other."""
    pairs = zip(ours, plain, strict=False)
    return next((place for place, (one, other) in enumerate(pairs) if one != other), None)
