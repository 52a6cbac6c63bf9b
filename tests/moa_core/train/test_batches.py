"""Batches go on after a resume where they were, own text included; their masks, token by token."""

from collections import Counter
from itertools import islice
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
)
from moa_core.train.encode import PADDING, Encoded, encode_many
from moa_core.train.own_text import Writing, answers, load, write
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
