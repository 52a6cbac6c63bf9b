"""A draft vocabulary: drafters of every method draft its tokens, and no others."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from moa_core.decoding.trace import Drafted
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.base import Drafter, Stepwise
from moa_core.engine import accelerate_drafter
from moa_core.errors import UserError
from moa_core.loading.drafter_files import save_drafter
from moa_core.loading.load import load_drafter
from moa_core.model.target import Target
from tests.models import draft_alike, drafter_of, plain_greedy, tiny_target, traced

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


class Elsewhere(torch.nn.Module):
    """A head whose logits of all tokens outside WORDS are -inf."""

    def __init__(self, head: torch.nn.Linear) -> None:
        super().__init__()
        self.head, self.out_features = head, head.out_features

    def forward(self, x: Tensor) -> Tensor:
        logits = self.head(x)
        found = torch.full_like(logits, -torch.inf)
        found[..., WORDS] = logits[..., WORDS]
        return found


@pytest.mark.parametrize("method", METHODS)
def test_trees_are_those_of_the_whole_head_without_the_other_tokens(method, target, monkeypatch):
    few, whole = with_words(method, target), drafter_of(method, target)
    monkeypatch.setattr(
        type(whole),
        "head_for",
        lambda self, target: (
            target.head_of(WORDS) if self.vocabulary is not None else Elsewhere(target.head)
        ),
    )
    assert draft_alike(target, few, whole)


@pytest.mark.parametrize("method", METHODS)
def test_the_text_is_the_target_s_and_drafts_are_words_alone(method, target):
    trace = traced(target, with_words(method, target), PROMPT, max_new_tokens=20, tree=TREE)
    assert trace.output_ids == plain_greedy(target, PROMPT, 20)
    drafts = {token for one in trace.of(Drafted) for token in one.tree.tokens[1:]}
    assert len(drafts) > 3 and drafts <= set(WORDS.tolist())


def test_drafters_with_the_same_words_share_one_head(target):
    ours, theirs = with_words("moa-n0", target), with_words("eagle2", target)
    theirs.vocabulary = WORDS.clone()
    assert ours.head_for(target) is theirs.head_for(target.fork())
    assert torch.equal(ours.head_for(target).weight, target.head.weight[WORDS])
    assert drafter_of("moa-n0", target).head_for(target) is target.head


@pytest.mark.parametrize("method", METHODS[:4])
def test_graphs_have_the_same_head(method, target):
    drafter = with_words(method, target)
    quick = accelerate_drafter(drafter.fork(), target, int8=False)
    assert type(quick) is not type(drafter)
    assert draft_alike(target, drafter, quick)


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
    drafter = with_words(method, target)
    assert isinstance(drafter, Stepwise)
    _, seen = target.prefill(PROMPT, 64)
    drafter.open(target, 64)
    _, seen = target.prefill(PROMPT, 64)  # with what the drafter taps
    drafter.observe(PROMPT, drafter.server_outputs(seen))
    steps = drafter.alone(7)
    assert next(steps).shape == steps.send(3).shape == WORDS.shape
    steps.close()


def damaged(folder: Path, **tensors: Tensor) -> None:
    path = folder / "model.safetensors"
    save_file({**load_file(path), **tensors}, path)


def test_damaged_files_get_a_sentence(target, tmp_path):
    drafter = with_words("moa-n0", target)
    save_drafter(tmp_path, drafter, target, {}, torch.int8)
    damaged(tmp_path, d2t=torch.full((3,), 64))
    with pytest.raises(UserError, match="does not have"):
        load_drafter(str(tmp_path), target)
    damaged(tmp_path, d2t=torch.zeros(3, 2))
    with pytest.raises(UserError, match="not a list"):
        load_drafter(str(tmp_path), target)
    damaged(tmp_path, **{"Ekv2E.weight.scale": torch.ones(3)})
    with pytest.raises(UserError, match="scale"):
        load_drafter(str(tmp_path), target)
