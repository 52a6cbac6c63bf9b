"""The target's own text: written by it, saved, read back and mixed with data."""

from pathlib import Path

import pytest

from moa_core.errors import UserError
from moa_core.model.target import Target
from moa_core.text import prompt_ids
from moa_core.train import own_text
from moa_core.train.own_text import Writing, answers, load, mixed, save, write
from moa_core.train.tokenizer import Encoded
from tests.models import plain_greedy, speaking_target

TEXTS = [Encoded([n] * (n + 1), [False] * n + [True]) for n in range(1, 9)]


@pytest.mark.parametrize("texts", [TEXTS, TEXTS[:1]])
def test_what_is_saved_comes_back(tmp_path: Path, texts: list[Encoded]) -> None:
    save(tmp_path / "own.npz", texts)
    assert load(tmp_path / "own.npz") == texts
    assert [path.name for path in tmp_path.iterdir()] == ["own.npz"]


def test_mixing_keeps_all_own_text_and_as_many_tokens_of_data() -> None:
    own = [Encoded([1] * 5, [True] * 5) for _ in range(40)]
    data = [Encoded([2] * 9, [False] * 6 + [True] * 3) for _ in range(500)]
    result = list(mixed(own, iter(data), seed=3))
    tokens = {kind: sum(sum(t.mask) for t in result if t.ids[0] == kind) for kind in (1, 2)}
    assert tokens[1] == 200 and 200 <= tokens[2] < 203
    # Among each other, not one after the other.
    first = [text.ids[0] for text in result[: len(result) // 2]]
    assert 0.3 < first.count(1) / len(first) < 0.7


def test_answers_in_a_batch_are_those_given_alone() -> None:
    """Prompts of other lengths beside it, and the padding they bring, change nothing."""
    target = speaking_target()
    prompts = [prompt_ids(target.tokenizer, text) for text in ("Hi", "The fox ran home.", "A b c")]
    found = answers(target, prompts, 20)
    assert found == [plain_greedy(target, prompt, 20) for prompt in prompts]


def test_answers_end_with_the_end_of_turn() -> None:
    target = speaking_target()
    prompts = [[5], [9, 3, 7]]
    third = answers(target, prompts, 12)[0][2]
    target.tokenizer = type(target.tokenizer)(
        tokenizer_object=target.tokenizer.backend_tokenizer,
        eos_token=target.tokenizer.convert_ids_to_tokens(third),
        pad_token="<|pad|>",
    )
    short = answers(target, prompts, 12)
    assert short[0].index(third) == len(short[0]) - 1 <= 2


def test_writing_goes_on_until_there_is_enough_and_marks_what_the_target_wrote(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, path = speaking_target(), tmp_path / "own.npz"
    asked: list[tuple[int, ...]] = []
    told: list[tuple[int, ...]] = []

    def watched(*arguments: object, **options: object) -> list[list[int]]:
        replies = answers(*arguments, **options)
        asked.extend(map(tuple, arguments[1]))
        told.extend(map(tuple, replies))
        return replies

    monkeypatch.setattr(own_text, "answers", watched)
    write(target, path, 300, Writing(data, rows=2, longest=24))
    texts = load(path)
    assert sum(sum(text.mask) for text in texts) >= 300
    for text, prompt, reply in zip(texts, asked, told, strict=True):
        assert tuple(text.ids) == prompt + reply
        assert text.mask == [False] * len(prompt) + [True] * len(reply)
    before = path.read_bytes()
    write(target, path, 10_000, Writing(data, seed=5))
    assert path.read_bytes() == before


def test_writing_goes_on_where_it_was_cut_off(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, writing = speaking_target(), Writing(data, rows=2, longest=24)
    monkeypatch.setattr(own_text, "PART", 100)
    write(target, tmp_path / "whole.npz", 250, writing)
    cut = tmp_path / "cut.npz"
    part, made = own_text._part, []

    def cut_off(target: Target, number: int, *rest: object) -> list[Encoded]:
        made.append(number)
        if made == [0, 1]:
            raise KeyboardInterrupt
        return part(target, number, *rest)

    monkeypatch.setattr(own_text, "_part", cut_off)
    with pytest.raises(KeyboardInterrupt):
        write(target, cut, 250, writing)
    write(target, cut, 250, writing)
    assert made == [0, 1, 1, 2] and load(cut) == load(tmp_path / "whole.npz")
    assert sorted(path.name for path in tmp_path.glob("*.npz")) == ["cut.npz", "whole.npz"]


def test_a_target_with_no_room_for_a_prompt_gets_a_sentence(data: Path, tmp_path: Path) -> None:
    (data / "talks.jsonl").unlink()
    target = speaking_target(max_position_embeddings=64)
    long = " ".join((data / "texts.txt").read_text().split())
    (data / "texts.txt").write_text(long.replace("<|endoftext|>", ""))
    with pytest.raises(UserError, match=r"reads 64 tokens, a prompt .* leave out --own-tokens"):
        write(target, tmp_path / "own.npz", 200, Writing(data, rows=2))
