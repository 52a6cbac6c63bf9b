"""A client's part of a target: packed once, kept whole or not at all, else refused."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from websockets.sync.server import ServerConnection

from moa_core.errors import UserError
from moa_core.link import client_weights
from moa_core.link.client_weights import WEIGHTS, client_target, keep, pieces, target_mark, write
from moa_core.link.wire import Fetch, Piece, Welcome, encode
from moa_core.model.target import Target
from tests.moa_core.link.scene import TARGET as SERVED
from tests.moa_core.link.scene import TOKEN, caller, drafter_for
from tests.models import speaking_target
from tests.serving import scripted, serving

TARGET = speaking_target()
with torch.no_grad():  # of numbers that bfloat16 has, too: the mark does not tell the two apart
    for weight in TARGET.model.parameters():
        weight.copy_(weight.bfloat16())
Script = Callable[[ServerConnection], None]


def edited(folder: Path, change: Callable[[dict[str, torch.Tensor]], Any]) -> None:
    tensors = load_file(folder / WEIGHTS)
    save_file(change(tensors), folder / WEIGHTS)


def without(word: str) -> Callable[[dict[str, torch.Tensor]], Any]:
    return lambda all: {name: one for name, one in all.items() if word not in name}


SENT: dict[str, Callable[[dict[str, torch.Tensor]], Any]] = {
    "no embeddings": without("embed_tokens"),
    "no head": without("lm_head"),
    "no norm": without("model.norm"),
    "no last layer": without("layers.2."),
    "no MLP": without("gate_proj"),
    "a type of its own": lambda all: {**all, "lm_head.weight": all["lm_head.weight"].bfloat16()},
    "whole numbers": lambda all: {name: one.to(torch.int32) for name, one in all.items()},
    "8 bits": lambda all: {name: one.to(torch.float8_e4m3fn) for name, one in all.items()},
    "wider": lambda all: {name: torch.cat([one, one], -1) for name, one in all.items()},
}


@pytest.fixture
def sent(tmp_path: Path) -> Path:
    folder = tmp_path / "sent"
    folder.mkdir()
    write(TARGET, 1, folder)
    return folder


def sends(folder: Path, mark: str = "") -> Script:
    """A server that sends what is in a folder for its target."""
    mark = mark or target_mark(TARGET)

    def script(connection: ServerConnection) -> None:
        connection.send(encode(Welcome("x", "its", mark)))
        for _ in connection:
            for piece in pieces(folder):
                connection.send(encode(piece))

    return script


@pytest.mark.parametrize("change", SENT.values(), ids=SENT.keys())
def test_a_target_that_is_not_what_was_asked_for_is_refused_and_not_kept(
    tmp_path: Path, sent: Path, change: Callable[[Any], Any]
) -> None:
    cache, good = tmp_path / "cache", load_file(sent / WEIGHTS)
    with scripted(sends(sent)) as address:
        edited(sent, change)
        with pytest.raises(UserError, match=r"^What the server sent") as caught:
            client_target(address, 1, cache)
        assert "\n" not in str(caught.value)
        save_file(good, sent / WEIGHTS)  # an honest one, later
        assert client_target(address, 1, cache).eos_ids == TARGET.eos_ids


@pytest.mark.parametrize("mark", ["../../elsewhere", "", "x" * 300, "/etc/x", "a\nb"])
def test_a_mark_that_would_be_another_folder_is_refused(
    tmp_path: Path, sent: Path, mark: str
) -> None:
    before = sorted(tmp_path.rglob("*"))
    with (
        scripted(sends(sent, mark or " ")) as address,
        pytest.raises(UserError, match="no valid fingerprint"),
    ):
        client_target(address, 1, tmp_path / "cache" / "deep")
    assert sorted(tmp_path.rglob("*")) == before


def test_a_file_that_this_machine_cannot_have_is_refused(tmp_path: Path) -> None:
    def script(connection: ServerConnection) -> None:
        connection.send(encode(Welcome("x", "its", target_mark(TARGET))))
        for _ in connection:
            connection.send(encode(Piece("ü" * 200, b"1", 1)))  # 400 bytes
            connection.send(encode(Piece("", b"", 1)))

    with scripted(script) as address, pytest.raises(UserError, match="cannot be kept"):
        client_target(address, 0, tmp_path / "cache")
    assert not [*(tmp_path / "cache").iterdir()]


NAMES = ("../x", "/etc/x", "a/b", "..", ".", "x\0y", "../new/../x")
BAD: list[tuple[Iterable[Piece], str]] = [
    *(([Piece(name, b"x", 1), Piece("", b"", 1)], "belongs elsewhere") for name in NAMES),
    ((Piece("model", bytes(100), 250) for _ in range(10**9)), "more than it said"),
    ([Piece("model", bytes(100), 2**60)] * 2, "more than fits here"),
]


@pytest.mark.parametrize(("sent", "words"), BAD)
def test_what_does_not_belong_or_fit_here_is_not_kept(
    sent: Iterable[Piece], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "fits" in words:
        monkeypatch.setattr("shutil.disk_usage", lambda place: SimpleNamespace(free=150))
    with pytest.raises(UserError, match=words):
        keep(sent, tmp_path / "a" / "kept")
    assert not [*tmp_path.rglob("x"), *tmp_path.rglob("kept*"), *(tmp_path / "a").iterdir()]


def test_files_are_packed_once_for_all_and_go_with_the_server(monkeypatch) -> None:
    written, folders = [], []
    real = client_weights.write

    def write(target: Target, last: int, folder: Any) -> None:
        written.append(last)
        folders.append(folder)
        real(target, last, folder)

    monkeypatch.setattr(client_weights, "write", write)

    def fetch(last: int) -> int:
        with caller(port) as one:
            one.say(Fetch(last))
            total, got = 0, 0
            while (piece := one.hear()).name:
                total, got = piece.total, got + len(piece.data)
            assert got == total
            return total

    with serving(SERVED, drafter_for, TOKEN) as (_, port), ThreadPoolExecutor(8) as pool:
        sizes = list(pool.map(fetch, [1] * 8))
        assert written == [1] and len(set(sizes)) == 1
        assert fetch(1024) == fetch(3) > fetch(0) and written == [1, 3, 0]
        assert fetch(2) and fetch(1) == sizes[0] and written == [1, 3, 0, 2, 1]
        assert sum(folder.exists() for folder in folders) == client_weights.WeightFiles.MOST
    assert not any(folder.exists() for folder in folders)
