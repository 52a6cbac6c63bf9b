"""MoA's training forward gives the losses and gradients of the authors' training class."""

import pytest
import torch
from torch import Tensor

from moa_core.train.batches import Batch, whole_batch
from moa_core.train.drafters import trainee
from moa_core.train.losses import Weights
from moa_core.train.masks import Masks
from moa_core.train.teacher import teach
from tests import released
from tests.models import one_block, one_reply, training_features
from tests.released import CLOSE

VARIANTS = "plain", "vfl_only", "vfl_staircase_epoch0", "vfl_staircase_epoch10"
STATS = {"forward_KL": "cross_entropy", "feature_loss": "feature", "prev_feature_loss": "entering"}
CASES = [(tli, variant) for tli in (0, 1, 3) for variant in VARIANTS]


def released_batch() -> Batch:
    """Padding keeps to no segment of its own: the release does not mask it."""
    stored = released.tensors("train_batch")
    ids = stored["input_ids"]
    positions = stored["attention_mask"].long().cumsum(-1) - 1
    whole = whole_batch(ids, stored["response_mask"].bool(), torch.zeros_like(ids))
    return whole._replace(positions=positions)


def released_masks(batch: Batch, stored: dict[str, Tensor], variant: str) -> Masks:
    """The masks of the authors' release, as it drew them.

    It differs from `on_policy` where the release departs from what a drafter meets: boundary
    positions see their own memory, TLI sees drafted K and V of verified tokens, and its inputs at
    boundaries are replaced by the target's.
    """
    sa, ca = (stored[f"{variant}.{part}_mask_allowed"] for part in ("sa", "ca"))
    causal = torch.ones_like(sa[:1]).tril()
    return Masks(sa, ca, causal, batch.response, ca[:, 0].diagonal(dim1=1, dim2=2))


@pytest.mark.parametrize(("tli", "variant"), CASES)
def test_positions_hidden_states_loss_and_every_gradient(tli, variant):
    expected, target = released.tensors(f"moa_n{tli}_training"), released.target()
    batch, trained = released_batch(), trainee(released.moa(tli), target, Weights())
    masks, taught = released_masks(batch, expected, variant), teach(target, batch, {tli} - {0})
    assert torch.equal(batch.positions, expected[f"{variant}.position_ids"])
    hidden = training_features(trained, batch, taught, masks)
    real = released.tensors("train_batch")["attention_mask"].bool()
    theirs = expected[f"{variant}.final_hidden"]
    torch.testing.assert_close(hidden.detach()[real], theirs[real], **CLOSE)
    expected = released.numbers("moa_training")[f"n{tli}.{variant}"]
    loss, stats = trained(batch, taught, masks, 0)
    loss.backward()
    assert loss.item() == pytest.approx(expected["loss"], abs=1e-5)
    theirs = {STATS[k]: v for k, v in expected["stats"].items() if k in STATS}
    assert {k: v.item() for k, v in stats.items()} == pytest.approx(theirs, abs=1e-5)
    norms = {name: p.grad.norm().item() for name, p in trained.net.named_parameters()}
    assert norms == pytest.approx(expected["grad_norm_params"], abs=1e-6, rel=1e-4)


@pytest.mark.parametrize("tli", [0, 1, 3])
def test_training_on_the_first_chain_gives_its_logits(tli, monkeypatch):
    expected, target = released.tensors(f"moa_n{tli}_train_forward"), released.target()
    ids, known = expected["input_ids"][None], len(released.prompt())
    batch, trained = one_reply(ids, known), trainee(released.moa(tli), target, Weights())
    text = released.recorded(monkeypatch, trained.net.self_attention)
    memory = released.recorded(monkeypatch, trained.net.cross_attention, "attend")
    taught = teach(target, batch, {tli} - {0})
    hidden = training_features(trained, batch, taught, one_block(batch))
    drafts = hidden[0, known:].detach()
    torch.testing.assert_close(drafts, expected["final_hidden"], **CLOSE)
    logits = target.head(drafts)
    torch.testing.assert_close(logits, expected["logits"], **CLOSE)
    assert logits.argmax(-1).tolist() == expected["draft_tokens"].tolist()
    torch.testing.assert_close(text[0][1][0].detach(), expected["sa_out"], **CLOSE)
    # Of the prompt's tokens, ours see more than the release's.
    read = memory[0][1][0, known:].detach()
    torch.testing.assert_close(read, expected["ca_out"][known:], **CLOSE)
