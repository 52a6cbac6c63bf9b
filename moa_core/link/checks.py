"""What a client takes from a server: its word is no better than a stranger's. UserError if not."""

from __future__ import annotations

from collections.abc import Mapping

from moa_core.decoding.verify import Choices
from moa_core.errors import UserError
from moa_core.link.numbers import Kind, Numbers
from moa_core.link.wire import Answer, First, Pushed


def choices(answer: First | Answer | Pushed, nodes: int, vocabulary: int) -> Choices:
    """What the target chose after each of so many nodes."""
    if isinstance(answer, Answer):
        found = Choices(tuple(answer.tokens), tuple(answer.probs), tuple(answer.drafts))
    else:
        found = Choices((answer.token,), (answer.prob,), (1.0,))
    if not len(found.tokens) == len(found.probs) == len(found.drafts) == nodes:
        raise UserError("The server answered something else than was asked.")
    if max(found.tokens) >= vocabulary:
        raise UserError("The server chose a token that its target does not have.")
    return found


def check_half(
    half: Mapping[str, Numbers], shapes: Mapping[str, tuple[int, ...]], kind: Kind
) -> None:
    """A server half must be what the drafter makes of these tokens: its tensors and no others."""
    for name, shape in shapes.items():
        sent = half.get(name)
        if sent is None or sent.kind != kind or tuple(sent.shape) != shape:
            told = "nothing" if sent is None else f"{sent.shape} in {sent.kind}"
            raise UserError(f"The server sent {told} for {name!r}; {[*shape]} in {kind} was due.")
    if len(half) > len(shapes):
        raise UserError("The server sent more numbers than this drafter takes.")
