"""A draft vocabulary: drafters of every method draft its tokens, and no others."""

import json
from copy import deepcopy

import pytest
import torch
from safetensors.torch import load_file, save_file

from moa_core.decoding.trace import Drafted
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.base import Drafter
from moa_core.engine import accelerate_drafter
from moa_core.errors import UserError
from moa_core.loading.drafter_files import save_drafter
from moa_core.loading.load import load_drafter
from moa_core.model.target import Target
from tests.models import draft_alike, drafter_of, having_read, lossless, tiny_target

METHODS = ("moa-n0", "moa-n1", "eagle2", "eagle3", "medusa", "tandem", "independent")
PROMPT = [5, 9, 33, 7]
WORDS = torch.tensor([1, 2, 3, 5, 8, 13, 21, 34, 40, 41, 42, 43, 55, 60])
TREE = TreeSettings(3, 3, 9)


@pytest.fixture
def target() -> Target:
    return tiny_target(layers=4)


def with_words(method: str, target: Target) -> Drafter:
    drafter = drafter_of(method, target)
    drafter.vocabulary = WORDS
    return drafter


@pytest.mark.parametrize("method", METHODS)
def test_texts_are_the_target_s_and_trees_those_of_its_head_without_other_tokens(
    method, target, monkeypatch
):
    few, whole = with_words(method, target), drafter_of(method, target)
    trace = lossless(target, few, PROMPT, 20, tree=TREE)
    drafts = {token for one in trace.of(Drafted) for token in one.tree.tokens[1:]}
    assert len(drafts) > 3 and drafts <= set(WORDS.tolist())
    if method in METHODS[:4]:
        quick = accelerate_drafter(few.fork(), target, int8=False)
        assert type(quick) is not type(few) and draft_alike(target, few, quick)
    head = deepcopy(whole.head_for(target))
    # The whole head, but of other tokens it says that they are impossible.
    others = torch.tensor([token for token in range(64) if token not in WORDS])
    head.register_forward_hook(lambda own, x, logits: logits.index_fill(-1, others, -torch.inf))
    monkeypatch.setattr(whole, "head_for", lambda target: head)
    assert draft_alike(target, few, whole)


def test_drafters_with_the_same_words_share_one_head(target):
    ours, theirs = with_words("moa-n0", target), with_words("eagle2", target)
    theirs.vocabulary = WORDS.clone()
    assert ours.head_for(target) is theirs.head_for(target.fork())
    assert torch.equal(ours.head_for(target).weight, target.head.weight[WORDS])
    assert drafter_of("moa-n0", target).head_for(target) is target.head


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("form", [torch.float32, torch.int8])
def test_a_saved_drafter_keeps_its_words_and_nearly_its_weights(method, form, target, tmp_path):
    drafter = with_words(method, target)
    save_drafter(tmp_path, drafter, target, {}, form)
    assert json.loads((tmp_path / "config.json").read_text())["draft_vocab_size"] == len(WORDS)
    loaded = load_drafter(str(tmp_path), target)
    assert torch.equal(loaded.vocabulary, WORDS)
    theirs = loaded.net.state_dict()
    for key, weight in drafter.net.state_dict().items():
        assert theirs[key].dtype == torch.float32
        step = weight.abs().amax(-1, keepdim=True) / 127 if form == torch.int8 else 0.0
        assert bool(((theirs[key] - weight).abs() <= 0.51 * step + 1e-7).all()), key
    if form == torch.float32:
        assert draft_alike(target, drafter, loaded)
        return
    kinds = {
        one.dtype for one in load_file(tmp_path / "model.safetensors").values() if one.ndim > 1
    }
    assert kinds == {torch.int8}
    save_drafter(tmp_path / "again", loaded, target, {}, torch.int8)
    again = load_drafter(str(tmp_path / "again"), target)
    for key, weight in again.net.state_dict().items():
        torch.testing.assert_close(weight, theirs[key])


@pytest.mark.parametrize("method", ["moa-n0", "eagle3"])
@torch.inference_mode()
def test_alone_it_writes_words_alone(method, target):
    drafter, _ = having_read(with_words(method, target), target, PROMPT)
    steps = drafter.alone(7)
    assert next(steps).shape == steps.send(3).shape == WORDS.shape
    steps.close()


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ({"d2t": torch.full((3,), 64)}, "does not have"),
        ({"d2t": torch.zeros(3, 2)}, "not a list"),
        ({"Ekv2E.weight.scale": torch.ones(3)}, "scale"),
    ],
)
def test_damaged_files_get_a_sentence(tensors, words, target, tmp_path):
    save_drafter(tmp_path, with_words("moa-n0", target), target, {}, torch.int8)
    path = tmp_path / "model.safetensors"
    save_file({**load_file(path), **tensors}, path)
    with pytest.raises(UserError, match=words):
        load_drafter(str(tmp_path), target)
