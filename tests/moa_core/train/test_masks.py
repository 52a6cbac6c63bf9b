"""In training a drafter sees what it will see when drafting: checked token by token."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
import torch

from moa_core.train.batches import Batch, same_document, whole_batch
from moa_core.train.masks import Masks, on_policy, predictable
from moa_core.train.packing import PADDING

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


def everywhere() -> Iterator[tuple[int, int]]:
    for row in range(len(BATCH.ids)):
        for place in range(LENGTH):
            yield row, place


def root_of(masks: Masks, row: int, place: int) -> int:
    """The first token of the block, by what TLI still takes from the drafter itself."""
    return min(seen(masks.tail, row, place) & set(range(LENGTH, 2 * LENGTH))) - LENGTH


def test_a_token_sees_true_keys_before_its_blocks_root_and_drafted_ones_from_it_on():
    roots = set()
    for masks in draws():
        for row, place in everywhere():
            text, root = text_up_to(row, place), root_of(masks, row, place)
            before = {other for other in text if other < root}
            drafted = {LENGTH + other for other in text - before}
            assert seen(masks.tail, row, place) == before | drafted and LENGTH + place in drafted
            if is_drafted(row, place):
                assert seen(masks.ca, row, place) == before
                assert seen(masks.sa, row, place) == text
                roots.add((row, place, root))
                # The target has read the whole prompt before anything is drafted.
                assert is_drafted(row, place - 1) or root == place
    assert len(roots) > 1000  # boundaries do move from draw to draw


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


def test_no_token_is_left_without_a_key():
    for masks in (*draws(), *draws((1, 1)), *draws((6, 14), 1.0), *draws((200, 300))):
        for mask in (masks.sa, masks.ca, masks.tail):
            assert bool(mask.any(-1).all())


def test_positions_and_what_is_seen_are_of_a_documents_own_past():
    same = same_document(BATCH.segment)
    for row, place in everywhere():
        assert BATCH.positions[row, place] == len(text_up_to(row, place)) - 1
        assert seen(same, row, place) == text_up_to(row, place)
    for masks in (*draws(), *draws(staircase=0.5)):
        both = masks.tail[..., :LENGTH] | masks.tail[..., LENGTH:]
        for mask in (masks.sa, masks.ca, both):
            assert not bool((mask & ~same).any())


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_the_staircase_confines_self_attention_to_the_block_in_some_rows(share):
    narrowed = []
    for masks in draws(staircase=share):
        for row in range(len(BATCH.ids)):
            wide = narrow = True
            for place in range(LENGTH):
                text, root = text_up_to(row, place), root_of(masks, row, place)
                found = seen(masks.sa, row, place)
                wide &= found == text
                narrow &= found == {other for other in text if other >= root}
            assert wide != narrow
            narrowed.append(narrow)
    low, high = {0.0: (0, 0), 0.5: (0.3, 0.7), 1.0: (1, 1)}[share]
    assert low <= sum(narrowed) / len(narrowed) <= high


def test_the_loss_counts_where_the_next_token_is_of_the_same_reply():
    loss = predictable(BATCH)
    for row, place in everywhere():
        follows = (
            place + 1 < LENGTH
            and is_drafted(row, place)
            and bool(BATCH.response[row, place + 1])
            and BATCH.segment[row, place] == BATCH.segment[row, place + 1]
        )
        assert bool(loss[row, place]) == follows
    assert 100 < int(loss.sum()) < loss.numel()
