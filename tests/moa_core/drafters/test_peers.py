"""The methods MoA is compared with: lossless, true to their files, and trained as they draft."""

from unittest.mock import Mock, patch

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from moa_core.decoding.trace import Drafted
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.base import Drafter
from moa_core.drafters.independent import IndependentDrafter
from moa_core.drafters.medusa import BLOCKS, HEADS
from moa_core.drafters.ngram import NgramDrafter
from moa_core.drafters.tandem import SHARE
from moa_core.errors import UserError
from moa_core.loading.drafter_files import check_tokenizer, save_drafter, whole_model
from moa_core.loading.load import load_drafter
from moa_core.model.target import Target, parameters
from moa_core.train import losses
from moa_core.train.batches import Batch
from moa_core.train.drafters import fresh, trainee
from moa_core.train.losses import Weights
from moa_core.train.teacher import teach
from tests.models import (
    chatml_tokenizer,
    check_chain,
    drafter_of,
    edit_config,
    lossless,
    one_block,
    one_reply,
    save_target,
    speaking_target,
    tiny_target,
    traced,
)

TRAINED = ("eagle3", "medusa", "tandem", "independent")
PROMPTS = ([5, 9, 33, 7, 21, 40, 11], [3], [8, 8, 8, 8, 2, 8, 8])


@pytest.mark.parametrize("method", TRAINED)
def test_about_as_many_trainable_numbers_as_moa(method):
    target = tiny_target(hidden_size=128, num_attention_heads=8, num_key_value_heads=4)
    wanted = parameters(fresh("moa-n0", target, 0).net)
    count = parameters(fresh(method, target, 0).net)
    if method == "medusa":  # small, as in the paper
        assert count == HEADS * (BLOCKS * (128 * 128 + 128) + 128 * 128) < wanted
    else:
        share = SHARE if method == "tandem" else 1
        assert abs(count - share * wanted) <= 0.05 * wanted


@pytest.mark.parametrize("method", ["tandem", "independent", "medusa"])
def test_the_training_forward_gives_the_logits_of_the_drafting_path(method):
    target = tiny_target(layers=4)
    drafter = drafter_of(method, target)
    prompt = PROMPTS[0]
    run = traced(target, drafter, prompt, max_new_tokens=2, tree=TreeSettings(7, 1, 7))
    tree = run.of(Drafted)[0].tree  # of Medusa, as deep as it has heads
    batch = one_reply(torch.tensor([prompt + list(tree.tokens)]), len(prompt))
    said = _training_logits(drafter, target, batch, len(prompt))
    check_chain(said, tree.tokens, tree.log_probs)


def _training_logits(drafter: Drafter, target: Target, batch: Batch, root: int) -> Tensor:
    """[levels, V] what training would have said after the root and after each draft."""
    trained = trainee(drafter, target, Weights())
    lesson = teach(target, batch)
    if drafter.name == "medusa":
        return target.head(trained.net(lesson.hidden)[0, root - 1, :5])
    score = Mock(side_effect=lambda states, *_: states.sum())
    with patch.object(losses, "soft_entropy", score):
        trained(batch, lesson, one_block(batch), seed=0)
    return target.head(score.call_args_list[0].args[0])[0, root:-1]


@pytest.mark.parametrize(
    ("ids", "shape", "tokens", "parents", "probs"),
    [
        # After 1 2 came 3 twice and 4 once; after 9 1 2 came only 4: the longer suffix decides.
        ([1, 2, 3, 5, 1, 2, 3, 6, 9, 1, 2, 4, 7, 9, 1, 2],
         (2, 2, 4), (2, 4, 7), (-1, 0, 1), (3 / 4, 3 / 4)),
        ([1, 2, 3, 5, 1, 2, 3, 6, 1, 2, 4, 7, 8, 1, 2],
         (1, 2, 4), (2, 3, 4), (-1, 0, 0), (4 / 7, 2 / 7)),
        # A single branch is what came most often, among equals last; after a new word nothing.
        ([1, 2, 3, 5, 1, 2, 3, 6, 1, 2, 4, 7, 8, 1, 2], (1, 1, 2), (2, 3), (-1, 0), (4 / 7,)),
        ([2, 3, 7, 2, 4, 8, 2], (1, 1, 2), (2, 4), (-1, 0), (1 / 3,)),
        # Four tokens are looked up, not five, after which only 7 came.
        ([9, 1, 2, 3, 4, 7, 8, 1, 2, 3, 4, 6, 9, 1, 2, 3, 4], (1, 2, 1), (4, 6), (-1, 0), (4 / 9,)),
        ([7, 7, 7], (3, 1, 2), (7, 7), (-1, 0), (2 / 3,)),
        ([1, 2, 3], (2, 2, 4), (3,), (-1,), ()),
    ],
)  # fmt: skip
def test_prompt_lookup_follows_the_longest_suffix(ids, shape, tokens, parents, probs):
    drafter = NgramDrafter()
    drafter.open(tiny_target(), 0)
    drafter.observe(ids[:-1], {})
    tree = drafter.propose(ids[-1], TreeSettings(*shape))
    assert (tree.tokens, tree.parents, tree.log_probs[0]) == (tokens, parents, 0)
    assert [tree.draft_prob(node) for node in range(len(tree))] == pytest.approx([1, *probs])


def test_any_small_model_with_the_targets_tokenizer_can_draft(tmp_path):
    target, small = speaking_target(), speaking_target(seed=3, layers=1, hidden_size=16)
    save_target(tmp_path / "small", small)
    drafter = load_drafter(str(tmp_path / "small"), target)
    assert isinstance(drafter, IndependentDrafter) and drafter.name == "small"
    assert drafter.small.config.hidden_size == 16
    lossless(target, drafter, PROMPTS[0], 20)


def test_a_small_model_of_more_words_drafts_only_those_that_the_target_knows():
    target, small = tiny_target(), tiny_target(seed=3, layers=1, vocab_size=90)
    drafter = IndependentDrafter(small, target)
    assert {name.split(".")[0] for name in drafter.net.state_dict()} == {"layers", "norm"}
    trace = lossless(target, drafter, PROMPTS[0], 20)
    assert max(token for event in trace.of(Drafted) for token in event.tree.tokens) < 64


def test_a_small_model_that_does_not_fit_is_refused(tmp_path):
    tiny_target(vocab_size=50).model.save_pretrained(tmp_path)
    with pytest.raises(UserError, match="vocabulary is 50, the target's is 64"):
        whole_model(tmp_path, tiny_target(), "small")
    target, other = speaking_target(), chatml_tokenizer()
    with pytest.raises(UserError, match="has another tokenizer"):
        check_tokenizer(other, target, "small")
    speaking_target(seed=3, layers=1).model.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(UserError, match="The drafter small cannot be loaded"):
        whole_model(tmp_path, target, "small")


@pytest.mark.parametrize(
    ("method", "key"),
    [("tandem", "num_attention_heads"), ("medusa", "heads"), ("independent", "num_hidden_layers")],
)
def test_a_peer_must_tell_its_shape(tmp_path, method, key):
    target = tiny_target()
    save_drafter(tmp_path, fresh(method, target, 0), target, {}, torch.float32)
    edit_config(tmp_path, **{key: None})
    with pytest.raises(UserError, match=f"config.json without {key}: its shape is unknown"):
        load_drafter(str(tmp_path), target)


def test_each_medusa_head_is_told_what_the_target_says_at_its_own_place():
    """Its loss by hand: head k of token t foretells what comes after token t + 1 + k."""
    target = tiny_target()
    drafter = drafter_of("medusa", target)
    ids = torch.randint(0, 60, (2, 20), generator=torch.Generator().manual_seed(4))
    batch = one_reply(ids, 6)
    lesson = teach(target, batch)
    loss, found = trainee(drafter, target, Weights())(batch, lesson, None, 0)
    heads = drafter.net(lesson.hidden)  # [B, T, K, E]
    first = lesson.hidden
    for block in drafter.net.heads[0]:
        first = first + F.silu(block(first))
    torch.testing.assert_close(heads[:, :, 0], drafter.net.turns[0](first))
    says = target.head(lesson.hidden).softmax(-1)
    losses = []
    for head in range(heads.shape[2]):
        foretold = target.head(heads[:, :, head]).log_softmax(-1)
        each = [
            -(says[row, told] * foretold[row, told - head - 1]).sum()
            for row in range(2)
            for told in range(max(6, head + 1), 19)  # rows of a reply that go on
        ]
        losses.append(torch.stack(each).mean())
    weights = torch.tensor([0.8**head for head in range(len(losses))])
    whole = (weights * torch.stack(losses)).sum() / weights.sum()
    torch.testing.assert_close(found["cross_entropy"], losses[0].detach(), rtol=1e-4, atol=0)
    torch.testing.assert_close(loss.detach(), whole.detach(), rtol=1e-4, atol=0)
