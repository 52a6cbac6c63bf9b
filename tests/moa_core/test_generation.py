"""Prompts become ids, and ids growing text: nothing lost or added."""

import pytest
import torch

from moa_core import Piece, Settings, TreeSettings, UserError, generate
from moa_core.decoding.trace import OfflineToken
from moa_core.drafters.base import Vanilla
from moa_core.model.target import Target
from tests.moa_core.decoding.test_offline import Flaky
from tests.models import drafter_of, tiny_target, traced, useful

PROMPT = "The fox ran"
TREE = TreeSettings(3, 2, 6)
METHODS = ("vanilla", "moa-n0", "moa-n1", "eagle2")


def pieces(target: Target, method: str, settings: Settings, **more: object) -> list[Piece]:
    return list(generate(target, drafter_of(method, target), PROMPT, settings, **more))


def text(found: list[Piece]) -> str:
    return "".join(piece.text for piece in found)


@pytest.mark.parametrize("method", METHODS)
def test_pieces_are_what_decode_says(target, method):
    settings = Settings(40, TREE, eos_ids=())
    found = pieces(target, method, settings)
    trace = found[-1].trace
    assert trace is not None and found[-1].reason == trace.reason == "length"
    ids = trace.events[0].prompt_ids
    plain = traced(target, method, ids, max_new_tokens=40, tree=TREE)
    assert plain.output_ids == trace.output_ids
    assert text(found) == target.tokenizer.decode(plain.output_ids, skip_special_tokens=True)
    assert found[0].bonus.id == plain.output_ids[0] and not found[0].accepted
    for piece, (drafted, verified) in zip(found[1:-1], plain.cycles, strict=True):
        tokens = drafted.tree.tokens
        gained = [*piece.accepted, *([piece.bonus] if piece.bonus else [])]
        assert tuple(token.id for token in gained) == verified.emitted
        wrong = [tokens[node] for node in range(1, len(tokens)) if node not in verified.path]
        assert [token.id for token in piece.rejected] == wrong
        assert all(token.text == target.tokenizer.decode(token.id) for token in piece.rejected)
    assert found[-1].tau == plain.tau and found[-1].tokens_per_second > 0
    assert all(piece.tau is None and piece.reason is None for piece in found[:-1])
    assert method == "vanilla" or any(piece.rejected and piece.accepted for piece in found)


def test_a_message_a_chat_and_ids_are_the_same_prompt(target):
    chat = [{"role": "user", "content": PROMPT}]
    first = pieces(target, "moa-n0", Settings(12, TREE))[-1].trace
    for prompt in (chat, first.events[0].prompt_ids):
        *_, last = generate(target, useful("moa-n0", target), prompt, Settings(12, TREE))
        assert last.trace.output_ids == first.output_ids


def test_it_ends_where_the_model_ends(target):
    """Unless it is told to go on; in `decode`, too."""
    twin = target.fork()
    forever = Settings(40, TREE, eos_ids=())
    whole = pieces(twin, "moa-n1", forever)[-1].trace
    end = whole.output_ids[20]
    twin.eos_ids = (end,)
    kept = whole.output_ids[: whole.output_ids.index(end) + 1]
    *_, last = generate(twin, useful("moa-n1", twin), PROMPT)
    assert last.trace.output_ids == kept and last.reason == "eos"
    assert last.trace.about["settings"]["eos_ids"] == (end,)
    assert last.trace.about["settings"]["tree"]["auto"]
    ids = whole.events[0].prompt_ids
    assert traced(twin, "moa-n1", ids, max_new_tokens=40).output_ids == kept
    assert pieces(twin, "moa-n1", forever)[-1].trace.output_ids == whole.output_ids


def test_without_a_tokenizer_there_are_ids_and_it_stops_when_it_is_told_to():
    target, found = tiny_target(), []
    prompt, enough = [5, 9, 33], lambda: len(found) > 2
    drafter = useful("moa-n0", target)
    found.extend(generate(target, drafter, prompt, Settings(40, TREE), should_stop=enough))
    assert len(found) == 4 and found[-1].reason == "stopped"
    assert text(found) == "" and found[0].bonus.id == found[-1].trace.output_ids[0]


NO_PROMPTS = (5, ["a"], [1.5], {"role": "user", "content": "x"}, torch.tensor([[1, 2]]))


def test_mistakes_are_told_before_the_first_piece(target):
    drafter = Vanilla()
    silent = tiny_target()
    for run, words in (
        (generate(target, drafter, ""), "prompt is empty"),
        (generate(target, drafter, []), "prompt is empty"),
        *((generate(target, drafter, odd), "A prompt is a text, a chat") for odd in NO_PROMPTS),
        (generate(target, drafter, torch.tensor([99_999])), "outside the target's vocabulary"),
        (generate(silent, drafter, PROMPT), "has no tokenizer"),
    ):
        with pytest.raises(UserError, match=words):
            next(run)


@pytest.mark.parametrize("away", [9, 10_000], ids=["back", "lost"])
def test_text_written_offline_is_shown_once(target, away):
    """With the cycle that verifies it, or at the end where the link stays lost."""
    here, drafter = target.fork(), useful("moa-n1", target)
    flaky = Flaky(here, drafter, {4: (False, away)})
    settings = Settings(30, TREE, eos_ids=(), patience=0.0 if away > 9 else 9.0)
    found = list(generate(here, drafter, PROMPT, settings, remote=flaky))
    trace = found[-1].trace
    assert found[-1].reason == ("length" if away == 9 else "offline")
    assert bool(trace.offline_ids) == (away > 9)
    assert text(found) == target.tokenizer.decode(trace.output_ids, skip_special_tokens=True)
    assert trace.of(OfflineToken)
