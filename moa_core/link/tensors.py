"""Tensors in messages: raw bytes with a shape and a kind, checked when they are read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Literal

import torch
from msgspec import Meta, Struct

from moa_core.drafters.base import ServerHalf
from moa_core.errors import UserError

MOST_WHOLE = 1 << 28  # bytes of a message to the client that comes in parts
Kind = Literal["f32", "bf16"]
TYPES: dict[Kind, torch.dtype] = {"f32": torch.float32, "bf16": torch.bfloat16}
Shape = Annotated[list[Annotated[int, Meta(ge=0, le=2**24)]], Meta(max_length=6)]


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


def pack(half: ServerHalf, kind: Kind) -> dict[str, Numbers]:
    """A server half in the format of messages."""
    packed = {}
    for name, tensor in half.items():
        flat = tensor.detach().cpu().to(TYPES[kind]).contiguous().flatten()
        packed[name] = Numbers(kind, list(tensor.shape), flat.view(torch.uint8).numpy().tobytes())
    return packed


def unpack(half: dict[str, Numbers], dtype: torch.dtype, device: torch.device) -> ServerHalf:
    """A server half in the format of drafters."""
    unpacked = {}
    for name, numbers in half.items():
        flat = torch.empty(0)
        if numbers.data:
            flat = torch.frombuffer(bytearray(numbers.data), dtype=TYPES[numbers.kind])
        unpacked[name] = flat.reshape(numbers.shape).to(device, dtype)
    return unpacked


def check_kind(kind: str) -> Kind:
    """UserError for an unknown number format."""
    for known in TYPES:
        if kind == known:
            return known
    raise UserError(f"Numbers travel as {', '.join(TYPES)}, not as {kind!r}.")


def check_half(
    half: Mapping[str, Numbers], shapes: Mapping[str, tuple[int, ...]], kind: Kind
) -> None:
    """UserError unless a server half has exactly the drafter's tensors for these tokens."""
    for name, shape in shapes.items():
        sent = half.get(name)
        if sent is None or sent.kind != kind or tuple(sent.shape) != shape:
            told = "nothing" if sent is None else f"{sent.shape} in {sent.kind}"
            raise UserError(f"The server sent {told} for {name!r}; {[*shape]} in {kind} was due.")
    if len(half) > len(shapes):
        raise UserError("The server sent more numbers than this drafter takes.")
