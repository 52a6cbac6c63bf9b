"""A data set is read as training goes on, through the target's own template."""

from itertools import islice
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedTokenizerFast

from moa_core.errors import UserError
from moa_core.train.batches import Batch, Stream
from moa_core.train.corpus import Document, Rows
from moa_core.train.tokenizer import encode, encode_many
from tests.models import chatml_tokenizer, ultrachat

CHAT = (
    {"role": "user", "content": "What is 3 + 4?"},
    {"role": "assistant", "content": "It is 7."},
    {"role": "user", "content": "And <|im_end|> then?"},
    {"role": "assistant", "content": "The fox ran home."},
)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ultrachat(tmp_path_factory.mktemp("ultrachat"), 60)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    chatml_tokenizer().save_pretrained(folder)
    return folder


def stream(dataset: Path, tokenizer: Path, block: int = 16, seed: int = 0) -> Stream:
    return Stream(Rows(str(dataset)), tokenizer, seed, rows=3, row_length=96, block=block)


def same(one: Batch, other: Batch) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def test_a_resumed_stream_goes_on_as_if_it_had_not_stopped(dataset: Path, tokenizer: Path) -> None:
    straight = stream(dataset, tokenizer)
    batches, places = [], []
    for batch in islice(straight, 30):
        batches.append(batch)
        places.append(straight.place)
    assert straight.about().startswith(f"Training on {dataset}, streamed as it is needed: ")
    assert straight.example and straight.example.messages
    straight.close()
    blocks = {place[:2] for place in places}
    assert {(0, 0), (0, 1), (0, 3), (1, 0)} <= blocks, "blocks and an epoch were crossed"
    for stop in (1, 2, 7, 12, 20, 29):
        again = stream(dataset, tokenizer)
        again.place = tuple(torch.load(_kept(dataset, places[stop - 1]), weights_only=True))
        rest = list(islice(again, 30 - stop))
        again.close()
        assert all(same(a, b) for a, b in zip(batches[stop:], rest, strict=True)), stop
    assert not same(batches[0], next(iter(stream(dataset, tokenizer, seed=1))))


def _kept(folder: Path, place: tuple) -> Path:
    """A place as a checkpoint keeps it."""
    path = folder.parent / f"{folder.name}-place.pt"
    torch.save(place, path)
    return path


def test_every_chat_but_the_held_out_ones_is_learnt_in_an_epoch(
    dataset: Path, tokenizer: Path
) -> None:
    rows = list(Rows(str(dataset)).read_from(None))
    kept = [row.document for row in rows if not row.held_out]
    assert len(rows) == 60 and 50 < len(kept) < 60
    source = Stream(Rows(str(dataset)), tokenizer, 0, rows=1, row_length=96)
    replies = 0
    for batch in source:
        if source.place[0]:
            break
        replies += int(batch.response.sum())
    expected = [encoded.mask for encoded in encode_many(kept, chatml_tokenizer())]
    assert replies == sum(map(sum, expected))
    held = Rows(str(dataset)).heldout(5)
    assert held and all(document not in kept for document in held)


def test_a_foreign_template_marks_what_the_assistant_writes() -> None:
    tokenizer = chatml_tokenizer()
    [(ids, mask)] = encode_many([Document("chat", CHAT)], tokenizer)
    assert tokenizer.decode(ids).startswith("<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>")
    spoken = tokenizer.decode([token for token, on in zip(ids, mask, strict=True) if on])
    assert spoken == "It is 7.<|im_end|>The fox ran home.<|im_end|>"
    # Written out in a text it stays text: five turns end, the system's included.
    assert ids.count(tokenizer.eos_token_id) == 5 and tokenizer.decode(ids).count("<|im_end|>") == 6
    plain = [{**m, "content": m["content"].replace("<|im_end|> ", "")} for m in CHAT]
    assert encode(Document("chat", tuple(plain)), tokenizer).ids == (
        tokenizer.apply_chat_template(plain, return_dict=False)
    )


def test_an_end_behind_a_line_break_is_the_assistants_too() -> None:
    ours = chatml_tokenizer()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=ours.backend_tokenizer, eos_token="<|im_end|>"
    )
    tokenizer.chat_template = str(ours.chat_template).replace("}}<|im_end|>", "}}\n<|im_end|>")
    [(ids, mask)] = encode_many([Document("chat", CHAT)], tokenizer)
    spoken = [token for token, on in zip(ids, mask, strict=True) if on]
    assert spoken.count(tokenizer.eos_token_id) == 2


def test_chats_that_a_template_refuses_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=chatml_tokenizer().backend_tokenizer, eos_token="<|im_end|>"
    )
    first = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('No system') }}{% endif %}"
    tokenizer.chat_template = first + chatml_tokenizer().chat_template
    refused = Document("chat", ({"role": "system", "content": "Be brief."}, *CHAT))
    given = [refused, Document("chat", CHAT), refused]
    assert len(list(encode_many(given, tokenizer))) == 1
    with pytest.raises(UserError, match="No system"):
        list(encode_many([refused, refused], tokenizer))


def test_too_little_text_for_a_batch_is_said_and_not_waited_for(
    tmp_path: Path, tokenizer: Path
) -> None:
    few = Stream(Rows(str(ultrachat(tmp_path, 4))), tokenizer, 0, rows=20, row_length=96)
    with pytest.raises(UserError, match=r"too little text .*: 436 tokens, .* 20 rows of 96 tokens"):
        next(iter(few))


def test_plain_text_is_learnt_whole_by_a_foreign_tokenizer_too() -> None:
    tokenizer = chatml_tokenizer()
    ids, mask = encode(Document("plain", text="The fox ran."), tokenizer)
    assert ids == [*tokenizer("The fox ran.")["input_ids"], tokenizer.eos_token_id]
    assert mask == [True] * len(ids)
