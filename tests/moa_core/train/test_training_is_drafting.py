"""Training forward and drafting path give the same logits.

Good training accuracy with dead acceptance is this field's commonest bug; this is its test.
"""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from moa_core.decoding.trace import Drafted
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.eagle import EagleDrafter
from moa_core.model.target import Target
from moa_core.train import losses
from moa_core.train.batches import Batch
from moa_core.train.drafters import fresh, trainee
from moa_core.train.losses import EagleTrainee, Weights, soft_entropy
from moa_core.train.masks import predictable
from moa_core.train.teacher import Verdicts, teach
from tests.models import check_chain, one_block, one_reply, tiny_target, traced, training_features

PROMPT = [5, 9, 33, 7, 21, 40, 11]
CHAIN = TreeSettings(depth=5, breadth=1, budget=5)


def _chain(target, drafter):
    tree = traced(target, drafter, PROMPT, max_new_tokens=4, tree=CHAIN).of(Drafted)[0].tree
    return list(tree.tokens), list(tree.log_probs)


def _batch(tokens: list[int]) -> Batch:
    return one_reply(torch.tensor([PROMPT + tokens]), len(PROMPT))


def _hidden(drafter, batch, lesson):
    """EAGLE's features of a first step, made as it drafts them [B, T-1, E]."""
    joined = drafter.net.join(lesson.embedded[:, 1:], lesson.hidden[:, :-1])
    rotation = drafter.rope(batch.positions[:, :-1], joined)
    return drafter.net.layers[0](joined, rotation, causal=True)


@pytest.fixture
def target() -> Target:
    return tiny_target(layers=4)


@pytest.fixture
def eagle(target: Target) -> EagleDrafter:
    return fresh("eagle2", target, seed=1)


@pytest.mark.parametrize("tli", [0, 1, 3])
def test_moa_trains_on_what_it_drafts_from(target, tli):
    drafter = fresh(f"moa-n{tli}", target, seed=1)
    tokens, log_probs = _chain(target, drafter)
    batch = _batch(tokens)
    trained, lesson = trainee(drafter, target, Weights()), teach(target, batch, {tli} - {0})
    logits = target.head(training_features(trained, batch, lesson, one_block(batch)))[0]
    check_chain(logits[len(PROMPT) : -1], tokens, log_probs)


def test_eagle_trains_on_its_first_step(target, eagle):
    tokens, log_probs = _chain(target, eagle)
    batch = _batch(tokens)
    hidden = _hidden(eagle, batch, teach(target, batch))
    check_chain(target.head(hidden)[0, len(PROMPT) - 1 :][:1], tokens[:2], log_probs[:2])


def test_eagle_is_told_what_the_target_says_after_each_reply_token(target, eagle, monkeypatch):
    """Its loss by hand: from the feature before a token and the token, what comes next."""
    monkeypatch.setattr(losses, "NOISE", 0.0)
    batch = _batch([3, 50, 21, 9, 17, 2])
    lesson = teach(target, batch)
    _, found = EagleTrainee(eagle, target, Weights())(batch, lesson, None, 0)
    hidden = _hidden(eagle, batch, lesson)
    where, wanted = predictable(batch)[:, 1:], lesson.hidden[:, 1:]
    probs = target.head(wanted).softmax(-1)
    entropy = -(probs * target.head(hidden).log_softmax(-1)).sum(-1)[where].mean()
    feature = F.smooth_l1_loss(hidden[where], wanted[where])
    torch.testing.assert_close(found["cross_entropy"], entropy.detach(), rtol=1e-4, atol=0)
    torch.testing.assert_close(found["feature"], feature.detach(), rtol=1e-4, atol=0)


def test_eagle_s_noise_is_uniform_around_zero_and_each_row_s_own(target, eagle, monkeypatch):
    batch = _batch([3, 50, 21, 9, 17, 2])
    lesson, trained = teach(target, batch), EagleTrainee(eagle, target, Weights())
    seen = []
    features = trained.features
    monkeypatch.setattr(
        trained, "features", lambda *given: (seen.append(given[2]), features(*given))[1]
    )
    for seed in (0, 0, 1):
        trained(batch, lesson, None, seed)
    noise = [each - lesson.hidden[:, :-1] for each in seen]
    most = 0.1 * 512 / batch.ids.shape[1]
    assert torch.equal(noise[0], noise[1]) and not torch.equal(noise[0], noise[2])
    assert all(0.9 * most < each.abs().max() <= most + 1e-4 for each in noise)
    assert abs(float(noise[0].mean())) < most / 10
    both = losses.noise(lesson.hidden.repeat(2, 1, 1), 0, [0, 1])
    assert not torch.equal(both[0], both[1])


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


@pytest.mark.parametrize("positions", [1, 7, 1000])
def test_a_loss_made_in_parts_is_the_whole_one_and_so_is_its_gradient(positions, monkeypatch):
    torch.manual_seed(0)
    head = nn.Linear(WIDTH, VOCABULARY, bias=False).requires_grad_(False)
    hidden, wanted = torch.randn(2, 60, WIDTH, requires_grad=True), torch.randn(2, 60, WIDTH)
    verdicts, where = Verdicts(wanted, head), torch.rand(2, 60) > 0.3
    probs = head(wanted).softmax(-1)
    whole = -(probs * head(hidden).log_softmax(-1)).sum(-1)[where].sum() / (where.sum() + 1e-5)
    (expected,) = torch.autograd.grad(3 * whole, hidden)
    monkeypatch.setattr(losses, "CHUNK", positions * VOCABULARY)
    with Largest() as largest:
        found = soft_entropy(hidden, verdicts, where)
        (gradient,) = torch.autograd.grad(3 * found, hidden)
    torch.testing.assert_close(found, whole)
    torch.testing.assert_close(gradient, expected)
    most = min(positions, int(where.sum())) * VOCABULARY
    assert largest.most == max(most, head.weight.numel())
