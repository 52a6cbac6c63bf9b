"""A server that sends something else than a client's part of its target: a sentence, and nothing of
it is kept."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from websockets.sync.server import ServerConnection

from moa_core.errors import UserError
from moa_core.link.client_weights import WEIGHTS, client_target, pieces, target_mark, write
from moa_core.link.wire import Piece, Welcome, encode
from tests.models import speaking_target
from tests.serving import scripted

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


PARCELS: dict[str, Callable[[dict[str, torch.Tensor]], Any]] = {
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


@pytest.mark.parametrize("change", PARCELS.values(), ids=PARCELS.keys())
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
        pytest.raises(UserError, match="no mark of ours"),
    ):
        client_target(address, 1, tmp_path / "cache" / "deep")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("frame", [b"\xc1", "text", encode(Piece("x" * 200, b"1", 1)) + b"1"])
def test_a_frame_that_is_none_is_refused(tmp_path: Path, frame: bytes | str) -> None:
    def script(connection: ServerConnection) -> None:
        connection.send(encode(Welcome("x", "its", target_mark(TARGET))))
        for _ in connection:
            connection.send(frame)

    with scripted(script) as address, pytest.raises(UserError, match="no message of ours"):
        client_target(address, 0, tmp_path / "cache")


def test_a_file_that_this_machine_cannot_have_is_refused(tmp_path: Path) -> None:
    def script(connection: ServerConnection) -> None:
        connection.send(encode(Welcome("x", "its", target_mark(TARGET))))
        for _ in connection:
            connection.send(encode(Piece("ü" * 200, b"1", 1)))  # 400 bytes
            connection.send(encode(Piece("", b"", 1)))

    with scripted(script) as address, pytest.raises(UserError, match="cannot be kept"):
        client_target(address, 0, tmp_path / "cache")
    assert not [*(tmp_path / "cache").iterdir()]
