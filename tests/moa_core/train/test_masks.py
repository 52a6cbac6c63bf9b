"""In training a drafter sees what it will see when drafting: checked token by token."""

from collections.abc import Iterator
from itertools import pairwise, product
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from moa_core.train.batches import PADDING, Batch, same_document, whole_batch
from moa_core.train.drafters import Plan, _Lessons
from moa_core.train.masks import Masks, on_policy, predictable
from tests.moa_core.train.conftest import PROMPTS
from tests.models import one_reply, tiny_target

LENGTH = 90
SEEDS = range(12)


def documents() -> Batch:
    """Rows of documents: prompt and reply, all reply, cut at the row's ends, two turns, padding."""
    rows = [
        [(0, 20, 60), (1, 5, 5)],  # (segment, prompt, reply), the second one to fill up
        [(2, 0, 40), (3, 1, 30), (4, 12, 7)],
        [(5, 7, 1), (6, 10, 2), (7, 30, 3)],  # short replies, then padding
        [(8, 3, 10), (8, 9, 20), (8, 4, 44)],  # turns of one document
        [(9, 0, 90)],
    ]
    segment = torch.full((len(rows), LENGTH), PADDING)
    response = torch.zeros(len(rows), LENGTH, dtype=torch.bool)
    for row, parts in enumerate(rows):
        place = 0
        for number, prompt, reply in parts:
            end = place + prompt + reply
            segment[row, place:end] = number
            response[row, place + prompt : end] = True
            place = end
    return whole_batch(torch.zeros_like(segment), response, segment)


BATCH = documents()
EVERYWHERE = [*product(range(len(BATCH.ids)), range(LENGTH))]


def draws(block: tuple[int, int] = (6, 14), staircase: float = 0.0) -> Iterator[Masks]:
    for seed in SEEDS:
        yield on_policy(BATCH, torch.Generator().manual_seed(seed), block, staircase)


def seen(mask: torch.Tensor, row: int, place: int) -> set[int]:
    return set(mask[row if len(mask) > 1 else 0, 0, place].nonzero().flatten().tolist())


def text_up_to(row: int, place: int) -> set[int]:
    segment = BATCH.segment[row].tolist()
    return {other for other in range(place + 1) if segment[other] == segment[place]}


def is_drafted(row: int, place: int) -> bool:
    """A reply's token with something before it; all others are only ever read."""
    return bool(BATCH.response[row, place]) and bool(BATCH.positions[row, place] > 0)


def root_of(masks: Masks, row: int, place: int) -> int:
    """The first token of the block, by what TLI still takes from the drafter itself."""
    return min(seen(masks.tail, row, place) & set(range(LENGTH, 2 * LENGTH))) - LENGTH


@pytest.mark.parametrize(
    ("block", "staircase", "low", "high"),
    [((6, 14), 0.0, 0, 0), ((6, 14), 0.5, 0.3, 0.7), ((6, 14), 1.0, 1, 1),
     ((1, 1), 0.0, 0, 0), ((200, 300), 0.0, 0, 0)],
)  # fmt: skip
def test_a_token_sees_true_keys_before_its_blocks_root_and_drafted_ones_from_it_on(
    block, staircase, low, high
):
    """SA sees the whole text, or with the staircase, in some rows, the block alone."""
    roots, wide, narrow = set(), set(), set()
    for draw, masks in enumerate(draws(block, staircase)):
        for row, place in EVERYWHERE:
            text, root = text_up_to(row, place), root_of(masks, row, place)
            before = {other for other in text if other < root}
            drafted = {LENGTH + other for other in text - before}
            assert seen(masks.tail, row, place) == before | drafted and LENGTH + place in drafted
            found = seen(masks.sa, row, place)
            assert found in (text, text - before)
            if before:
                (wide if found == text else narrow).add((draw, row))
            # What is not drafted is only ever read: the target has read the whole prompt.
            assert seen(masks.ca, row, place) == (before if is_drafted(row, place) else text)
            if is_drafted(row, place):
                roots.add((row, place, root))
                assert is_drafted(row, place - 1) or root == place
    assert not wide & narrow and low <= len(narrow) / len(wide | narrow) <= high
    assert len(roots) > 1000 or block != (6, 14)  # boundaries do move from draw to draw


def test_blocks_are_as_long_as_asked_for():
    lengths = set()
    for masks in draws((3, 5)):
        for row in range(len(BATCH.ids)):
            places = [place for place in range(LENGTH) if is_drafted(row, place)]
            roots = [root_of(masks, row, place) for place in places]
            for (place, root), (after, next_root) in pairwise(zip(places, roots, strict=True)):
                # The same block goes on, or a new one begins with the token itself.
                assert next_root in (root, after)
                if next_root == after == place + 1 and is_drafted(row, root - 1):
                    lengths.add(place + 1 - root)
            assert all(place - root < 5 for place, root in zip(places, roots, strict=True))
    assert lengths == {3, 4, 5}


def test_the_loss_counts_where_the_next_token_is_of_the_same_reply():
    same, loss = same_document(BATCH.segment), predictable(BATCH)
    for row, place in EVERYWHERE:
        assert BATCH.positions[row, place] == len(text_up_to(row, place)) - 1
        assert seen(same, row, place) == text_up_to(row, place)
        follows = (
            place + 1 < LENGTH
            and is_drafted(row, place)
            and bool(BATCH.response[row, place + 1])
            and BATCH.segment[row, place] == BATCH.segment[row, place + 1]
        )
        assert bool(loss[row, place]) == follows
    assert 100 < int(loss.sum()) < loss.numel()


@pytest.mark.parametrize(
    ("family", "start"), [("qwen3", None), ("qwen3", Path("begun")), ("llama", None)]
)
def test_sa_is_narrowed_to_its_block_at_the_start_of_random_drafters_alone(family, start):
    ids = torch.randint(0, 60, (2, 40), generator=torch.Generator().manual_seed(0))
    batch = one_reply(ids, 6)
    target, plan = tiny_target(family=family), Plan(PROMPTS, rows=2, start=start)
    _, masks = _Lessons(target, [], plan, SimpleNamespace(updates=100), None)(batch, 0)
    narrow = start is None and family == "qwen3"  # whose layers drafters do not start from
    assert torch.equal(masks.sa, same_document(batch.segment)) is not narrow
