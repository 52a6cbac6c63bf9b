"""Is the text the target's own? If not, where it parts, and by how little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from moa_core.model.target import Target


@dataclass(frozen=True)
class Exactness:
    """How a text compares with plain decoding of the same prompt.

    at   place of the first token that differs, from 0 in the output; None if none does
    gap  logit of plain decoding's token there minus that of ours, in a forward over the text alone;
         near 0: a tie that rounding decided
    """

    at: int | None
    gap: float | None

    @property
    def same(self) -> bool:
        """Whether every token is the same."""
        return self.at is None


def first_difference(ours: Sequence[int], plain: Sequence[int]) -> int | None:
    """Place, from 0, of the first token that differs; None where one merely stopped earlier."""
    pairs = zip(ours, plain, strict=False)
    return next((place for place, (one, other) in enumerate(pairs) if one != other), None)


@torch.inference_mode()
def compare_with_plain(
    target: Target, prompt_ids: Sequence[int], ours: Sequence[int], plain: Sequence[int]
) -> Exactness:
    """Compare output ids with plain decoding's; where one merely stopped earlier, they agree."""
    at = first_difference(ours, plain)
    if at is None:
        return Exactness(None, None)
    text = [*prompt_ids, *plain[:at]]
    logits, _ = target.fork().prefill(text, len(text))
    return Exactness(at, float(logits[plain[at]].float() - logits[ours[at]].float()))
