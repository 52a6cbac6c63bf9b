"""A Hub data set becomes a folder of chats; the Hub itself is stood in for."""

import json
from pathlib import Path

import datasets
import pytest

from moa_core.errors import UserError
from moa_core.train import sources
from moa_core.train.hub_data import fetch

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
    [record] = [record for records in sources.load(folder).values() for record in records]
    assert record.kind == "chat"
    assert [message["content"] for message in record.value] == ["Hi", "Hello."]


def test_plain_text_rows_serve_too(hub: dict, tmp_path: Path) -> None:
    hub["splits"] = {"train": [{"text": "Once."}, {"other": 1}]}
    folder = fetch("someone/texts", tmp_path)
    assert [json.loads(line) for line in (folder / "data.jsonl").open()] == [{"text": "Once."}]


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
