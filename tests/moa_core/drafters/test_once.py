"""LSA is never reckoned again for a token, however long the text: each goes through it once."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from moa_core.decoding.trace import Verified
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters import moa
from moa_core.drafters.moa import MoADrafter
from moa_core.model.cache import token_vectors
from moa_core.model.target import Observation, Target
from tests.models import tiny_target, traced, useful
from tests.released import recorded

PROMPT = [3, 7, 1, 9, 4, 2, 6]


class Watched:
    """What a drafter was given while one text was decoded."""

    def __init__(self, drafter: MoADrafter, patch: pytest.MonkeyPatch) -> None:
        self.caches: list[Any] = []
        self.ids: list[int] = []
        self.lsa = recorded(patch, drafter.net, "memory")
        half, observe = MoADrafter.server_half, MoADrafter.observe

        def server_half(drafter: MoADrafter, seen: Observation) -> dict[str, Any]:
            self.caches.append(seen.cache)
            return half(drafter, seen)

        def observed(drafter: MoADrafter, ids: Sequence[int], given: dict[str, Any]) -> None:
            self.ids += ids
            observe(drafter, ids, given)

        patch.setattr(MoADrafter, "server_half", server_half)
        patch.setattr(MoADrafter, "observe", observed)


@pytest.mark.parametrize("tli", [0, 1, 3])
@pytest.mark.parametrize("chunk", [512, 4])
def test_each_verified_token_goes_through_lsa_once_and_in_order(monkeypatch, tli, chunk):
    monkeypatch.setattr(moa, "LSA_CHUNK", chunk)
    target: Target = tiny_target()
    drafter = useful(f"moa-n{tli}", target)
    assert isinstance(drafter, MoADrafter)
    watched = Watched(drafter, monkeypatch)
    trace = traced(target, drafter, PROMPT, max_new_tokens=60, tree=TreeSettings(3, 2, 5))
    assert max(trace.accepted_lengths) > 1 and len(trace.of(Verified)) > 5
    # What the last verification taught is not observed any more: nothing is drafted after it.
    text = [*PROMPT, *trace.output_ids]
    assert watched.ids == text[: len(watched.ids)]
    assert len(text) - len(watched.ids) <= 3 + 2
    vectors = torch.cat([given for given, _ in watched.lsa])  # [n, L, W]
    assert len(vectors) == len(watched.ids), "a token was reckoned again, or never"
    assert max(len(given) for given, _ in watched.lsa) <= max(chunk, len(PROMPT))
    cache = watched.caches[-1]
    with torch.inference_mode():
        assert torch.equal(vectors, token_vectors(cache.read(0, len(vectors))))
