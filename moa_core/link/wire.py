"""Messages between client and server: one type per kind, checked when they are read.

They are MessagePack, one message per frame. Tensors are raw bytes with a shape and a kind, never
pickles. A message that does not fit its type is refused before it is used.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal, TypeVar

import msgspec
import torch
from msgspec import Meta, Struct

from moa_core.decoding.verify import Choices
from moa_core.drafters.base import ServerOutputs
from moa_core.errors import UserError

VERSION = 2
MOST_UP = 1 << 20  # bytes of a frame to the server: some 200,000 token ids
MOST_HELLO = 1 << 12  # bytes of the first one, from an unknown sender
MOST_DOWN = 1 << 20  # bytes of a frame to the client
MOST_WHOLE = 1 << 28  # bytes of a message to the client that comes in parts
PART = 1 << 13  # bytes of a part: less than a second on a 0.1 Mbit/s link
SHARE = 16  # prompt tokens per message, so that other clients get turns in between
PIECE = 1 << 16  # bytes of a file in one message
NODES = (1 << 15) + 1  # of a tree, which may be a whole text written offline, and its root

Kind = Literal["f32", "bf16"]
TYPES: dict[Kind, torch.dtype] = {"f32": torch.float32, "bf16": torch.bfloat16}
Shape = Annotated[list[Annotated[int, Meta(ge=0, le=2**24)]], Meta(max_length=6)]
Number = Annotated[int, Meta(ge=0, le=2**53)]
Id = Annotated[int, Meta(ge=0, lt=2**31)]
Ids = Annotated[list[Id], Meta(max_length=200_000)]
Nodes = Annotated[list[Annotated[int, Meta(ge=-1, lt=NODES)]], Meta(max_length=NODES)]
Seconds = Annotated[float, Meta(ge=0, le=2**31)]
Prob = Annotated[float, Meta(ge=0, le=1.001)]  # a softmax may round above 1
Name = Annotated[str, Meta(max_length=200)]
T = TypeVar("T")


class Numbers(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """A tensor: little-endian, row by row."""

    kind: Kind
    shape: Shape
    data: bytes

    def __post_init__(self) -> None:
        if len(self.data) != math.prod(self.shape) * TYPES[self.kind].itemsize:
            raise ValueError("the numbers do not fill their shape")
        if math.prod(size for size in self.shape if size) > MOST_WHOLE:
            raise ValueError("no tensor has such a shape, empty or not")


class Message(Struct, frozen=True, forbid_unknown_fields=True):
    """A message has exactly its fields, because both ends speak the same version."""


class Sampled(Message, frozen=True):
    """`verify.Sampling` in a message."""

    temperature: Annotated[float, Meta(ge=0, le=100)] = 0.0
    top_p: Annotated[float, Meta(gt=0, le=1)] = 1.0
    top_k: Annotated[int, Meta(ge=0, le=2**31)] = 0
    seed: Annotated[int, Meta(ge=-(2**62), le=2**62)] = 0


class Hello(Message, frozen=True, tag="hello"):
    """A client's first message.

    drafter      the drafter whose server outputs it needs; "none": only tokens
    fingerprint  of that drafter's weights, which must be the same at both ends
    session      the client's lost session, which ends; "": none
    """

    version: int
    token: Name = ""
    drafter: Name = "none"
    fingerprint: Name = ""
    kind: Kind = "bf16"
    session: Name = ""

    def __repr__(self) -> str:
        return f"Hello(version={self.version}, drafter={self.drafter!r})"  # no secrets in logs


class Prefill(Message, frozen=True, tag="prefill"):
    """Read a prompt. have: number of first tokens whose half the client already has."""

    number: Number
    ids: Ids
    capacity: Annotated[int, Meta(ge=1, le=2**21)]
    sampling: Sampled = Sampled()
    have: Number = 0

    @property
    def answers(self) -> int:
        """Number of messages in the answer: the first token, and the shares."""
        return 1 + len(range(self.have, len(self.ids), SHARE))


class Verify(Message, frozen=True, tag="verify"):
    """Verify a draft tree whose root is the token at a position; later tokens are forgotten."""

    number: Number
    position: Number
    tokens: Ids
    parents: Nodes

    def __post_init__(self) -> None:
        fit = len(self.tokens) == len(self.parents) > 0 and self.parents[0] == -1
        if not fit or any(
            not 0 <= parent < node for node, parent in enumerate(self.parents[1:], 1)
        ):
            raise ValueError("the nodes are not a tree")

    @property
    def chain(self) -> bool:
        return all(parent == node for node, parent in enumerate(self.parents, -1))


class Stream(Message, frozen=True, tag="stream"):
    """Decode plainly from the token at a position and push one message per token."""

    number: Number
    position: Number
    token: Id
    count: Annotated[int, Meta(ge=1, le=2**20)]

    @property
    def tokens(self) -> list[int]:
        return [self.token]

    @property
    def answers(self) -> int:
        return self.count  # at most


class Fetch(Message, frozen=True, tag="fetch"):
    """Send the client's part of the target: embeddings, head, norm, the last few layers."""

    last: Annotated[int, Meta(ge=0, le=1024)] = 0


class Welcome(Message, frozen=True, tag="welcome"):
    """The answer to a hello: a new session, which has read nothing."""

    session: str
    target: str
    fingerprint: str  # of the target's shape and tokenizer


class First(Message, frozen=True, tag="first"):
    """The target's choice of the token after the prompt; the prompt's shares follow."""

    number: Number
    token: Id
    prob: Prob
    seconds: Seconds = 0.0  # from the request, or the last push, until it is ready


class Share(Message, frozen=True, tag="share"):
    """The server outputs of some of the prompt's tokens, from `start` on."""

    number: Number
    start: Number
    count: Annotated[int, Meta(ge=1, le=SHARE)]
    half: dict[str, Numbers]


class Answer(Message, frozen=True, tag="answer"):
    """The target's answer to a tree. half: of the root and the accepted nodes."""

    number: Number
    tokens: Ids
    probs: list[Prob]
    drafts: list[Prob]
    half: dict[str, Numbers]
    seconds: Seconds = 0.0


class Pushed(Message, frozen=True, tag="pushed"):
    number: Number
    position: Number
    token: Id
    prob: Prob
    seconds: Seconds = 0.0


class Piece(Message, frozen=True, tag="piece"):
    """A part of a file; an empty name ends all files."""

    name: Name
    data: bytes
    total: Number  # bytes of all files together


class Alive(Message, frozen=True, tag="alive"):
    """The server is still working. May come between two parts of a message."""


class Part(Message, frozen=True, tag="part"):
    """Part of a message too long for one frame, so that a slow link is not silent."""

    data: bytes
    more: bool


class Refused(Message, frozen=True, tag="refused"):
    """A refusal, in one sentence. again: a new session may succeed."""

    reason: str
    again: bool = False


Up = Hello | Prefill | Verify | Stream | Fetch
Down = Welcome | First | Share | Answer | Pushed | Piece | Alive | Part | Refused
_up: msgspec.msgpack.Decoder[Up] = msgspec.msgpack.Decoder(Up)
_down: msgspec.msgpack.Decoder[Down] = msgspec.msgpack.Decoder(Down)
encode = msgspec.msgpack.Encoder().encode


class WireError(Exception):
    """A frame without a valid message."""


def frames(message: Down) -> Iterator[bytes]:
    """The frames of a server's message: one, or parts if it is long."""
    whole = encode(message)
    if len(whole) <= PART or isinstance(message, Piece):  # silence does not count for files
        yield whole
        return
    for start in range(0, len(whole), PART):
        yield encode(Part(whole[start : start + PART], start + PART < len(whole)))


class Joiner:
    def __init__(self) -> None:
        self._parts = bytearray()

    def take(self, frame: bytes | str) -> Down | None:
        """The message that a frame is or completes; None if parts are missing. WireError."""
        message = read_down(frame)
        if not isinstance(message, Part):
            return message
        self._parts += message.data
        if len(self._parts) > MOST_WHOLE:
            raise WireError("the parts have no end")
        if message.more:
            return None
        whole, self._parts = bytes(self._parts), bytearray()
        message = read_down(whole)
        if isinstance(message, Part):
            raise WireError("a part of a part")
        return message


def read_up(frame: bytes | str) -> Up:
    """A client's message, or WireError."""
    return _read(_up, frame)


def read_down(frame: bytes | str) -> Down:
    """A server's message, or WireError."""
    return _read(_down, frame)


def _read(decoder: msgspec.msgpack.Decoder[T], frame: bytes | str) -> T:
    if isinstance(frame, str):
        raise WireError("text where a message was due")
    try:
        return decoder.decode(frame)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise WireError(str(error)) from None


def choices(answer: First | Answer | Pushed, nodes: int, vocabulary: int) -> Choices:
    """The target's choices after each node. UserError if the answer does not fit."""
    if isinstance(answer, Answer):
        found = Choices(tuple(answer.tokens), tuple(answer.probs), tuple(answer.drafts))
    else:
        found = Choices((answer.token,), (answer.prob,), (1.0,))
    if not len(found.tokens) == len(found.probs) == len(found.drafts) == nodes:
        raise UserError("The server sent an answer that does not fit the request.")
    if max(found.tokens) >= vocabulary:
        raise UserError("The server chose a token that its target does not have.")
    return found


def pack(half: ServerOutputs, kind: Kind) -> dict[str, Numbers]:
    packed = {}
    for name, tensor in half.items():
        flat = tensor.detach().cpu().to(TYPES[kind]).contiguous().flatten()
        packed[name] = Numbers(kind, list(tensor.shape), flat.view(torch.uint8).numpy().tobytes())
    return packed


def unpack(half: dict[str, Numbers], dtype: torch.dtype, device: torch.device) -> ServerOutputs:
    unpacked = {}
    for name, numbers in half.items():
        flat = torch.empty(0)
        if numbers.data:
            flat = torch.frombuffer(bytearray(numbers.data), dtype=TYPES[numbers.kind])
        unpacked[name] = flat.reshape(numbers.shape).to(device, dtype)
    return unpacked


def check_half(
    half: Mapping[str, Numbers], shapes: Mapping[str, tuple[int, ...]], kind: Kind
) -> None:
    """UserError unless server outputs have exactly the drafter's tensors for these tokens."""
    for name, shape in shapes.items():
        sent = half.get(name)
        if sent is None or sent.kind != kind or tuple(sent.shape) != shape:
            told = "nothing" if sent is None else f"{sent.shape} in {sent.kind}"
            raise UserError(f"The server sent {told} for {name!r}; {[*shape]} in {kind} was due.")
    if len(half) > len(shapes):
        raise UserError("The server sent more numbers than this drafter takes.")
