"""Where a text parts from plain decoding's."""

import pytest
import torch

from moa_core.decoding.exactness import compare_with_plain, first_difference
from tests.models import tiny_target

PROMPT = [5, 9, 33]


@pytest.fixture(scope="module")
def target():
    return tiny_target()


def test_the_same_text_is_exact_also_where_one_stopped_earlier(target):
    for ours, plain in (([1, 2], [1, 2]), ([1], [1, 2]), ([1, 2], [1])):
        found = compare_with_plain(target, PROMPT, ours, plain)
        assert found.same and found.gap is None


def test_the_first_token_that_is_another():
    assert first_difference([1, 9, 3], [1, 2, 3]) == 1
    assert first_difference([9], [1, 2]) == 0 and first_difference([1], []) is None


@torch.inference_mode()
def test_the_first_difference_and_its_gap(target):
    logits = target.model(input_ids=torch.tensor([[*PROMPT, 7]])).logits[0, -1]
    best, other = logits.topk(2).indices.tolist()
    found = compare_with_plain(target, PROMPT, [7, other, 3], [7, best, 4])
    assert not found.same and found.at == 1
    assert found.gap == pytest.approx(float(logits[best] - logits[other]), abs=1e-4)
    assert compare_with_plain(target, PROMPT, [7, best], [7, other]).gap < 0
