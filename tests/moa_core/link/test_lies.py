"""A server that knows how to answer and does not: a sentence, and what was decoded stays."""

from collections.abc import Callable
from math import inf, nan
from typing import Any

import pytest
import torch
from msgspec.structs import replace
from websockets.sync.server import ServerConnection

from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Trace
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.base import Vanilla
from moa_core.errors import UserError
from moa_core.link.client_weights import target_mark
from moa_core.link.remote import Remote
from moa_core.link.session import Limits, Session
from moa_core.link.tensors import Numbers, check_half, pack
from moa_core.link.wire import (
    Answer,
    First,
    Pushed,
    Refused,
    Share,
    Welcome,
    encode,
    frames,
    read_up,
)
from moa_core.train.init import fresh
from tests.moa_core.link.scene import TARGET, answers, drafter_for
from tests.models import plain_greedy, tiny_target
from tests.serving import scripted

PROMPT = [(i * i + 3) % 60 for i in range(20)]  # two shares
GREEDY = plain_greedy(TARGET, PROMPT, 30)
METHODS = ("moa-n0", "eagle2", "glide", "medusa")
NONE = "unknown message"
AFTER = 3  # true messages of a kind before the one that lies
Lie = Callable[[Any], Any]


def decoded(method: str, kind: type, lie: Lie, after: int = AFTER) -> tuple[str, list[int]]:
    """The sentence that a run ends with when one message of a kind lies; its text until then."""
    drafter, count = drafter_for(method), 0
    session = Session("x", TARGET, drafter, "bf16", Limits())

    def script(connection: ServerConnection) -> None:
        nonlocal count
        connection.send(encode(Welcome("x", TARGET.name, target_mark(TARGET))))
        for frame in connection:
            for message in answers(session, read_up(frame)):
                count += isinstance(message, kind)
                lies = isinstance(message, kind) and count == after + 1
                for part in frames(lie(message) if lies else message):
                    connection.send(part)

    trace, settings = Trace(), Settings(30, TreeSettings(3, 2, 6))
    with scripted(script) as address, pytest.raises(UserError) as caught:
        streams = kind is Pushed
        with Remote(address, TARGET, drafter, streams) as remote:
            for _ in trace.record(decode(TARGET, drafter, PROMPT, settings, remote=remote)):
                pass
    told = str(caught.value)
    assert told.startswith("The server ") and "\n" not in told
    return told, trace.output_ids


# ---- numbers ----


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
    "a token more": lambda half: other(half, lambda one: torch.cat([one, one[..., :1, :]], -2)),
    "no token": lambda half: other(half, lambda one: one[..., :0, :]),
    "wider": lambda half: other(half, lambda one: torch.cat([one, one], -1)),
    "turned": lambda half: other(half, lambda one: one.mT),
    "flat": lambda half: other(half, lambda one: one.flatten()),
    "one number": lambda half: other(half, lambda one: one.sum()),
}


@pytest.mark.parametrize("lie", HALVES)
@pytest.mark.parametrize("method", ["moa-n2", "eagle2"])
@torch.inference_mode()
def test_a_half_that_the_drafter_cannot_have_made_is_refused(method: str, lie: str) -> None:
    drafter, count = fresh(method, TARGET, 0), 7
    drafter.serve(TARGET, 64)
    _, seen = TARGET.fork().prefill(PROMPT, 64)
    half = pack(drafter.server_half(seen.part(0, count)), "bf16")
    due = drafter.half_shapes(TARGET, count)
    check_half(half, due, "bf16")
    with pytest.raises(UserError, match=r"was due|more numbers than"):
        check_half(HALVES[lie](half), due, "bf16")


@pytest.mark.parametrize("kind", [Share, Answer])
def test_a_run_ends_at_such_a_half(kind: type) -> None:
    after = AFTER if kind is Answer else 1
    wider = HALVES["wider"]
    told, text = decoded("moa-n2", kind, lambda one: replace(one, half=wider(one.half)), after)
    assert "was due" in told
    assert text == GREEDY[: len(text)]
    # The target's choices came with the numbers that lie, and are shown.
    assert len(text) > after if kind is Answer else len(text) == 1


@pytest.mark.parametrize("method", [*METHODS, "moa-n2", "vanilla"])
@pytest.mark.parametrize(
    "sizes", [{}, {"family": "qwen3", "head_dim": 12}, {"num_key_value_heads": 1}], ids=str
)
@torch.inference_mode()
def test_a_drafter_knows_the_shapes_of_its_half(method: str, sizes: dict[str, Any]) -> None:
    target = tiny_target(**sizes)
    drafter = Vanilla() if method == "vanilla" else fresh(method, target, 0)
    drafter.serve(target, 64)
    _, seen = target.prefill(PROMPT, 64)
    for count in (1, 7, 20):
        half = drafter.server_half(seen.part(0, count))
        assert {name: (*tensor.shape,) for name, tensor in half.items()} == drafter.half_shapes(
            target, count
        )


# ---- choices ----


def last(values: list[Any], value: Any) -> list[Any]:
    return [*values[:-1], value]


CHOICES: dict[str, tuple[type, Lie, str]] = {
    "a token too many": (Answer, lambda one: replace(one, tokens=[*one.tokens, 5]), "than was"),
    "a token too few": (Answer, lambda one: replace(one, tokens=one.tokens[1:]), "than was"),
    "no tokens": (Answer, lambda one: replace(one, tokens=[], probs=[], drafts=[]), "than was"),
    "probabilities too few": (Answer, lambda one: replace(one, probs=[]), "than was"),
    "drafts too many": (Answer, lambda one: replace(one, drafts=one.drafts * 2), "than was"),
    "a token of none": (Answer, lambda one: replace(one, tokens=last(one.tokens, 64)), "not have"),
    "nan": (Answer, lambda one: replace(one, probs=last(one.probs, nan)), NONE),
    "endless": (Answer, lambda one: replace(one, drafts=last(one.drafts, inf)), NONE),
    "below 0": (Answer, lambda one: replace(one, probs=last(one.probs, -0.5)), NONE),
    "no message": (Answer, lambda one: Refused("Too much."), "The server refused: Too much."),
    "no time": (Answer, lambda one: replace(one, seconds=nan), NONE),
    "pushed elsewhere": (Pushed, lambda one: replace(one, position=99), "another place"),
    "pushed twice": (Pushed, lambda one: replace(one, position=one.position - 1), "another place"),
    "pushed nan": (Pushed, lambda one: replace(one, prob=nan), NONE),
}


@pytest.mark.parametrize(("kind", "lie", "words"), CHOICES.values(), ids=CHOICES.keys())
def test_choices_that_do_not_fit_the_question_are_refused(kind: type, lie: Lie, words: str) -> None:
    told, text = decoded("vanilla" if kind is Pushed else "moa-n0", kind, lie)
    assert words in told
    assert len(text) > AFTER and text == GREEDY[: len(text)]


FIRSTS: dict[str, tuple[type, Lie, str]] = {
    "a first choice of none": (First, lambda one: replace(one, prob=2.0), NONE),
    "a token beyond all": (First, lambda one: replace(one, token=2**30), "does not have"),
    "a token just beyond": (First, lambda one: replace(one, token=64), "does not have"),
    "a token below 0": (First, lambda one: replace(one, token=-1), NONE),
    "time below 0": (First, lambda one: replace(one, seconds=-1e9), NONE),
    "an empty share": (Share, lambda one: replace(one, count=0), NONE),
    "a share that skips": (Share, lambda one: replace(one, start=one.start + 1), "not its turn"),
    "a share again": (Share, lambda one: replace(one, start=0), "not its turn"),
    "a share too long": (Share, lambda one: replace(one, count=one.count + 1), "not its turn"),
    "a share too short": (Share, lambda one: replace(one, count=one.count - 1), "was due"),
}


@pytest.mark.parametrize(("kind", "lie", "words"), FIRSTS.values(), ids=FIRSTS.keys())
def test_a_prompt_s_answers_that_do_not_fit_are_refused(kind: type, lie: Lie, words: str) -> None:
    told, text = decoded("moa-n0", kind, lie, after=1 if kind is Share else 0)
    assert words in told and len(text) == (kind is Share)
