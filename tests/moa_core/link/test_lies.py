"""A server that lies, in answers and in files: a sentence, and what was decoded stays."""

import json
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from math import nan
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
import torch
from msgspec.structs import replace
from safetensors.torch import load_file, save_file
from websockets.sync.server import ServerConnection

from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Trace
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.base import Vanilla
from moa_core.errors import UserError
from moa_core.link import client_weights, wire
from moa_core.link.client_weights import WEIGHTS, client_target, keep, pieces, target_mark, write
from moa_core.link.remote import Remote
from moa_core.link.session import Limits, Session
from moa_core.link.wire import Numbers, check_half, pack
from moa_core.train.drafters import fresh
from tests.moa_core.link.scene import TARGET, TOKEN, WELCOME, answers, caller, drafter_for
from tests.models import plain_greedy, speaking_target, tiny_target
from tests.serving import scripted, serving

PROMPT = [(i * i + 3) % 60 for i in range(20)]  # two shares
GREEDY = plain_greedy(TARGET, PROMPT, 30)
METHODS = ("moa-n0", "eagle2", "tandem", "medusa")
NONE = "unknown message"
AFTER = 3  # true messages of a kind before the one that lies
Lie = Callable[[Any], Any]


def decoded(
    method: str, kind: type, lie: Lie, after: int = AFTER, silence: float = 60
) -> tuple[str, list[int]]:  # a busy machine is no lie
    """The sentence that a run ends with when one message of a kind lies; its text until then."""
    drafter, count = drafter_for(method), 0
    session = Session(TARGET, drafter, "bf16", Limits())

    def script(connection: ServerConnection) -> None:
        nonlocal count
        connection.send(WELCOME)
        for frame in connection:
            for message in answers(session, wire.read_up(frame)):
                count += isinstance(message, kind)
                lies = isinstance(message, kind) and count == after + 1
                for part in wire.frames(lie(message) if lies else message):
                    connection.send(part)

    trace, settings = Trace(), Settings(30, TreeSettings(3, 2, 6), patience=60)
    with scripted(script) as address, pytest.raises(UserError) as caught:
        streams = kind is wire.Pushed
        with Remote(address, TARGET, drafter, streams, silence) as remote:
            for _ in trace.record(decode(TARGET, drafter, PROMPT, settings, remote=remote)):
                pass
    told = str(caught.value)
    assert told.startswith("The server ") and "\n" not in told
    return told, trace.output_ids


def other(half: dict[str, Numbers], change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """A half whose last tensor has another shape."""
    *names, last = half
    tensor = change(torch.zeros(half[last].shape))
    return {**{name: half[name] for name in names}, **pack({last: tensor}, half[last].kind)}


HALVES: dict[str, Callable[[dict[str, Numbers]], Any]] = {
    "nothing": lambda half: {},
    "one more": lambda half: {**half, "more": next(iter(half.values()))},
    "another name": lambda half: {f"{name}s": one for name, one in half.items()},
    "another kind": lambda half: pack({k: torch.zeros(v.shape) for k, v in half.items()}, "f32"),
    "wider": lambda half: other(half, lambda one: torch.cat([one, one], -1)),
    "one number": lambda half: other(half, lambda one: one.sum()),
}


@pytest.mark.parametrize("method", [*METHODS, "moa-n2", "eagle3", "independent", "vanilla"])
@torch.inference_mode()
def test_a_drafter_knows_the_shapes_of_its_half_and_no_other_is_let_in(method):
    target = tiny_target(family="qwen3", head_dim=12, num_key_value_heads=1)
    drafter = Vanilla() if method == "vanilla" else fresh(method, target, 0)
    drafter.open_server(target, 64)
    _, seen = target.prefill(PROMPT, 64)
    for count in (1, 7, 20):
        made = drafter.server_outputs(seen.part(0, count))
        due = drafter.output_shapes(target, count)
        assert {name: (*tensor.shape,) for name, tensor in made.items()} == due
        half = pack(made, "bf16")
        check_half(half, due, "bf16")
        for lie in HALVES.values() if half else ():
            with pytest.raises(UserError, match=r"was due|more numbers than"):
                check_half(lie(half), due, "bf16")


def widened(message: Any) -> Any:
    return replace(message, half=HALVES["wider"](message.half))


LIES: dict[str, tuple[type, Lie, str]] = {
    "a token too many": (wire.Answer, lambda x: replace(x, tokens=[*x.tokens, 5]), "not fit"),
    "no probabilities": (wire.Answer, lambda x: replace(x, probs=[]), "not fit"),
    "drafts too many": (wire.Answer, lambda x: replace(x, drafts=x.drafts * 2), "not fit"),
    "an unknown token": (wire.Answer, lambda x: replace(x, tokens=[64, *x.tokens[1:]]), "not have"),
    "nan": (wire.Answer, lambda x: replace(x, probs=[*x.probs[:-1], nan]), NONE),
    "no answer": (wire.Answer, lambda x: wire.Refused("Too much."), "refused: Too much."),
    "a half too wide": (wire.Answer, widened, "was due"),
    "pushed elsewhere": (wire.Pushed, lambda x: replace(x, position=99), "another place"),
    "a first probability of 2": (wire.First, lambda x: replace(x, prob=2.0), NONE),
    "an unknown first token": (wire.First, lambda x: replace(x, token=64), "does not have"),
    "a first token below 0": (wire.First, lambda x: replace(x, token=-1), NONE),
    "time below 0": (wire.First, lambda x: replace(x, seconds=-1e9), NONE),
    "an empty share": (wire.Share, lambda x: replace(x, count=0), NONE),
    "a share that skips": (wire.Share, lambda x: replace(x, start=x.start + 1), "out of order"),
    "a share too long": (wire.Share, lambda x: replace(x, count=x.count + 1), "out of order"),
    "a share too short": (wire.Share, lambda x: replace(x, count=x.count - 1), "was due"),
}


@pytest.mark.parametrize(("kind", "lie", "words"), LIES.values(), ids=LIES.keys())
def test_what_does_not_fit_the_question_is_refused(kind, lie, words):
    after = {wire.Share: 1, wire.First: 0}.get(kind, AFTER)
    method = "vanilla" if kind is wire.Pushed else "moa-n0"
    # What lacks of a share is waited for, and then asked for again.
    silence = 5 if kind is wire.Share and words == "was due" else 60
    told, text = decoded(method, kind, lie, after, silence)
    assert words in told and text == GREEDY[: len(text)]
    assert len(text) > AFTER if after == AFTER else len(text) == after


SPEAKING = speaking_target()
with torch.no_grad():  # of numbers that bfloat16 has, too: the mark does not tell the two apart
    for weight in SPEAKING.model.parameters():
        weight.copy_(weight.bfloat16())
Script = Callable[[ServerConnection], None]


def weights(change: Callable[[dict[str, torch.Tensor]], Any]) -> Callable[[Path], None]:
    return lambda folder: save_file(change(load_file(folder / WEIGHTS)), folder / WEIGHTS)


def without(word: str) -> Callable[[Path], None]:
    return weights(lambda all: {name: one for name, one in all.items() if word not in name})


def keys(file: str, **changes: Any) -> Callable[[Path], Any]:
    """Other values in a JSON file; without any, a file that no parser should read."""

    def change(folder: Path) -> None:
        told = json.loads((folder / file).read_text()) | changes
        (folder / file).write_text(json.dumps(told) if changes else "[" * 50_000)

    return change


HEAD = "lm_head.weight"
REFUSED = "What the server sent|cannot be read as JSON|says that|cannot be a target"
SENT: dict[str, Callable[[Path], Any]] = {
    "no embeddings": without("embed_tokens"),
    "no head": without(HEAD),
    "no last layer": without("layers.2."),
    "a type of its own": weights(lambda all: {**all, HEAD: all[HEAD].bfloat16()}),
    "8 bits": weights(lambda all: {name: one.to(torch.float8_e4m3fn) for name, one in all.items()}),
    "wider": weights(lambda all: {name: torch.cat([one, one], -1) for name, one in all.items()}),
    "no end": keys("client.json", name=None, eos_ids=5),
    "a trap for the parser": keys("client.json"),
    "another trap": keys("config.json"),
    "a huge model": keys("config.json", hidden_size=2**23),
    "endless layers": keys("config.json", num_hidden_layers=10**9),
    "another family": keys("config.json", model_type="bert"),
}


@pytest.fixture
def sent(tmp_path: Path) -> Path:
    folder = tmp_path / "sent"
    folder.mkdir()
    write(SPEAKING, 1, folder)
    return folder


def sends(folder: Path, mark: str = "") -> Script:
    """A server that sends what is in a folder for its target."""
    mark = mark or target_mark(SPEAKING)

    def script(connection: ServerConnection) -> None:
        connection.send(wire.encode(wire.Welcome("x", "its", mark)))
        for _ in connection:
            for piece in pieces(folder):
                connection.send(wire.encode(piece))

    return script


@pytest.mark.parametrize("change", SENT.values(), ids=SENT.keys())
def test_a_target_that_is_not_what_was_asked_for_is_refused_and_not_kept(tmp_path, sent, change):
    cache = tmp_path / "cache"
    with scripted(sends(sent)) as address:
        change(sent)
        with pytest.raises(UserError, match=REFUSED) as caught:
            client_target(address, 1, cache)
        assert "\n" not in str(caught.value)
        write(SPEAKING, 1, sent)  # an honest one, later
        assert client_target(address, 1, cache).eos_ids == SPEAKING.eos_ids


@pytest.mark.parametrize("mark", ["../../elsewhere", "", "x" * 300, "/etc/x", "a\nb"])
def test_a_mark_that_would_be_another_folder_is_refused(tmp_path, sent, mark):
    before = sorted(tmp_path.rglob("*"))
    with (
        scripted(sends(sent, mark or " ")) as address,
        pytest.raises(UserError, match="no valid fingerprint"),
    ):
        client_target(address, 1, tmp_path / "cache" / "deep")
    assert sorted(tmp_path.rglob("*")) == before


NAMES = ("../x", "/etc/x", "a/b", "..", ".", "x\0y", "../new/../x")
BAD: list[tuple[Iterable[wire.Piece], str]] = [
    *(([wire.Piece(name, b"x", 1), wire.Piece("", b"", 1)], "belongs elsewhere") for name in NAMES),
    ((wire.Piece("model", bytes(100), 250) for _ in range(10**9)), "more than it said"),
    ([wire.Piece("model", bytes(100), 2**60)] * 2, "more than fits here"),
]


@pytest.mark.parametrize(("sent", "words"), BAD)
def test_what_does_not_belong_or_fit_here_is_not_kept(sent, words, tmp_path, monkeypatch):
    if "fits" in words:
        monkeypatch.setattr("shutil.disk_usage", lambda place: SimpleNamespace(free=150))
    with pytest.raises(UserError, match=words):
        keep(sent, tmp_path / "a" / "kept")
    assert not [*tmp_path.rglob("x"), *tmp_path.rglob("kept*"), *(tmp_path / "a").iterdir()]


def test_what_just_fits_is_kept(tmp_path, monkeypatch):
    free = iter([150, 50, 10])  # less, once something is written
    monkeypatch.setattr("shutil.disk_usage", lambda place: SimpleNamespace(free=next(free)))
    pieces = [wire.Piece("model", bytes(count), 140) for count in (100, 40)]
    keep([*pieces, wire.Piece("", b"", 140)], tmp_path / "kept")
    assert (tmp_path / "kept" / "model").stat().st_size == 140


def test_files_are_packed_once_for_all_and_go_with_the_server(monkeypatch):
    write = Mock(wraps=client_weights.write)
    monkeypatch.setattr(client_weights, "write", write)

    def written() -> list[int]:
        return [call.args[1] for call in write.call_args_list]

    def fetch(last: int) -> int:
        with caller(port) as one:
            one.say(wire.Fetch(last))
            total, got = 0, 0
            while (piece := one.hear()).name:
                total, got = piece.total, got + len(piece.data)
            assert got == total
            return total

    with serving(TARGET, drafter_for, TOKEN) as (_, port), ThreadPoolExecutor(8) as pool:
        sizes = list(pool.map(fetch, [1] * 8))
        assert written() == [1] and len(set(sizes)) == 1
        assert fetch(1024) == fetch(3) > fetch(0) and written() == [1, 3, 0]
        assert fetch(2) and fetch(1) == sizes[0] and written() == [1, 3, 0, 2, 1]
        folders = {call.args[2] for call in write.call_args_list}
        assert sum(folder.exists() for folder in folders) == 1
    assert not any(folder.exists() for folder in folders)
