"""A tape replays what a CUDA graph would, and refuses what one cannot have."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from moa_core.static.players import Tapes
from moa_core.static.tape import NeedsHost, Outside

CPU = torch.device("cpu")


def played(piece: Callable[[], None], times: int) -> Tapes:
    player = Tapes(CPU)
    for _ in range(times):
        player.play("piece", piece)
    return player


def test_a_replay_reads_and_writes_the_same_buffers() -> None:
    x, total = torch.ones(3), torch.zeros(3)
    calls = []

    def piece() -> None:
        calls.append(1)
        total[1:].add_((x * 2)[1:])

    player = played(piece, 2)
    x.fill_(10)
    player.play("piece", piece)
    player.play("piece", piece)
    assert total.tolist() == [0, 44, 44] and len(calls) == 2


def test_a_graph_keeps_what_comes_from_outside_alone() -> None:
    buffer, table = torch.zeros(4), torch.ones(4)
    outside = Outside()
    with outside:
        buffer[1:].add_((table * 2)[1:].sort().values)
    assert {id(each) for each in outside.given.values()} == {id(buffer), id(table)}


def test_parts_of_what_one_operator_gives() -> None:
    x, low, high = torch.tensor([3.0, 1, 2, 9]), torch.zeros(2), torch.zeros(2)

    def piece() -> None:
        first, second = x.sort().values.chunk(2)
        low.copy_(first)
        high.copy_(second)

    player = played(piece, 2)
    x.copy_(torch.tensor([4.0, 8, 7, 6]))
    player.play("piece", piece)
    assert low.tolist() == [4, 6] and high.tolist() == [7, 8]


def test_what_python_decides_stays_as_it_was() -> None:
    """The fault that the comparison with the eager way is there to find."""
    steps, out = [1.0], torch.zeros(1)

    def piece() -> None:
        out.add_(steps[0])

    player = played(piece, 2)
    steps[0] = 100.0
    player.play("piece", piece)
    assert out.tolist() == [3]


X = torch.tensor([0.0, 1, 2])


@pytest.mark.parametrize(
    "read",
    [
        lambda: X.sum().item(),
        lambda: X.tolist(),
        lambda: X.cpu(),
        lambda: X.numpy(),
        lambda: bool(X.any()),
        lambda: int(X[0]),
        lambda: X.nonzero(),
        lambda: X[X > 0],
        lambda: X.unique(),
        lambda: torch.tensor([1, 2]),
        lambda: range(3)[X[0].long()],
        lambda: X[: X[1].long()],
    ],
    ids=[
        "item", "tolist", "cpu", "numpy", "bool", "int", "nonzero", "masked", "unique", "constant",
        "index", "slice",
    ],
)  # fmt: skip
def test_what_needs_the_host_is_refused(read: Callable[[], Tensor]) -> None:
    with pytest.raises(NeedsHost):
        played(read, 2)
