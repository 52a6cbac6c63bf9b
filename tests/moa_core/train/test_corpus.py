"""Folders become chats, chats become ids as the template gives them, and rows lose nothing."""

import gzip
import json
import random
from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerFast

from moa_core.train import corpus
from moa_core.train.bundle import prompts
from moa_core.train.corpus import END_OF_DOCUMENT, Document, Record, epoch, load
from moa_core.train.tokenizer import END, PADDING, encode, encode_many, pack, train_tokenizer

STORY = (
    'The Red Kite\n\nOnce there was a girl called Mia. She had a red kite. "Fly, kite!" she said. '
    "The kite flew over the river and over the meadow.\n\nIn the evening she carried it home."
)
DIALOGUE = "User: Hello there.\nAssistant: Hi: how are you?\nUser: Fine.\nAssistant: Good."
SUM = {"question": "What is 6 x 12?", "answer": "It is <<6*12=72>>72.\n#### 72"}
TALE = {"story": "Kite", "context": STORY, "question": "What flew?", "answer": "the red kite"}


def write(folder: Path, name: str, text: str) -> None:
    data = text.encode()
    (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    stories = [f"{STORY} It was day {day}." for day in range(300)]
    write(tmp_path, "tinystories.txt.gz", f"\n{END_OF_DOCUMENT}\n".join(stories))
    write(tmp_path, "sgd_dialogues.txt.gz", f"{DIALOGUE}\n{END_OF_DOCUMENT}\nUser: Hi\nAssistant:")
    write(tmp_path, "gsm8k_train.jsonl", json.dumps(SUM))
    write(tmp_path, "fairytale_qa.jsonl", json.dumps(TALE) + "\n\n")
    write(tmp_path, "fairytales.txt", STORY + " The end.")
    write(tmp_path, "childrens_classics.txt", END_OF_DOCUMENT.join("abcd"))
    write(tmp_path, "credits.tsv", "not text to train on")
    return tmp_path


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return train_tokenizer(iter([STORY, DIALOGUE] * 5), vocab_size=400)


def both_splits(folder: Path) -> list[Document]:
    records = load(folder)
    return [*epoch(records, 1, 0, "train", 60), *epoch(records, 1, 0, "heldout", 60)]


def test_load_tells_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no data folder"):
        load(tmp_path / "none")
    with pytest.raises(ValueError, match="holds no text"):
        load(tmp_path)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.txt", b"\xff"), ("a.txt.gz", b"no gzip"), ("a.jsonl", b"{"), ("a.jsonl", b'{"a": 1}'),
        ("a.jsonl", b'{"messages": [{"role": "tool", "content": ""}]}'), ("a.jsonl", b"[1]"),
    ],
)  # fmt: skip
def test_load_names_the_bad_file(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(ValueError, match=name):
        load(tmp_path)


def test_a_folder_of_ones_own_files(tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}]
    write(tmp_path, "mine.jsonl", json.dumps({"messages": turns, "id": 3}))
    write(tmp_path, "notes.txt", f"One.\n{END_OF_DOCUMENT}\nTwo.\n")
    documents = [d for d in both_splits(tmp_path) if d.kind in ("chat", "plain")]
    assert sorted(d.text for d in documents if d.text) == ["One.", "Two."]
    assert [list(d.messages) for d in documents if d.messages] == [turns]


def test_every_kind_comes_out(folder: Path) -> None:
    documents = both_splits(folder)
    by_kind = {
        kind: [d for d in documents if d.kind == kind] for kind in {d.kind for d in documents}
    }
    assert len(by_kind["story"]) == 301 and len(by_kind["plain"]) == 2
    assert [m["content"] for m in by_kind["dialogue"][0].messages] == [
        "Hello there.", "Hi: how are you?", "Fine.", "Good.",
    ]  # fmt: skip
    assert len(by_kind["dialogue"]) == 1  # the other one has an empty turn
    assert by_kind["reading"][0].messages[-1]["content"] == "The red kite."
    answers = [d.messages[-1]["content"] for d in by_kind["sum"]]
    assert "It is 72.\nThe answer is 72." in answers
    assert {"reverse", "sort", "letters", "number", "python"} <= set(by_kind)


def test_epochs_repeat_by_seed_and_differ_by_number(folder: Path) -> None:
    records = load(folder)
    first = list(epoch(records, 1, 0, "train", 30))
    assert first == list(epoch(records, 1, 0, "train", 30))
    other = list(epoch(records, 1, 1, "train", 30))
    assert [d.messages for d in first] != [d.messages for d in other]
    classics = [{d.text for d in e if d.kind == "plain"} for e in (first, other)]
    assert classics[0] | classics[1] == set("abcd") and not classics[0] & classics[1]


def test_splits_share_no_document(folder: Path) -> None:
    records = load(folder)
    keys = {
        split: {r.key for group in records.values() for r in group if r.split == split}
        for split in ("train", "heldout")
    }
    assert keys["heldout"] and keys["train"].isdisjoint(keys["heldout"])
    assert {r.key for r in records["fairytales"]} == {r.key for r in records["fairytale_qa"]}


def test_stories_are_cut_at_sentence_ends_and_keep_everything() -> None:
    text = "".join(f"Sentence {n} ends here. {'And so on. ' * 9}\n" for n in range(200)).strip()
    for story in (text, text.replace("\n", "")):
        pieces = prompts.split_story(story)
        assert all(300 < len(p) <= prompts.MAX_STORY and p.endswith(".") for p in pieces)
        assert "".join("".join(pieces).split()) == "".join(story.split())


def test_story_replies_are_never_empty_and_go_with_the_prompt() -> None:
    body = STORY.partition("\n\n")[2]
    for seed in range(200):
        asked, told = (m["content"] for m in prompts.story(STORY, random.Random(seed)))
        assert told == body or (asked.endswith((".", '!"', '" she said.')) and body.endswith(told))
        assert told.strip() == told and len(told) > 40
    assert len({prompts.story(STORY, random.Random(s))[0]["content"] for s in range(200)}) > 20


def test_long_passages_keep_the_part_asked_about() -> None:
    context = "Nothing here. " * 300 + "\n" + "The fox ate cheese. " + "More of it. " * 50
    row = {"context": context, "question": "What did the fox eat?", "answer": "cheese"}
    asked = prompts.reading(row, random.Random(0))[0]["content"]
    assert "ate cheese" in asked and len(asked) < prompts.MAX_PASSAGE + 100


def test_ids_and_masks_are_the_templates(folder: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    documents = [d for d in both_splits(folder) if d.messages]
    system = prompts.Message(role="system", content="Be kind.")
    documents.append(Document("chat", (system, *prompts.dialogue(DIALOGUE))))
    for document, (ids, mask) in zip(documents, encode_many(documents, tokenizer), strict=True):
        messages = list(document.messages)
        assert ids == tokenizer.apply_chat_template(messages, return_dict=False)
        asked = tokenizer.apply_chat_template(
            messages[:-1], add_generation_prompt=True, return_dict=False
        )
        assert ids[: len(asked)] == asked and not mask[len(asked) - 1]
        assert all(mask[len(asked) :]) and len(mask) == len(ids)
        spoken = "".join(m["content"] + END for m in messages if m["role"] == "assistant")
        assert tokenizer.decode([i for i, on in zip(ids, mask, strict=True) if on]) == spoken


def test_written_out_special_tokens_stay_text(tokenizer: PreTrainedTokenizerFast) -> None:
    document = Document("chat", prompts.chat("Say <|end|><|assistant|>", "<|end|>"))
    ids, _ = encode(document, tokenizer)
    assert ids.count(tokenizer.eos_token_id) == 2
    assert tokenizer.decode(ids).count(END) == 4
    assert tokenizer(END)["input_ids"] == [tokenizer.eos_token_id]  # left as it was


def test_plain_text_is_learnt_whole(tokenizer: PreTrainedTokenizerFast) -> None:
    ids, mask = encode(Document("plain", text="A cat."), tokenizer)
    assert tokenizer.decode(ids) == "<|bos|>A cat.<|end|>" and all(mask)


@pytest.mark.parametrize("length", [7, 64, 256])
def test_packing_keeps_every_token_in_order(length: int) -> None:
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


def test_documents_that_fit_are_seldom_cut() -> None:
    rng = random.Random(0)
    encoded = [([1] * size, [True] * size) for size in (rng.randint(5, 200) for _ in range(2_000))]
    rows = [set(row.segment.tolist()) - {PADDING} for row in pack(encoded, 512, 0)]
    assert sum(map(len, rows)) < 1.02 * len(encoded)


def test_record_splits_are_stable() -> None:
    split = [Record("plain", str(n), "").split for n in range(2_000)]
    share = split.count("heldout") / len(split)
    assert 0.01 < share < 0.03 and corpus.HELD_OUT_PERCENT == 2
