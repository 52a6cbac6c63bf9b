"""The cross-entropy over a large vocabulary, made a few positions at a time."""

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from moa_core.train import losses
from moa_core.train.losses import soft_entropy
from moa_core.train.teacher import Verdicts

VOCABULARY, WIDTH = 500, 16


class Largest(TorchDispatchMode):
    """The most numbers that any tensor had that was made meanwhile."""

    most = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        for one in found if isinstance(found, tuple | list) else (found,):
            if isinstance(one, torch.Tensor):
                self.most = max(self.most, one.numel())
        return found


def made() -> tuple[nn.Linear, torch.Tensor, Verdicts, torch.Tensor]:
    torch.manual_seed(0)
    head = nn.Linear(WIDTH, VOCABULARY, bias=False).requires_grad_(False)
    hidden = torch.randn(2, 60, WIDTH, requires_grad=True)
    return head, hidden, Verdicts(torch.randn(2, 60, WIDTH), head), torch.rand(2, 60) > 0.3


@pytest.mark.parametrize("positions", [1, 7, 1000])
def test_a_loss_made_in_parts_is_the_whole_one_and_so_is_its_gradient(
    positions: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    head, hidden, verdicts, where = made()
    probs = head(verdicts.hidden).softmax(-1)
    whole = -(probs * head(hidden).log_softmax(-1)).sum(-1)[where].sum() / (where.sum() + 1e-5)
    (expected,) = torch.autograd.grad(3 * whole, hidden)
    monkeypatch.setattr(losses, "CHUNK", positions * VOCABULARY)
    found = soft_entropy(head, hidden, verdicts, where)
    torch.testing.assert_close(found, whole)
    (gradient,) = torch.autograd.grad(3 * found, hidden)
    torch.testing.assert_close(gradient, expected)


def test_no_more_logits_exist_at_a_time_than_was_said(monkeypatch: pytest.MonkeyPatch) -> None:
    head, hidden, verdicts, where = made()
    monkeypatch.setattr(losses, "CHUNK", 6 * VOCABULARY)
    with Largest() as largest:
        soft_entropy(head, hidden, verdicts, where).backward()
    assert largest.most == max(6 * VOCABULARY, head.weight.numel())
