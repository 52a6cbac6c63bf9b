"""Batches go on after a resume where they were, own text included; their masks, token by token."""

from collections import Counter
from collections.abc import Iterator
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from moa_core.errors import UserError
from moa_core.model.target import Target
from moa_core.text import prompt_ids
from moa_core.train import corpus, own_text
from moa_core.train.batches import (
    Batch,
    Batches,
    Epoch,
    Recipe,
    epoch_rows,
    same_document,
    whole_batch,
)
from moa_core.train.masks import Masks, on_policy, predictable
from moa_core.train.own_text import Writing, answers, load, write
from moa_core.train.tokenizer import PADDING, Encoded, encode_many
from tests.models import plain_greedy, speaking_target, tiny_tokenizer

ROWS = 3


def recipe(data: Path, seed: int = 1, **more: object) -> Recipe:
    return Recipe(data, data.parent / "tokenizer", seed, row_length=48, **more)


def taken(batches: Batches, count: int) -> list[Batch]:
    return list(islice(batches, count))


def same(one: Batch, other: Batch) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_a_resume_goes_on_with_the_next_batch_epochs_included(data):
    made = recipe(data)
    per_epoch = len(epoch_rows(made, 0).rows[0]) // ROWS
    count = 2 * per_epoch + 3
    straight = Batches(made, ROWS)
    whole = taken(straight, count)
    assert straight.place[0] == 2
    for stop in (1, per_epoch, per_epoch + 1, 2 * per_epoch + 1):
        first, second = Batches(made, ROWS), Batches(made, ROWS)
        taken(first, stop)
        second.place = first.place
        rest = taken(second, count - stop)
        assert all(same(a, b) for a, b in zip(whole[stop:], rest, strict=True))
    assert not same(whole[0], whole[per_epoch])


def test_the_last_batch_of_an_epoch_is_given_where_it_is_full(data):
    class Six(Batches):
        def _epoch(self, number: int) -> Epoch:
            rows = (np.zeros((2 * ROWS, 4), kind) for kind in (np.int32, bool, np.int64))
            return Epoch(tuple(rows), 1, 1)

    batches = Six(recipe(data), ROWS)
    assert [batches.place for _ in islice(batches, 3)] == [(0, ROWS), (0, 2 * ROWS), (1, ROWS)]


def test_an_epoch_is_all_of_the_folder_s_text_and_nothing_else(data):
    epoch = epoch_rows(recipe(data), 0)
    documents = corpus.shuffled(corpus.load(data), 1, 0)
    expected = [encoded.ids for encoded in encode_many(documents, tiny_tokenizer())]
    ids, response, segment = epoch.rows
    assert ids.shape == response.shape == segment.shape and ids.shape[1] == 48
    padding = segment == PADDING
    assert (ids[padding] == tiny_tokenizer().pad_token_id).all() and not response[padding].any()
    replies = [tiny_tokenizer().decode(row[mask]) for row, mask in zip(ids, response, strict=True)]
    assert any("said the fox" in text for text in replies)
    assert not any("What is 3 + 4?" in text for text in replies)
    learnt = Counter(ids[segment != PADDING].tolist())
    assert learnt == Counter(token for one in expected for token in one)
    assert epoch.documents == len(documents) and epoch.tokens == sum(map(len, expected))
    assert str(epoch).endswith(f"documents of yours ({epoch.tokens:,} tokens).")


def test_an_epoch_without_a_batch_is_said_and_not_waited_for(data):
    batches = Batches(Recipe(data, data.parent / "tokenizer", 1, row_length=4096), ROWS)
    words = r"tokens in .*data fill 1 row of 4096 .* takes 3\. Give --rows 1,"
    with pytest.raises(UserError, match=words):
        next(iter(batches))


def test_own_text_is_all_there_and_half_of_what_is_learnt(data):
    written = [Encoded([300 + n] * 10, [False] * 4 + [True] * 6) for n in range(20)]
    path = data.parent / "own.npz"
    own_text.save(path, written)
    ids, response, _ = epoch_rows(recipe(data, own=path), 0).rows
    own = ids >= 300
    assert own.sum() == 200
    assert sorted(set(ids[own].tolist())) == [300 + n for n in range(20)]
    share = (own & response).sum() / response.sum()
    assert share == pytest.approx(0.5, abs=0.1)
    # Among each other, not one after the other.
    assert 0.2 < own[: len(own) // 2].sum() / own.sum() < 0.8


def test_answers_in_a_batch_are_those_given_alone_and_end_with_the_end_of_turn():
    """Prompts of other lengths beside it, and the padding they bring, change nothing."""
    target = speaking_target()
    prompts = [prompt_ids(target.tokenizer, text) for text in ("Hi", "The fox ran home.", "A b c")]
    found = answers(target, prompts, 20)
    assert found == [plain_greedy(target, prompt, 20) for prompt in prompts]
    third = found[0][2]
    target.tokenizer = type(target.tokenizer)(
        tokenizer_object=target.tokenizer.backend_tokenizer,
        eos_token=target.tokenizer.convert_ids_to_tokens(third),
        pad_token="<|pad|>",
    )
    short = answers(target, prompts, 20)
    assert short[0].index(third) == len(short[0]) - 1 <= 2


def test_writing_ends_with_enough_and_marks_what_the_target_wrote(data, tmp_path, monkeypatch):
    target, path = speaking_target(), tmp_path / "own.npz"
    asked: list[tuple[int, ...]] = []
    told: list[tuple[int, ...]] = []

    def watched(*arguments: object, **options: object) -> list[list[int]]:
        replies = answers(*arguments, **options)
        asked.extend(map(tuple, arguments[1]))
        told.extend(map(tuple, replies))
        return replies

    monkeypatch.setattr(own_text, "answers", watched)
    write(target, path, 300, Writing(data, rows=2, longest=24))
    texts = load(path)
    assert sum(sum(text.mask) for text in texts) >= 300
    for text, prompt, reply in zip(texts, asked, told, strict=True):
        assert tuple(text.ids) == prompt + reply
        assert text.mask == [False] * len(prompt) + [True] * len(reply)
    before = path.read_bytes()
    write(target, path, 10_000, Writing(data, seed=5))
    assert path.read_bytes() == before


def test_writing_goes_on_where_it_was_cut_off(data, tmp_path, monkeypatch):
    target, writing = speaking_target(), Writing(data, rows=2, longest=24)
    monkeypatch.setattr(own_text, "PART", 100)
    write(target, tmp_path / "whole.npz", 250, writing)
    cut = tmp_path / "cut.npz"
    part, made = own_text._part, []

    def cut_off(target: Target, number: int, *rest: object) -> list[Encoded]:
        made.append(number)
        if made == [0, 1]:
            raise KeyboardInterrupt
        return part(target, number, *rest)

    monkeypatch.setattr(own_text, "_part", cut_off)
    with pytest.raises(KeyboardInterrupt):
        write(target, cut, 250, writing)
    write(target, cut, 250, writing)
    assert made == [0, 1, 1, 2] and load(cut) == load(tmp_path / "whole.npz")
    assert sorted(path.name for path in tmp_path.glob("*.npz")) == ["cut.npz", "whole.npz"]


def test_a_target_with_no_room_for_a_prompt_gets_a_sentence(data, tmp_path):
    (data / "talks.jsonl").unlink()
    target = speaking_target(max_position_embeddings=64)
    long = " ".join((data / "texts.txt").read_text().split())
    (data / "texts.txt").write_text(long.replace("<|endoftext|>", ""))
    with pytest.raises(UserError, match=r"reads 64 tokens, a prompt .* leave out --own-tokens"):
        write(target, tmp_path / "own.npz", 200, Writing(data, rows=2))


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
