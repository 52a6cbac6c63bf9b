"""Messages of anybody's come back as they went, and any other frame is the protocol's error."""

from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from moa_core.errors import UserError
from moa_core.link.client_weights import keep
from moa_core.link.tensors import pack, unpack
from moa_core.link.wire import (
    MOST_HELLO,
    Answer,
    Fetch,
    First,
    Hello,
    Joiner,
    Part,
    Piece,
    Prefill,
    Pushed,
    Refused,
    Sampled,
    Share,
    Stream,
    Verify,
    Welcome,
    WireError,
    encode,
    frames,
    read_down,
    read_up,
)
from tests.mutations import mutated
from tests.properties import SEEDS, trees

NUMBER, ID, PROB = st.integers(0, 2**53), st.integers(0, 2**31 - 1), st.floats(0, 1)
NAME = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
KINDS = st.sampled_from(["f32", "bf16", "int8"])
SAMPLED = st.builds(Sampled, st.floats(0, 100), st.floats(0.01, 1), ID, st.integers(-9, 9))
VERIFY = st.builds(
    lambda tree, number, position: Verify(number, position, [*tree.tokens], [*tree.parents]),
    trees(), NUMBER, NUMBER,
)  # fmt: skip
UP = st.one_of(
    st.builds(Hello, st.integers(0, 9), NAME, NAME, NAME, KINDS, NAME),
    st.builds(Prefill, NUMBER, st.lists(ID), st.integers(1, 2**21), SAMPLED, NUMBER),
    VERIFY,
    st.builds(Stream, NUMBER, NUMBER, ID, st.integers(1, 2**20)),
    st.builds(Fetch, st.integers(0, 1024)),
)


@st.composite
def halves(draw: st.DrawFn) -> Any:
    """A server half of any shape and kind."""
    shape = draw(st.lists(st.integers(0, 4), max_size=4))
    generator = torch.Generator().manual_seed(draw(SEEDS))
    return pack({draw(NAME): torch.randn(shape, generator=generator)}, draw(KINDS))


DOWN = st.one_of(
    st.builds(Welcome, NAME, NAME, NAME, NUMBER, NUMBER),
    st.builds(First, NUMBER, ID, PROB, PROB),
    st.builds(Share, NUMBER, NUMBER, st.integers(1, 16), halves()),
    st.builds(
        Answer, NUMBER, st.lists(ID), st.lists(PROB), st.lists(PROB), halves(), st.floats(0, 9)
    ),
    st.builds(Pushed, NUMBER, NUMBER, ID, PROB, PROB),
    st.builds(Piece, NAME, st.binary(), NUMBER),
    st.builds(Refused, NAME, st.booleans()),
)


@given(UP, DOWN)
def test_messages_come_back_as_they_went_and_to_their_own_side_alone(up: Any, down: Any) -> None:
    assert read_up(encode(up)) == up
    assert read_down(encode(down)) == down
    for read, message in ((read_down, up), (read_up, down)):
        with pytest.raises(WireError):
            read(encode(message))


@given(UP | DOWN, st.data())
def test_every_frame_that_is_cut_is_the_protocol_s_error(message: Any, data: st.DataObject) -> None:
    frame = encode(message)
    cut = frame[: data.draw(st.integers(0, len(frame) - 1))]
    for read in (read_up, read_down):
        with pytest.raises(WireError):
            read(cut)


@given(UP | DOWN, SEEDS, st.data())
def test_a_changed_frame_is_a_message_or_the_protocol_s_error(
    message: Any, seed: int, data: st.DataObject
) -> None:
    frame = bytearray(encode(message))
    frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    changed = [bytes(frame)]
    with suppress(OverflowError, UnicodeEncodeError):  # MessagePack itself has no such value
        changed.append(msgspec.msgpack.encode(mutated(msgspec.to_builtins(message), seed)))
    for one in changed:
        for read in (read_up, read_down, lambda sent: Joiner().take(encode(Part(sent, False)))):
            try:
                found = read(one)
            except WireError as refused:
                assert len(str(refused)) < 1000
                continue
            if isinstance(found, Share | Answer):  # a half that is let in can be used
                unpack(found.half, torch.float32, torch.device("cpu"))


@given(halves(), st.integers(-9, 9))
def test_numbers_that_do_not_fill_their_shape_are_the_protocol_s_error(
    half: Any, more: int
) -> None:
    [(name, numbers)] = half.items()
    fields = msgspec.to_builtins(Share(1, 0, 1, half))
    for place in (2, 3):  # the numbers, and their scales
        other = list(msgspec.structs.astuple(numbers))
        other[place] = other[place][:more] if more < 0 else other[place] + bytes(more)
        if other[place] == msgspec.structs.astuple(numbers)[place]:
            continue
        with pytest.raises(WireError):
            read_down(msgspec.msgpack.encode(fields | {"half": {name: other}}))


@given(halves(), st.integers(1, 4))
def test_a_long_message_is_the_same_put_together(half: Any, times: int) -> None:
    answer = Answer(1, [5] * 5000 * times, [0.5] * 2000, [0.5], half, 0.5)
    joiner = Joiner()
    *parts, last = [joiner.take(frame) for frame in frames(answer)]
    assert last == answer and not any(parts)


@given(NAME)
def test_a_hello_fits_into_what_is_read_of_a_stranger(name: str) -> None:
    assert len(encode(Hello(1, name, name, name, "bf16", name))) < MOST_HELLO


@pytest.mark.parametrize("name", ["../x", "/etc/x", "a/b", "..", ".", "x\0y", "../new/../x"])
def test_a_file_of_a_parcel_stays_in_its_folder(tmp_path: Any, name: str) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(UserError, match="belongs elsewhere"):
        keep([Piece(name, b"x", 1), Piece("", b"", 1)], tmp_path / "a" / "parcel")
    assert not [*tmp_path.rglob("x"), *tmp_path.rglob("parcel*")]


def test_a_parcel_has_no_more_than_it_said(tmp_path: Any) -> None:
    endless = (Piece("model", bytes(100), 250) for _ in range(10**9))
    with pytest.raises(UserError, match="more than it said"):
        keep(endless, tmp_path / "parcel")
    assert not [*tmp_path.iterdir()]


def test_a_parcel_that_would_fill_the_disk_is_not_kept(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda place: SimpleNamespace(free=150))
    with pytest.raises(UserError, match="more than fits here"):
        keep([Piece("model", bytes(100), 2**60)] * 2, tmp_path / "parcel")
    assert not [*tmp_path.iterdir()]
