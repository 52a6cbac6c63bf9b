"""A profile counts what compiled kernels do as it counts torch's operators."""

from types import ModuleType

import pytest

from moa_core.bench.profile_runs import Contender, Count, counted, profile_all
from moa_core.bench.profile_work import Work
from moa_core.checkpoints import load_drafter, load_target
from moa_core.decode import Settings
from moa_core.native.switch import kernels as compiled
from moa_core.native.switch import switched
from moa_core.tree import TreeSettings
from tests.moa_core.native.shared import round_weights


@pytest.mark.parametrize("method", ["moa-n0", "moa-n2", "eagle2", "glide", "medusa"])
def test_kernels_reckon_as_much_as_torch_in_fewer_calls(kernels: ModuleType, method: str) -> None:
    target = load_target()
    drafter = load_drafter(method, target)
    round_weights(drafter.net)  # the same trees with and without
    ids, settings = [5, 9, 33, 7, 21, 40, 11], Settings(24, TreeSettings(4, 2, 6))
    quick = counted(target, drafter, ids, settings, 6)
    assert compiled() is kernels  # as before
    with switched(False):
        slow = counted(target, drafter, ids, settings, 6)
    assert quick.cycles == slow.cycles
    mine, torchs = drafting(quick), drafting(slow)
    assert mine.ops == pytest.approx(torchs.ops, rel=0.02)
    if method != "medusa":  # whose own layers are torch's
        assert mine.operators < 0.6 * torchs.operators
        assert mine.bytes < 0.6 * torchs.bytes  # weights in eight bits, K and V in 32


@pytest.mark.parametrize("method", ["moa-n2", "eagle2"])
def test_what_is_counted_is_what_is_timed(kernels: ModuleType, method: str) -> None:
    target = load_target()
    contenders = {method: Contender(load_drafter(method, target), TreeSettings(4, 2, 6))}
    found = profile_all(target, contenders, [[5, 9, 33, 7]], 24, 1, 6)[method]
    timed = {piece for piece in found.pieces if piece.phase == "draft"}
    counted = {piece for piece, work in found.work.items() if piece.phase == "draft" and work.ops}
    assert counted <= timed
    head = sum(work.bytes for piece, work in found.work.items() if piece == ("draft", "head", 0))
    assert head == 4096 * 256  # in eight bits


def drafting(count: Count) -> Work:
    """All that drafts."""
    return sum((work for piece, work in count.work.items() if piece.phase == "draft"), Work())
