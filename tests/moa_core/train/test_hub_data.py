"""A Hub data set becomes a folder of chats; the Hub itself is stood in for."""

import json
from itertools import islice
from pathlib import Path

import datasets
import pandas
import pytest

from moa_core.errors import UserError
from moa_core.train import corpus
from moa_core.train.corpus import Rows, fetch
from tests.models import ultrachat

CHAT = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> dict:
    """Rows by split, and how often they were asked for."""
    held = {"splits": {"train_sft": [{"messages": CHAT}], "test_sft": []}, "asked": []}

    def load(name: str, split: str) -> list:
        held["asked"].append((name, split))
        return held["splits"][split]

    monkeypatch.setattr(datasets, "get_dataset_split_names", lambda name: list(held["splits"]))
    monkeypatch.setattr(datasets, "load_dataset", load)
    return held


def test_the_training_split_is_fetched_once_and_reads_as_chats(hub: dict, tmp_path: Path) -> None:
    folder = fetch("someone/chats", tmp_path / "data")
    assert fetch("someone/chats", folder) == folder
    assert hub["asked"] == [("someone/chats", "train_sft")]
    [record] = [record for records in corpus.load(folder).values() for record in records]
    assert record.kind == "chat"
    assert [message["content"] for message in record.value] == ["Hi", "Hello."]


def test_plain_text_rows_serve_too(hub: dict, tmp_path: Path) -> None:
    hub["splits"] = {"train": [{"text": "Once."}, {"other": 1}]}
    folder = fetch("someone/texts", tmp_path)
    rows = (folder / "data.jsonl").read_text().splitlines()
    assert [json.loads(row) for row in rows] == [{"text": "Once."}]


def test_questions_and_answers_are_chats_fetched_or_streamed(hub: dict, tmp_path: Path) -> None:
    pair = {"context": "Tom has a cat.", "question": "What has Tom?", "answer": "A cat.", "id": 3}
    hub["splits"] = {"train": [pair, {**pair, "context": None}, {"question": "", "answer": ""}]}
    folder = fetch("someone/questions", tmp_path / "fetched")
    [with_context, without] = corpus.load(folder)["data"]
    assert [turn["content"] for turn in with_context.value] == [
        "Tom has a cat.\n\nWhat has Tom?", "A cat.",
    ]  # fmt: skip
    assert [turn["content"] for turn in without.value] == ["What has Tom?", "A cat."]
    streamed = [corpus._record(corpus._fields(row) or {}, "") for row in hub["splits"]["train"]]
    assert streamed[0].value == with_context.value and streamed[2] is None


def test_rows_of_neither_kind_are_refused_and_leave_nothing(hub: dict, tmp_path: Path) -> None:
    hub["splits"] = {"train": [{"image": 1}]}
    with pytest.raises(UserError, match="neither `messages` nor `text`"):
        fetch("someone/images", tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_data_set_that_cannot_be_had_is_one_sentence(
    hub: dict, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def gone(name: str) -> list:
        raise ConnectionError("no route\nmore about it")

    monkeypatch.setattr(datasets, "get_dataset_split_names", gone)
    with pytest.raises(UserError, match=r"neither a folder nor a data set .*: no route$"):
        fetch("someone/gone", tmp_path)


def test_a_streamed_data_set_is_asked_for_as_such_and_goes_on_where_it_stood(
    hub: dict, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def load(name: str, split: str, streaming: bool) -> datasets.IterableDataset:
        asked.append((name, split, streaming))
        rows = [{"messages": [{**turn, "content": f"{n}"} for turn in CHAT]} for n in range(9)]
        return datasets.Dataset.from_list(rows).to_iterable_dataset()

    monkeypatch.setattr(datasets, "load_dataset", load)
    rows = Rows("someone/chats")
    taken = list(islice(rows.read_from(None), 4))
    again = Rows("someone/chats")
    rest = list(again.read_from(json.loads(json.dumps(rows.state()))))
    said = [row.document.messages[0]["content"] for row in [*taken, *rest]]
    assert said == [str(n) for n in range(9)]
    assert set(asked) == {("someone/chats", "train_sft", True)}


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_a_folder_like_a_data_set_is_read_as_one(tmp_path: Path, form: str) -> None:
    folder = ultrachat(tmp_path, 6)
    if form == "jsonl":
        for path in sorted((folder / "data").glob("*.parquet")):
            pandas.read_parquet(path).to_json(
                path.with_suffix(".jsonl"), orient="records", lines=True
            )
            path.unlink()
    found = [row.document for row in Rows(str(folder)).read_from(None)]
    assert len(found) == 6 and all(document.kind == "chat" for document in found)
    assert found[2].messages[1] == {"role": "assistant", "content": "It is 6, said the dog."}


def test_rows_that_are_no_chats_and_empty_turns_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    rows = [
        {"messages": [{"role": "user", "content": ""}, {"role": "assistant", "content": "Hm?"}]},
        {"messages": CHAT},
        {"messages": []},
    ]
    text = "\n".join(map(json.dumps, rows))
    (tmp_path / "data" / "train-00000-of-00001.jsonl").write_text(text)
    [row] = Rows(str(tmp_path)).read_from(None)
    assert [turn["content"] for turn in row.document.messages] == ["Hi", "Hello."]
