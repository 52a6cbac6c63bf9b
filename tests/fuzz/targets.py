"""What is fuzzed: seeds, how values in them are changed, and what reads them."""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import torch
from safetensors.torch import save

from demo.figures import stats
from demo.inside_view import packed
from demo.trace_view import Feed
from moa_core.decode import Settings, about, decode
from moa_core.errors import UserError
from moa_core.formats import build_drafter, read_config, read_tensors, save_drafter
from moa_core.link.numbers import pack, unpack
from moa_core.link.wire import (
    Answer,
    Fetch,
    Hello,
    Joiner,
    Part,
    Prefill,
    Sampled,
    Share,
    Stream,
    Verify,
    Welcome,
    WireError,
    encode,
    read_down,
    read_up,
)
from moa_core.memory import estimate
from moa_core.shapes import config_of
from moa_core.text import RecordedText, record_words
from moa_core.trace import Trace
from moa_core.tree import TreeSettings
from tests.models import speaking_target, useful
from tests.mutations import mutated


class Wire:
    """Frames, read as a server's and as a client's, and what they carry."""

    def seeds(self) -> Iterator[bytes]:
        half = pack({"memory": torch.arange(6.0).reshape(2, 3)}, "int8")
        yield from map(encode, (
            Hello(1, "token", "moa-n1", "mark"), Prefill(1, [5, 9], 60, Sampled(0.8, 0.9, 40, 3)),
            Verify(2, 7, [4, 5, 6, 7], [-1, 0, 0, 2]), Stream(4, 9, 17, 100), Fetch(3),
            Welcome("one", "tiny", "mark", 12, 3), Share(1, 0, 2, half),
            Answer(2, [5], [0.5], [1.0], half, 0.5), Part(encode(Fetch(1)), False),
        ))  # fmt: skip

    def change(self, data: bytes, seed: int) -> bytes | None:
        with suppress(Exception):
            return msgspec.msgpack.encode(mutated(msgspec.msgpack.decode(data), seed))
        return None

    def run(self, data: bytes) -> None:
        with suppress(WireError):
            request = read_up(data)
            assert read_up(encode(request)) == request or b"\xcb" in data, "not as it went"
        with suppress(WireError):
            Joiner().take(encode(Part(data, False)))
        answer = read_down(data)
        if isinstance(answer, Share | Answer):
            unpack(answer.half, torch.float32, torch.device("cpu"))


class Traces:
    """Traces, read and shown."""

    def seeds(self) -> Iterator[bytes]:
        target = speaking_target()
        drafter, settings = useful("moa-n1", target), Settings(6, TreeSettings(2, 2, 3))
        trace = Trace(about(target, drafter, settings))
        for _ in trace.record(decode(target, drafter, [5, 9, 2], settings)):
            pass
        record_words(trace, target.tokenizer)
        yield trace.to_json().encode()
        down = {"event": "LinkDown", "seconds": 1.0}
        back = {"event": "LinkBack", "seconds": 1.0, "tokens": 1}
        token = {"event": "OfflineToken", "position": 4, "token": 7, "prob": 0.5, "seconds": 0.1}
        short = json.loads(trace.to_json())
        short["events"] = [*short["events"][:3], down, token, back, short["events"][-1]]
        yield json.dumps(short).encode()

    def change(self, data: bytes, seed: int) -> bytes | None:
        with suppress(Exception):
            return json.dumps(mutated(json.loads(data), seed)).encode()
        return None

    def run(self, data: bytes) -> None:
        trace = Trace.from_json(data.decode("utf-8", "replace"))
        assert Trace.from_json(trace.to_json()) == trace, "not as it was written"
        stats(trace)
        lines = Feed("run", RecordedText(trace)).add(trace.events)
        lines.encode()  # no lone surrogates
        for line in lines.splitlines():
            json.loads(line, parse_constant=_none)
        packed(trace)


def _none(name: str) -> None:
    raise AssertionError(f"{name} goes to the page")


class Checkpoints:
    """A drafter's config with good weights, a target's config, and a file of weights.

    The first byte says which: d, t or w.
    """

    def __init__(self) -> None:
        logging.disable(logging.CRITICAL)
        self.target = speaking_target()
        self.folder = Path(tempfile.mkdtemp(prefix="moa-fuzz-"))
        self.good: list[tuple[dict[str, Any], dict[str, torch.Tensor]]] = []
        for method in ("moa-n1", "eagle2", "medusa", "glide", "independent"):
            drafter = useful(method, self.target)
            place = self.folder / method
            save_drafter(place, drafter, self.target, {"tree": {"depth": 3}}, torch.float32)
            self.good.append((read_config(place), read_tensors(place)))

    def seeds(self) -> Iterator[bytes]:
        for config, _ in self.good:
            yield b"d" + json.dumps(config).encode()
        yield b"t" + json.dumps(self.target.config.to_dict()).encode()
        yield b"w" + save({"fc.weight": torch.ones(2, 3), "norm": torch.ones(3)})

    def change(self, data: bytes, seed: int) -> bytes | None:
        kind, data = data[:1], data[1:]
        with suppress(Exception):
            if kind != b"w":
                return kind + json.dumps(mutated(json.loads(data), seed)).encode()
            size = int.from_bytes(data[:8], "little")
            head = json.dumps(mutated(json.loads(data[8 : 8 + size]), seed)).encode()
            return kind + len(head).to_bytes(8, "little") + head + data[8 + size :]
        return None

    def run(self, data: bytes) -> None:
        kind, data = data[:1], data[1:]
        if kind == b"w":
            path = self.folder / "model.safetensors"
            path.unlink(missing_ok=True)  # the last one may still be mapped into memory
            path.write_bytes(data)
            read_tensors(self.folder)
            return
        (self.folder / "config.json").write_bytes(data)
        config = read_config(self.folder)
        if kind == b"t":
            found = config_of(self.folder)
            with suppress(Exception):  # `check_room` says a sentence for any of them
                estimate(found, torch.float32)
            return
        for _, tensors in self.good:
            with suppress(UserError):
                build_drafter(config, tensors, self.target, None, "mine")


TARGETS = {"wire": Wire, "trace": Traces, "checkpoint": Checkpoints}
