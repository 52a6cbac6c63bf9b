"""A Hub data set becomes a folder of chats or a stream of them; the Hub itself is stood in for."""

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
PAIR = {"question": "What has Tom?", "answer": "A cat."}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> dict:
    """Rows by split, and how often they were asked for."""
    held = {"splits": {"train_sft": [{"messages": CHAT}], "test_sft": []}, "asked": []}

    def load(name: str, split: str, streaming: bool = False) -> object:
        held["asked"].append((name, split, streaming))
        rows = held["splits"][split]
        return datasets.Dataset.from_list(rows).to_iterable_dataset() if streaming else rows

    monkeypatch.setattr(datasets, "get_dataset_split_names", lambda name: list(held["splits"]))
    monkeypatch.setattr(datasets, "load_dataset", load)
    return held


@pytest.mark.parametrize(
    ("row", "turns"),
    [
        ({"messages": CHAT}, ["Hi", "Hello."]),
        ({"text": "Once."}, ["Once."]),
        ({**PAIR, "context": "Tom purrs.", "id": 3}, ["Tom purrs.\n\nWhat has Tom?", "A cat."]),
        ({**PAIR, "context": None}, ["What has Tom?", "A cat."]),
        ({"question": "What is 6 x 12?", "answer": "<<6*12=72>>72\n#### 72"},
         ["What is 6 x 12?", "72\nThe answer is 72."]),
    ],
)  # fmt: skip
def test_a_row_reads_the_same_fetched_once_or_streamed(
    row: dict, turns: list[str], hub: dict, tmp_path: Path
) -> None:
    hub["splits"]["train_sft"] = [row]
    folder = fetch("someone/rows", tmp_path / "data")
    assert fetch("someone/rows", folder) == folder
    assert hub["asked"] == [("someone/rows", "train_sft", False)]
    loaded = corpus.load(folder)
    assert [document.contents for document in corpus.epoch(loaded, 0, 0)] == [turns]
    [streamed] = Rows("someone/rows").read_from(None)
    assert streamed.document.contents == turns


def test_rows_without_anything_to_learn_are_passed_over_or_refused(
    hub: dict, tmp_path: Path
) -> None:
    empty = [{"messages": [{**CHAT[0], "content": ""}, CHAT[1]]}, {"messages": []}]
    nothing = [{"image": 1}, {"question": "", "answer": ""}]
    hub["splits"] = {"train": [*empty, {"messages": CHAT}]}
    [row] = Rows("someone/chats").read_from(None)
    assert row.document.contents == ["Hi", "Hello."]
    hub["splits"] = {"train": nothing}
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


def test_a_streamed_data_set_goes_on_where_it_stood(hub: dict) -> None:
    each = [{"messages": [{**turn, "content": f"{n}"} for turn in CHAT]} for n in range(9)]
    hub["splits"] = {"train": each}
    rows = Rows("someone/chats")
    taken = list(islice(rows.read_from(None), 4))
    rest = list(Rows("someone/chats").read_from(json.loads(json.dumps(rows.state()))))
    said = [row.document.messages[0]["content"] for row in [*taken, *rest]]
    assert said == [str(n) for n in range(9)]
    assert set(hub["asked"]) == {("someone/chats", "train", True)}


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_a_folder_like_a_data_set_is_read_as_one(tmp_path: Path, form: str) -> None:
    folder = ultrachat(tmp_path, 6)
    if form == "jsonl":
        for path in sorted((folder / "data").glob("*.parquet")):
            rows = pandas.read_parquet(path)
            rows.to_json(path.with_suffix(".jsonl"), orient="records", lines=True)
            path.unlink()
    found = [row.document for row in Rows(str(folder)).read_from(None)]
    assert len(found) == 6 and all(document.kind == "chat" for document in found)
    assert found[2].messages[1] == {"role": "assistant", "content": "It is 6, said the dog."}
