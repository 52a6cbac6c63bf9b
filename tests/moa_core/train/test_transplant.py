"""First weights of drafters, fitted to the target's states."""

import pytest
import torch

from moa_core.train.drafters import fresh, trainee
from moa_core.train.losses import Weights
from moa_core.train.masks import on_policy
from moa_core.train.teacher import teach
from moa_core.train.transplant import transplant
from tests.models import one_reply


@torch.no_grad()
def test_a_medusa_head_starts_as_what_best_foretells_the_state_at_its_place(target):
    drafter = fresh("medusa", target, 0)
    trained, turns = trainee(drafter, target, Weights()), drafter.net.turns
    batch = one_reply(torch.randint(0, 60, (4, 40)), 6)
    lesson = teach(target, batch)

    def lacking(head: int) -> torch.Tensor:
        trained.fitted = head
        missing, where = trained.missing(batch, lesson, None)
        return missing[where]

    before = [float(lacking(head).norm()) for head in range(len(turns))]
    transplant(trained, drafter, target, [(batch, lesson, None)])
    for head, then in enumerate(before):
        assert 0 < lacking(head).norm() < 0.9 * then
    hidden = lesson.hidden  # that of tokens 6 to 38 foretells the next one of the reply
    ahead = hidden[:, 6:39] - turns[1](hidden)[:, 4:37]
    torch.testing.assert_close(lacking(1), ahead.flatten(0, 1))


@torch.no_grad()
def test_what_eagle3_lacks_in_a_row_does_not_depend_on_the_rows_before(target):
    drafter = fresh("eagle3", target, 0)
    trained, batch = trainee(drafter, target, Weights()), one_reply(torch.ones(2, 40).long(), 6)
    lesson = teach(target, batch, {len(target.layers) - at for at in drafter.net.config.layers})
    late = batch._replace(rows=torch.tensor([60, 61]))  # the last of an update with short rows
    assert torch.equal(*(trained.missing(each, lesson, None)[0] for each in (batch, late)))


@torch.no_grad()
@pytest.mark.parametrize("method", ["moa-n0", "eagle2", "tandem"])
def test_first_weights_bring_a_drafter_close_to_the_targets_states(method, target):
    drafter = fresh(method, target, 0)
    trained = trainee(drafter, target, Weights())
    batch = one_reply(torch.randint(0, 60, (8, 40)), 6)
    taught = batch, teach(target, batch), on_policy(batch, torch.Generator().manual_seed(0), (2, 6))

    def lack() -> float:
        missing, where = trained.missing(*taught)
        return float(missing[where].norm())

    before = lack()
    transplant(trained, drafter, target, [taught])
    assert lack() < 0.8 * before
