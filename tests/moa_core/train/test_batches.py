"""Packing loses no text; batches go on after a resume; answers are what the target would write."""

import gzip
import json
import os
import random
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from itertools import islice
from pathlib import Path
from time import sleep

import numpy as np
import psutil
import pytest
import torch

from moa_core.errors import UserError
from moa_core.model.target import Target
from moa_core.text import prompt_ids
from moa_core.train import own_text
from moa_core.train.batches import PADDING, Batch, Batches, Columns, pack
from moa_core.train.own_text import Chat, Writer, Writing, load, write
from moa_core.train.prompts import HELD_OUT_PERCENT, bucket, prompts_in
from tests.models import plain_greedy, speaking_target, tiny_tokenizer

ROWS = 3


def made(own: Path, kind: type[Batches] = Batches, length: int = 48, seed: int = 1) -> Batches:
    return kind(own, tiny_tokenizer(), ROWS, length, seed)


def same(one: Batch, other: Batch) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_a_resume_goes_on_with_the_next_batch_epochs_included(own):
    straight = made(own)
    per_epoch = len(straight.prepare(0)[0]) // ROWS
    count = 2 * per_epoch + 3
    whole = [*islice(straight, count)]
    assert straight.place[0] == 2
    for stop in (1, per_epoch, per_epoch + 1, 2 * per_epoch + 1):
        first, second = made(own), made(own)
        *_, second.place = (first.place for _ in islice(first, stop))
        rest = islice(second, count - stop)
        assert all(same(a, b) for a, b in zip(whole[stop:], rest, strict=True))
    assert not same(whole[0], whole[per_epoch])


def test_the_last_batch_of_an_epoch_is_given_where_it_is_full(own):
    class Six(Batches):
        def prepare(self, number: int) -> Columns:
            return tuple(np.zeros((2 * ROWS, 4), kind) for kind in (np.int32, bool, np.int64))

    batches = made(own, Six)
    assert [batches.place for _ in islice(batches, 3)] == [(0, ROWS), (0, 2 * ROWS), (1, ROWS)]


def test_an_epoch_is_all_of_the_targets_text_and_nothing_else(own):
    batches, texts, tokenizer = made(own), load(own), tiny_tokenizer()
    ids, response, segment = batches.prepare(0)
    assert ids.shape == response.shape == segment.shape and ids.shape[1] == 48
    padding = segment == PADDING
    assert (ids[padding] == tokenizer.pad_token_id).all() and not response[padding].any()
    learnt = Counter(ids[~padding].tolist())
    assert learnt == Counter(token for text in texts for token in text.ids)
    replies = [token for text in texts for token, on in zip(*text, strict=True) if on]
    assert Counter(ids[response].tolist()) == Counter(replies)
    told = [tokenizer.decode(row[mask]) for row, mask in zip(ids, response, strict=True)]
    assert any("said the fox" in text for text in told)
    assert not any("What is 3 + 4?" in text for text in told)
    assert batches.about() == f"Training on {len(replies):,} tokens of the target's own text."
    assert batches.frequencies(300).tolist() == [Counter(replies)[token] for token in range(300)]


@pytest.mark.parametrize("length", [7, 64, 256])
def test_packing_keeps_every_token_in_order(length):
    rng = random.Random(length)
    sizes = [rng.randint(1, 120) for _ in range(1_500)] + [1_000]
    encoded = [([n * 1_000 + i for i in range(size)], [i % 3 == 0 for i in range(size)])
               for n, size in enumerate(sizes)]  # fmt: skip
    kept: dict[int, tuple[list[int], list[bool]]] = {n: ([], []) for n in range(len(sizes))}
    rows = list(pack(encoded, length, pad_id=-7))
    for row in rows:
        assert row.shape == (3, length)
        ids, mask, segment = row
        padding = segment == PADDING
        assert (ids[padding] == -7).all() and not mask[padding].any()
        for token, on, number in row.T.tolist():
            if number != PADDING:
                kept[number][0].append(token)
                kept[number][1].append(on)
    assert [kept[n] for n in range(len(sizes))] == encoded
    assert sum((row[2] == PADDING).sum() for row in rows[:-1]) < 0.03 * sum(sizes)


def test_a_damaged_file_of_answers_is_told(own):
    own.write_bytes(own.read_bytes()[:300])
    with pytest.raises(UserError, match=r"own\.npz cannot be read; delete it"):
        load(own)


def texts_in(rows: Columns) -> list[tuple[int, ...]]:
    """The texts of an epoch, in the order in which they were packed."""
    ids, _, segment = rows
    order = range(segment.max() + 1)
    return [tuple(sorted(ids[segment == number].tolist())) for number in order]


def test_epochs_repeat_by_seed_and_differ_by_number(own):
    first, again = (made(own).prepare(0) for _ in range(2))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    for other in (made(own).prepare(1), made(own, seed=2).prepare(0)):
        assert texts_in(other) != texts_in(first)
        assert sorted(texts_in(other)) == sorted(texts_in(first))
    # Rows are shuffled as well: those packed first do not all come first.
    starts = first[2][:, 0].tolist()
    assert starts != sorted(starts)


PROMPTS = ["Hi", "The fox ran home.", "A b c", "What is 3 + 4?", "Where did the cat sit?"]


@pytest.fixture
def prompts(tmp_path) -> Path:
    """Fifty prompts and ten chats; some are held out."""
    rows = [{"prompt": f"{text} {n}"} for n in range(10) for text in PROMPTS]
    for n in range(10):
        rows.append({"messages": [{"content": f"Count to {n}."}, {"content": "Go on."}]})
    path = tmp_path / "prompts.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    return path


def test_prompts_are_all_but_those_held_out(prompts):
    asked = prompts_in(prompts)
    assert not any(bucket(prompt) < HELD_OUT_PERCENT for _, prompt in asked)
    assert asked[-1] == (59, "Count to 9.") and 50 < len(asked) < 60
    share = sum(bucket(f"prompt {n}") < 2 for n in range(20_000)) / 20_000
    assert share == pytest.approx(0.02, abs=0.004)
    strange = prompts.with_name("windows.jsonl")  # half a character is no reason to stop
    strange.write_bytes(b'\xef\xbb\xbf{"prompt": "Hi \\ud83d"}\r\n')
    assert prompts_in(strange) == [(0, "Hi \ud83d")]
    packed = prompts.with_name("prompts.jsonl.gz")
    packed.write_bytes(gzip.compress(prompts.read_bytes()))
    assert prompts_in(packed) == asked


DAMAGED = gzip.compress(b"text", mtime=0)[:10] + b"\xff" * 20


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.jsonl", b'\n{"prompt": " "}', r"Line 2 of .*a\.jsonl has no prompt"),
        ("a.jsonl.gz", DAMAGED, r"a\.jsonl\.gz cannot be read: Error -3"),
    ],
)
def test_prompts_that_cannot_be_read_get_a_sentence(tmp_path, name, data, words):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(UserError, match=words):
        prompts_in(tmp_path / name)


def answered(target: Target, asked: list[str], **more: object) -> list[Chat]:
    """Greedy answers to prompts, in their order."""
    writing = Writing(Path("none"), rows=2, **more)
    ids = [prompt_ids(target.tokenizer, one) for one in asked]
    chats = [Chat(n, 0.0, one, len(one)) for n, one in enumerate(ids)]
    return sorted(Writer(target, writing).answered(iter(chats)), key=lambda chat: chat.place)


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_answers_written_together_are_those_written_alone(family):
    """Whatever stands in other rows, and in a row before it, changes nothing."""
    target = speaking_target(family=family)
    for chat, text in zip(answered(target, PROMPTS, longest=20), PROMPTS, strict=True):
        prompt = prompt_ids(target.tokenizer, text)
        assert chat.ids[: chat.start] == prompt
        assert chat.ids[chat.start :] == plain_greedy(target, prompt, 20)


def test_an_answer_ends_with_the_end_of_turn():
    target = speaking_target()
    (chat,) = answered(target, PROMPTS[:1], longest=20)
    third = chat.ids[chat.start + 2]
    target.eos_ids = (third,)
    (chat,) = answered(target, PROMPTS[:1], longest=20)
    assert chat.ids[-1] == third and chat.ids.index(third, chat.start) == len(chat.ids) - 1


def test_writing_ends_with_enough_and_is_kept(prompts, tmp_path):
    target, path = speaking_target(), tmp_path / "own.npz"
    writing = Writing(prompts, rows=4, longest=24)
    write(target, path, 200, writing)
    texts = load(path)
    assert 200 <= sum(sum(text.mask) for text in texts) < 200 + 4 * 24
    assert not list(tmp_path.glob("own.*.jsonl"))
    asked = [prompt_ids(target.tokenizer, prompt) for _, prompt in prompts_in(prompts)]
    for text in texts:
        assert text.ids[: text.mask.index(True)] in asked
    before = path.read_bytes()
    write(target, path, 10_000, writing)
    assert path.read_bytes() == before


def test_writing_goes_on_where_it_was_cut_off(prompts, tmp_path, monkeypatch):
    target, writing = speaking_target(), Writing(prompts, rows=4, longest=24)
    path, part = tmp_path / "own.npz", tmp_path / "own.0.jsonl"
    whole = own_text.Writer.answered

    def cut_off(self: Writer, chats: object) -> object:
        yield from islice(whole(self, chats), 3)
        raise KeyboardInterrupt

    monkeypatch.setattr(own_text.Writer, "answered", cut_off)
    with pytest.raises(KeyboardInterrupt):
        write(target, path, 200, writing)
    monkeypatch.setattr(own_text.Writer, "answered", whole)
    first = part.read_text()
    part.write_text(first + '{"place": 7, "ids": [1')  # as if killed while writing
    write(target, path, 200, writing)
    ids = [text.ids for text in load(path)]
    assert all(json.loads(line)["ids"] in ids for line in first.splitlines())
    assert len({tuple(one) for one in ids}) == len(ids)


def test_writing_goes_on_with_more_processes_than_prompts(tmp_path):
    """A chat is written once, whichever process wrote it before."""
    target, prompts, path = speaking_target(), tmp_path / "two.jsonl", tmp_path / "own.npz"
    prompts.write_text("".join(json.dumps({"prompt": text}) + "\n" for text in PROMPTS[:2]))
    begun = Chat(1, 0.0, [*prompt_ids(target.tokenizer, PROMPTS[1]), 7], 0)
    line = {"place": begun.place, "ids": begun.ids, "spans": [[len(begun.ids) - 1, 0]]}
    (tmp_path / "own.2.jsonl").write_text(json.dumps(line) + "\n")
    write(target, path, 200, Writing(prompts, rows=4, longest=8), processes=2)
    kept, new = sorted((text.ids for text in load(path)), key=begun.ids.__ne__)
    assert kept == begun.ids and new[:-8] == prompt_ids(target.tokenizer, PROMPTS[0])
    assert not list(tmp_path.glob("own.*.jsonl"))


def test_processes_that_write_are_ended_by_ctrl_c():
    with pytest.raises(KeyboardInterrupt), own_text._Workers(1) as pool:
        process = psutil.Process(pool.submit(os.getpid).result())
        pool.submit(sleep, 3600)
        raise KeyboardInterrupt
    process.wait(60)


KILLED = """
import os, signal, time
from moa_core.train.own_text import _Workers

pool = _Workers(1)
print(pool.submit(os.getpid).result(), flush=True)
pool.submit(time.sleep, 3600)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_processes_that_write_end_with_a_killed_parent():
    killed = subprocess.run([sys.executable, "-c", KILLED], stdout=subprocess.PIPE, text=True)
    with suppress(psutil.NoSuchProcess):
        psutil.Process(int(killed.stdout)).wait(60)


def test_prompts_that_do_not_fit_get_a_sentence(prompts, tmp_path):
    target = speaking_target(max_position_embeddings=64)
    prompts.write_text(json.dumps({"prompt": "The fox ran home. " * 9}))
    with pytest.raises(UserError, match="reads 64 tokens"):
        write(target, tmp_path / "own.npz", 200, Writing(prompts, rows=2, longest=60))
