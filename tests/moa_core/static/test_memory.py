"""How much a run holds, and that it reads no number of the device: at 8B, on a device without any.

On `meta` tensors have shapes and no numbers. Whoever reads one there fails, and so does whoever
mixes devices: a cycle that runs there waits for nothing.
"""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from moa_core.bench.profile import random_drafter, random_target
from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Finished, Verified
from moa_core.decoding.tree import DraftTree, TreeSettings
from moa_core.decoding.verify import Choices
from moa_core.drafters import moa
from moa_core.drafters.base import Drafter
from moa_core.drafters.moa import MoADrafter
from moa_core.model.target import Target
from moa_core.static import run as static_run
from moa_core.static.buffers import Nodes
from moa_core.static.cycle import Verification
from moa_core.static.levels import MoALevels
from moa_core.static.replay import Plain
from moa_core.static.run import GraphTarget
from tests.moa_core.static.live_bytes import LiveBytes
from tests.models import tiny_target, useful

METHODS = ("vanilla", "moa-n0", "eagle2", "moa-n3")
TEXT, NEW = 8000, 100
WIDE = TreeSettings(6, 8, 62)
SURE = Choices((0,), (1.0,), (1.0,))


def attention(queries: Tensor, *others: Any, **how: Any) -> Tensor:
    """In memory what a GPU's kernels take: the result."""
    return torch.empty_like(queries)


@pytest.fixture
def without_numbers(monkeypatch: pytest.MonkeyPatch) -> GraphTarget:
    """The whole shape on `meta`; what a run would copy to the host is made up there."""
    monkeypatch.setattr(static_run, "choose", lambda *given: SURE)
    monkeypatch.setattr(Nodes, "tell", lambda self: DraftTree.only_root(0))
    monkeypatch.setattr(Verification, "tell", lambda self: SURE)
    monkeypatch.setattr(F, "scaled_dot_product_attention", attention)
    return GraphTarget(random_target("llama3-8b", TEXT + 1024, "bfloat16", "meta"), Plain)


def cycles(target: Target, drafter: Drafter, length: int, new: int) -> int:
    settings = Settings(NEW, WIDE)
    count = 0
    for event in decode(target, drafter, [0] * length, settings):
        count += isinstance(event, Verified)
        if count == new:
            break
    return count


def held(*modules: torch.nn.Module) -> int:
    """Bytes of weights, each once."""
    storages = {
        weight.untyped_storage()._cdata: weight.untyped_storage().nbytes()
        for module in modules
        for weight in module.parameters()
    }
    return sum(storages.values())


@pytest.mark.parametrize(
    "method",
    [
        *(pytest.param(method, marks=pytest.mark.slow) for method in METHODS[:-1]),
        METHODS[-1],
    ],
)
def test_memory_of_a_long_text_at_8b(method: str, without_numbers: GraphTarget) -> None:
    target = without_numbers
    drafter = random_drafter(method, target, "llama3-8b")
    assert cycles(target, drafter, 3, 2) == 2  # matrices are joined now
    target.pool.clear()
    weights = held(target.model, *([drafter.net] if hasattr(drafter, "net") else []))
    with LiveBytes() as live:
        assert cycles(target, drafter, TEXT, 3) == 3
    (place,) = target.pool
    keys_values = place.slots.whole.nbytes
    for cycle in place.cycles.values():
        levels = vars(cycle.levels).values() if cycle.levels else ()
        own = [part for part in levels if hasattr(part, "whole")]
        keys_values += sum(part.whole.nbytes for part in own)
    assert keys_values > (TEXT + NEW) * 32 * 2048 * 2
    assert weights + live.peak < 1.15 * (weights + keys_values)


@pytest.mark.parametrize("pool", ["mean", "last"])
def test_lsa_takes_a_long_prompt_in_parts(pool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it holds at once does not grow with the prompt, but for the memory itself."""
    monkeypatch.setattr(moa, "LSA_CHUNK", 16)
    target = tiny_target(layers=6, max_position_embeddings=600)
    drafter = useful("moa-n0", target)
    assert isinstance(drafter, MoADrafter)
    drafter.net.config = drafter.net.config.__class__(**{**vars(drafter.net.config), "pool": pool})
    peaks = []
    with torch.inference_mode():
        for length in (64, 512):
            _, seen = target.prefill([token % 60 for token in range(length)], length)
            drafter.serve(target, length)
            drafter.server_half(seen)
            with LiveBytes() as live:
                drafter.server_half(seen)
            peaks.append((live.peak, live.largest))
    more = (512 - 64) * 4  # bytes of one number of each further token
    assert peaks[1][0] - peaks[0][0] < 8 * more * target.config.hidden_size
    assert peaks[1][1] < 512 * 4 * 6 * target.kv_width  # no copy of all K and V


def test_lsa_reads_every_token_once(monkeypatch: pytest.MonkeyPatch) -> None:
    target = GraphTarget(tiny_target(vocab_size=61), Plain)
    drafter = useful("moa-n1", target)
    prefilled, read = [], []
    observe, prefill = MoALevels._observe, MoALevels.prefill

    def noting(self: MoALevels, new: Tensor) -> None:
        read.extend(new[: int(self._text.gained)].tolist())
        observe(self, new)

    def at_first(self: MoALevels, observation: Any) -> None:
        prefilled.extend(range(len(observation.ids) - 1))
        prefill(self, observation)

    monkeypatch.setattr(MoALevels, "_observe", noting)
    monkeypatch.setattr(MoALevels, "prefill", at_first)
    events = list(decode(target, drafter, [5, 9, 33, 7, 21], Settings(40)))
    assert isinstance(events[-1], Finished)
    assert prefilled == [0, 1, 2, 3]
    assert read == list(range(4, 4 + len(read))) and len(read) > 30
