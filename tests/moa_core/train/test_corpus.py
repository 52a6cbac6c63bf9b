"""Folders and data sets become documents, chats become ids by the template, and no text is lost."""

import copy
import gzip
import json
import random

import datasets
import pytest
from transformers import PreTrainedTokenizerFast

from moa_core.errors import UserError
from moa_core.train.corpus import END_OF_DOCUMENT, Document, chat, fetch, load, shuffled
from moa_core.train.encode import PADDING, Encoded, encode_many, pack
from tests.models import CHATML, END, chatml_tokenizer, made_tokenizer, ultrachat

CHAT = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
PAIR = {"question": "What has Tom?", "answer": "A cat."}
ROWS = [
    ({"messages": CHAT, "id": 3}, ["Hi", "Hello."]),
    ({"text": "Once.\n"}, ["Once."]),
    ({**PAIR, "context": "Tom purrs.", "id": 3}, ["Tom purrs.\n\nWhat has Tom?", "A cat."]),
    ({**PAIR, "context": None}, ["What has Tom?", "A cat."]),
]
TEXTS = f"One {END_OF_DOCUMENT}.\n{END_OF_DOCUMENT}\nTwo.\n{END_OF_DOCUMENT} \n".encode()
FILES = [
    *(("mine.jsonl", json.dumps(row).encode() + b"\n\n", [turns]) for row, turns in ROWS),
    ("notes.txt.gz", gzip.compress(TEXTS, mtime=0), [[f"One {END_OF_DOCUMENT}."], ["Two."]]),
]


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return made_tokenizer(["the cat sat on the mat 1234 1234 1234"] * 20, 300)


@pytest.mark.parametrize(("name", "data", "found"), FILES)
def test_rows_and_texts_become_documents_and_other_files_none(tmp_path, name, data, found):
    (tmp_path / name).write_bytes(data)
    (tmp_path / "credits.tsv").write_text("not text to train on")
    assert [document.contents for document in load(tmp_path)] == found


DAMAGED = gzip.compress(b"text", mtime=0)[:10] + b"\xff" * 20


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.txt", b"\xff", "a.txt cannot be read"),
        ("a.jsonl", b"\n{", "Line 2 of .*a.jsonl is not JSON"),
        ("a.jsonl", b'{"messages": [{"role": "tool", "content": ""}]}', "a.jsonl has no messages"),
        ("a.tsv", b"text", "holds no text"),
        ("a.txt.gz", DAMAGED, "a.txt.gz cannot be read: Error -3"),
    ],
)
def test_a_folder_that_cannot_be_read_gets_a_sentence(tmp_path, name, data, words):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(UserError, match=words):
        load(tmp_path)


def test_epochs_repeat_by_seed_and_differ_by_number():
    documents = [Document(text=str(n or "")) for n in range(21)]
    first, again, other = (shuffled(documents, 1, number) for number in (0, 0, 1))
    assert first == again != other and len(first) == len(other) == 20
    assert {one.text for one in first} == {str(n) for n in range(1, 21)}  # an empty one goes


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> dict[str, list]:
    """Rows by split of a stand-in for the Hub."""
    held: dict[str, list] = {"train_sft": [], "test_sft": []}
    monkeypatch.setattr(datasets, "get_dataset_split_names", lambda name: list(held))
    monkeypatch.setattr(datasets, "load_dataset", lambda name, split: held[split])
    return held


def test_a_data_set_is_fetched_once_without_rows_that_teach_nothing(hub, tmp_path):
    hub["train_sft"] += [row for row, _ in ROWS] + [{"question": "What?", "answer": None}, {"a": 1}]
    folder = fetch("someone/rows", tmp_path / "data")
    assert [document.contents for document in load(folder)] == [turns for _, turns in ROWS]
    hub.clear()
    assert fetch("someone/rows", folder) == folder


def test_a_data_set_without_text_or_out_of_reach_gets_a_sentence(hub, tmp_path, monkeypatch):
    hub["train_sft"] += [{"label": 1}]
    with pytest.raises(UserError, match="neither `messages` nor `text`"):
        fetch("someone/labels", tmp_path)
    assert not list(tmp_path.iterdir())

    def gone(name: str) -> list[str]:
        raise OSError("no route\nmore about it")

    monkeypatch.setattr(datasets, "get_dataset_split_names", gone)
    with pytest.raises(UserError, match=r"neither a folder of text nor a data set .*: no route$"):
        fetch("someone/gone", tmp_path)


def test_a_folder_like_a_data_set_is_read_as_one(tmp_path):
    found = load(fetch(str(ultrachat(tmp_path, 6)), tmp_path / "data"))
    assert len(found) == 6 and all(document.messages for document in found)
    assert found[2].contents[1] == "It is 6, said the dog."


def encode(document: Document, tokenizer: PreTrainedTokenizerFast) -> Encoded:
    return next(encode_many([document], tokenizer))


SPOKEN = [
    {"role": "system", "content": "Be kind."}, {"role": "user", "content": "Count to 12."},
    {"role": "assistant", "content": "1 2 3\n"},
]  # fmt: skip


def test_ids_and_masks_are_the_templates(tokenizer):
    talk = chat("Hello there.", "Hi: how are you?", "Fine.", "Good.")
    for messages in (list(talk), [SPOKEN[0], *talk]):
        ids, mask = encode(Document(tuple(messages)), tokenizer)
        assert ids == tokenizer.apply_chat_template(messages, return_dict=False)
        asked = tokenizer.apply_chat_template(
            messages[:-1], add_generation_prompt=True, return_dict=False
        )
        assert ids[: len(asked)] == asked and not mask[len(asked) - 1]
        assert all(mask[len(asked) :]) and len(mask) == len(ids)
        spoken = "".join(m["content"] + END for m in messages if m["role"] == "assistant")
        assert tokenizer.decode([i for i, on in zip(ids, mask, strict=True) if on]) == spoken


TALK = tuple(chat("What is 3 + 4?", "It is 7.", "And <|im_end|> then?", "The fox ran."))


def test_a_foreign_template_marks_what_the_assistant_writes():
    tokenizer = chatml_tokenizer()
    ids, mask = encode(Document(TALK), tokenizer)
    spoken = tokenizer.decode([token for token, on in zip(ids, mask, strict=True) if on])
    assert spoken == "It is 7.<|im_end|>The fox ran.<|im_end|>"
    # Written out in a text it stays text: five turns end, the system's included.
    assert ids.count(tokenizer.eos_token_id) == 5 and tokenizer.decode(ids).count("<|im_end|>") == 6
    assert tokenizer("<|im_end|>")["input_ids"] == [tokenizer.eos_token_id]  # left as it was
    plain = [{**m, "content": m["content"].replace("<|im_end|> ", "")} for m in TALK]
    whole = tokenizer.apply_chat_template(plain, return_dict=False)
    assert encode(Document(tuple(plain)), tokenizer).ids == whole
    behind = copy.deepcopy(tokenizer)
    behind.chat_template = CHATML.replace("}}<|im_end|>", "}}\n<|im_end|>")
    ids, mask = encode(Document(TALK), behind)
    spoken = [token for token, on in zip(ids, mask, strict=True) if on]
    assert spoken.count(behind.eos_token_id) == 2
    ids, mask = encode(Document(text="The fox ran."), tokenizer)
    assert ids == [*tokenizer("The fox ran.")["input_ids"], tokenizer.eos_token_id] and all(mask)


def test_chats_that_a_template_refuses_are_left_out():
    first = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('No system') }}{% endif %}"
    tokenizer = copy.deepcopy(chatml_tokenizer())
    tokenizer.chat_template = first + CHATML
    refused = Document(({"role": "system", "content": "Be brief."}, *TALK))
    assert len(list(encode_many([refused, Document(TALK), refused], tokenizer))) == 1
    with pytest.raises(UserError, match="No system"):
        list(encode_many([refused, refused], tokenizer))


@pytest.mark.parametrize("length", [7, 64, 256])
def test_packing_keeps_every_token_in_order(length):
    rng = random.Random(length)
    sizes = [rng.randint(1, 120) for _ in range(1_500)] + [1_000]
    encoded = [([n * 1_000 + i for i in range(size)], [i % 3 == 0 for i in range(size)])
               for n, size in enumerate(sizes)]  # fmt: skip
    kept: dict[int, tuple[list[int], list[bool]]] = {n: ([], []) for n in range(len(sizes))}
    rows = list(pack(encoded, length, pad_id=-7))
    for row in rows:
        assert len(row.ids) == len(row.mask) == len(row.segment) == length
        padding = row.segment == PADDING
        assert (row.ids[padding] == -7).all() and not row.mask[padding].any()
        for token, on, number in zip(*(part.tolist() for part in row), strict=True):
            if number != PADDING:
                kept[number][0].append(token)
                kept[number][1].append(on)
    assert [kept[n] for n in range(len(sizes))] == encoded
    assert sum((row.segment == PADDING).sum() for row in rows[:-1]) < 0.03 * sum(sizes)
