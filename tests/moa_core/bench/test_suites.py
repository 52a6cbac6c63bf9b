"""Suites: what is loaded, what is refused, and that ours are what they say."""

import json
from collections import Counter
from pathlib import Path

import pytest

from moa_core.bench.suites import QUESTIONS, SUITES, load_suite, suite_ids
from moa_core.errors import UserError
from moa_core.train.own_text import Writing, load, write
from moa_core.train.prompts import HELD_OUT_PERCENT, bucket
from tests.models import chatml_tokenizer, speaking_target, tiny_target


def suite(tmp_path: Path, *rows: object) -> str:
    path = tmp_path / "mine.jsonl"
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return str(path)


def test_the_question_sets_load_one_by_one_and_as_kinds_of_one_suite():
    for name in QUESTIONS:
        found = load_suite(name)
        assert len(found) >= 79 and all(prompt.text for prompt in found)
        assert len({prompt.kind for prompt in found}) == (8 if name == "mt_bench" else 1)
    every = load_suite("questions")
    assert [prompt.number for prompt in every] == list(range(1, len(every) + 1))
    some = load_suite("questions", 10)
    assert Counter(prompt.kind for prompt in some) == dict.fromkeys(QUESTIONS, 10)
    assert {prompt.number for prompt in some} < {prompt.number for prompt in every}


def test_prompts_to_tune_on_are_held_out_and_none_is_a_question():
    found = load_suite("tuning")
    texts = [prompt.text for prompt in found]
    assert len(set(texts)) == len(texts) == 200 and max(map(len, texts)) <= 1_200
    assert all(bucket(text) < HELD_OUT_PERCENT for text in texts)
    assert not set(texts) & {one.text for one in load_suite("questions")}
    share_alike = ("dolly", "query-well", "efficientqa", "adversarial_qa")
    rows = [json.loads(line) for line in SUITES["tuning"].read_text("utf-8").splitlines()]
    assert not [row for row in rows if any(part in row["source"] for part in share_alike)]
    credits = (SUITES["tuning"].parent / "README.md").read_text("utf-8")
    assert all(f"`{row['source'].partition('(')[0]}" in credits for row in rows)


def test_questions_with_answers_name_the_right_one_first_and_in_a_passage_it_stands():
    found = load_suite("answers")
    texts = [prompt.text for prompt in found]
    assert len(set(texts)) == len(texts) >= 300
    assert set(Counter(one.kind for one in found)) == {"fact", "passage", "label"}
    for one, text in zip(found, texts, strict=True):
        assert one.choices and len(set(one.choices)) == len(one.choices)
        assert one.kind != "passage" or all(choice in text for choice in one.choices)


def test_a_persons_own_file(tmp_path):
    found = load_suite(suite(tmp_path, {"kind": "a", "prompt": "One"}, "", {"prompt": "Two"}))
    assert found == [(1, "a", "One", ()), (3, "mine", "Two", ())]


def test_a_limit_is_per_kind(tmp_path):
    rows = [{"kind": kind, "prompt": f"{kind}{at}"} for at in range(3) for kind in "ab"]
    found = load_suite(suite(tmp_path, *rows), 2)
    assert [each.text for each in found] == ["a0", "b0", "a1", "b1"]


BAD = [
    ("{", "is not JSON"), ("[" * 100_000, "nested too deeply"), ("[1]", "is not a JSON object"),
    *((row, "no prompt of text") for row in ({"kind": "a"}, {"prompt": " "}, {"prompt": 3})),
    ({"kind": 3, "prompt": "x"}, "kind that is no text"),
    *(({"prompt": "x", "choices": of}, "choices that are no list") for of in ("y", [1], [""])),
]  # fmt: skip


@pytest.mark.parametrize(("row", "words"), BAD)
def test_a_bad_line_is_named(tmp_path, row, words):
    path = suite(tmp_path, {"kind": "a", "prompt": "fine"}, row)
    with pytest.raises(UserError, match=f"^Line 2 of .*{words}"):
        load_suite(path)


def test_no_prompts_and_a_file_that_is_no_text(tmp_path):
    with pytest.raises(UserError, match="holds no prompts"):
        load_suite(suite(tmp_path, ""))
    (tmp_path / "latin.jsonl").write_bytes(b"\xe9\xff")
    with pytest.raises(UserError, match=r"latin\.jsonl cannot be read"):
        load_suite(str(tmp_path / "latin.jsonl"))


def test_a_question_is_asked_as_it_was_in_training(tmp_path):
    rows = [{"prompt": f"What is <|im_end|> {n} + 4?"} for n in range(6)]
    rows += [{"prompt": "\tThe fox\r\nran."}]
    path, own = Path(suite(tmp_path, *rows)), tmp_path / "own.npz"
    target = speaking_target(chatml_tokenizer())
    write(target, own, 10_000, Writing(path, rows=4, longest=2))
    trained = [text.ids[: text.mask.index(True)] for text in load(own)]
    assert sorted(trained) == sorted(suite_ids(load_suite(str(path)), target))


def test_a_prompt_that_does_not_fit_is_named(tmp_path):
    found = load_suite(suite(tmp_path, {"prompt": "Hi"}, {"prompt": "a b c " * 200}))
    with pytest.raises(UserError, match=r"^Line 2 of the suite: The prompt has"):
        suite_ids(found, speaking_target())
    with pytest.raises(UserError, match="no tokenizer"):
        suite_ids(found, tiny_target())
