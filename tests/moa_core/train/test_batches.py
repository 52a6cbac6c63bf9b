"""Batches go on after a resume where they were, and processes share them out."""

from collections import Counter
from concurrent.futures import Future
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

from moa_core.errors import UserError
from moa_core.train import corpus, own_text
from moa_core.train.batches import Batch, Batches, Epoch, Recipe, epoch_rows
from moa_core.train.tokenizer import PADDING, Encoded, encode_many
from tests.models import tiny_tokenizer

ROWS = 3


def recipe(data: Path, seed: int = 1, **more: object) -> Recipe:
    return Recipe(data, data.parent / "tokenizer", seed, row_length=48, **more)


def taken(batches: Batches, count: int) -> list[Batch]:
    return list(islice(batches, count))


def same(one: Batch, other: Batch) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.usefixtures("threads")
def test_a_resume_goes_on_with_the_next_batch_epochs_included(data: Path) -> None:
    made = recipe(data)
    per_epoch = len(epoch_rows(made, 0).rows[0]) // ROWS
    count = 2 * per_epoch + 3
    straight = Batches(made, ROWS)
    whole = taken(straight, count)
    assert straight.place[0] == 2
    for stop in (1, per_epoch, per_epoch + 1, 2 * per_epoch + 1):
        first, second = Batches(made, ROWS, workers=1), Batches(made, ROWS)
        taken(first, stop)
        second.place = first.place
        rest = taken(second, count - stop)
        assert all(same(a, b) for a, b in zip(whole[stop:], rest, strict=True))
    assert not same(whole[0], whole[per_epoch])


def test_processes_of_their_own_prepare_the_same(data: Path) -> None:
    rows = epoch_rows(recipe(data), 0).rows
    [found] = taken(Batches(recipe(data), ROWS, workers=1), 1)
    for ours, theirs in zip(found[:3], rows, strict=True):
        assert torch.equal(ours, torch.from_numpy(theirs[:ROWS]).to(ours.dtype))


@pytest.mark.usefixtures("threads")
def test_parts_of_a_batch_keep_their_rows_numbers(data: Path) -> None:
    [whole] = taken(Batches(recipe(data), 4, 1), 1)
    assert whole.numbers() == [0, 1, 2, 3]
    part = whole.part(slice(1, None, 2))
    assert part.numbers() == [1, 3] and torch.equal(part.ids, whole.ids[1::2])
    assert part._replace(rows=None).numbers() == [0, 1]


def test_the_last_batch_of_an_epoch_is_given_where_it_is_full(data: Path) -> None:
    class Six(Batches):
        def _epoch(self, number: int) -> Epoch:
            self._ahead[number] = Future()
            rows = (np.zeros((2 * ROWS, 4), kind) for kind in (np.int32, bool, np.int64))
            return Epoch(tuple(rows), 1, 1)

    batches = Six(recipe(data), ROWS, 1)
    assert [batches.place for _ in islice(batches, 3)] == [(0, ROWS), (0, 2 * ROWS), (1, ROWS)]


def test_rows_hold_whole_documents_with_replies_marked(data: Path) -> None:
    tokenizer = tiny_tokenizer()
    ids, response, segment = epoch_rows(recipe(data), 0).rows
    assert ids.shape == response.shape == segment.shape and ids.shape[1] == 48
    assert (ids[segment == PADDING] == tokenizer.pad_token_id).all()
    assert not response[segment == PADDING].any()
    replies = tokenizer.batch_decode([row[mask] for row, mask in zip(ids, response, strict=True)])
    assert any("said the fox" in text for text in replies)
    assert not any("What is 3 + 4?" in text for text in replies)


def test_an_epoch_is_all_of_the_folder_s_text_and_nothing_else(data: Path) -> None:
    made = Recipe(data, data.parent / "tokenizer", 1, row_length=48)
    epoch = epoch_rows(made, 0)
    documents = corpus.shuffled(corpus.load(data), 1, 0)
    expected = [encoded.ids for encoded in encode_many(documents, tiny_tokenizer())]
    ids, _, segment = epoch.rows
    learnt = Counter(ids[segment != PADDING].tolist())
    assert learnt == Counter(token for one in expected for token in one)
    assert epoch.documents == len(documents) and epoch.tokens == sum(map(len, expected))
    assert str(epoch).endswith(f"documents of yours ({epoch.tokens:,} tokens).")


@pytest.mark.usefixtures("threads")
def test_an_epoch_without_a_batch_is_said_and_not_waited_for(data: Path) -> None:
    batches = Batches(Recipe(data, data.parent / "tokenizer", 1, row_length=4096), ROWS, 1)
    words = r"tokens in .*data fill 1 row of 4096 .* takes 3\. Give --rows 1,"
    with pytest.raises(UserError, match=words):
        next(iter(batches))


@pytest.mark.usefixtures("threads")
def test_text_for_one_batch_is_enough(tmp_path: Path, data: Path) -> None:
    folder = tmp_path / "one"
    folder.mkdir()
    (folder / "note.txt").write_text("The fox ran home. " * 60)
    batches = Batches(Recipe(folder, data.parent / "tokenizer", 1, row_length=48), ROWS, 1)
    assert len(taken(batches, 5)) == 5
    assert batches.about().startswith("Training on 1 document of yours (")


def test_own_text_is_all_there_and_half_of_what_is_learnt(data: Path) -> None:
    written = [Encoded([300 + n] * 10, [False] * 4 + [True] * 6) for n in range(20)]
    path = data.parent / "own.npz"
    own_text.save(path, written)
    ids, response, _ = epoch_rows(recipe(data, own=path), 0).rows
    own = ids >= 300
    assert own.sum() == 200
    assert sorted(set(ids[own].tolist())) == [300 + n for n in range(20)]
    share = (own & response).sum() / response.sum()
    assert share == pytest.approx(0.5, abs=0.1)
