"""Private spans: what is hidden, what a server guesses, and what hiding changes."""

import json
from pathlib import Path

import pytest
import torch

from moa_core.bench import spans
from moa_core.bench.spans import answer, common, experiment, guess, hide, private_places
from moa_core.target import Target
from moa_core.text import prompt_ids
from tests.models import plain_greedy, speaking_target, useful


@pytest.fixture(scope="module")
def target() -> Target:
    return speaking_target()


def prompts(target: Target) -> list[list[int]]:
    texts = ("The fox ran home.", "The cat sat on the mat.", "What is 3 + 4?")
    return [prompt_ids(target.tokenizer, text) for text in texts]


def test_a_fifth_of_the_words_is_private_and_never_a_special_token(target: Target) -> None:
    special = set(target.tokenizer.all_special_ids)
    for seed, ids in enumerate(prompts(target) * 3):
        places = private_places(ids, target, seed)
        words = sum(token not in special for token in ids[1:])
        assert 0.2 * words <= len(places) <= 0.2 * words + spans.LONGEST
        assert places == sorted(set(places)) and not special & {ids[place] for place in places}
        assert places == private_places(ids, target, seed)


def test_without_noise_nothing_is_hidden_and_with_much_of_it_all_is(target: Target) -> None:
    right = {}
    for noise in (0.01, 50.0):
        hits = []
        for seed, ids in enumerate(prompts(target)):
            places = private_places(ids, target, seed)
            hidden = hide(ids, places, target, noise)
            found = guess(ids, places, hidden, target, noise)
            hits += [ids[place] == token for place, token in zip(places, found, strict=True)]
        right[noise] = sum(hits) / len(hits)
    assert right[0.01] == 1 and right[50.0] < 0.5


def test_a_placeholder_is_the_same_whatever_it_stands_for(target: Target) -> None:
    ids = prompts(target)[1]
    hidden = hide(ids, [2, 4, 5], target, None)
    assert hidden.shape == (3, target.config.hidden_size)
    assert torch.equal(hidden[0], hidden[1]) and torch.equal(hidden[0], hidden[2])


def test_the_target_answers_what_it_sees_and_the_drafter_reads_what_is_there(
    target: Target,
) -> None:
    ids, places = prompts(target)[1], [4, 5, 6]
    veiled = target.fork()
    other = [token if place not in places else 7 for place, token in enumerate(ids)]
    veiled.embed = spans.Veil(target.embed, places, target.embed.weight[7].expand(3, -1), len(ids))
    trace = answer(target, useful("moa-n1", target), ids, 20, veiled)
    assert trace.output_ids == plain_greedy(target, other, 20)
    assert trace.of(spans.Trace) == [] and trace.events[0].prompt_ids == tuple(ids)


def test_every_way_of_hiding_is_measured_for_every_drafter(target: Target) -> None:
    rows = list(experiment(target, [useful("moa-n0", target)], prompts(target), 12))
    assert [row.hiding for row in rows][:2] == ["open", "placeholder"] and len(rows) == 7
    assert rows[0].kept == rows[0].same == 1 and rows[0].guessed is None
    assert all(0 <= row.kept <= 1 and 0 <= row.guessed <= 1 for row in rows[1:])
    assert all(row.tau >= 1 for row in rows)


def test_what_two_texts_begin_with() -> None:
    assert common([1, 2, 3], [1, 2, 4]) == 2
    assert common([1, 2], [1, 2, 4]) == 2 and common([], [1]) == 0


def test_the_recorded_experiment_is_one() -> None:
    path = Path(spans.__file__).parents[2] / "assets" / "results" / "spans.json"
    data = json.loads(path.read_text())
    assert data["prompts"] >= 20
    assert {row["method"] for row in data["rows"]} == set(spans.METHODS)


def test_the_command_prints_a_table_and_writes_its_rows(
    bundle: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(spans, "METHODS", ("moa-n1",))
    words = ["spans", "--limit", "1", "--max-new-tokens", "6", "--threads", "1"]
    monkeypatch.setattr("sys.argv", [*words, "--out", str(tmp_path / "rows.json")])
    spans.main()
    written = json.loads((tmp_path / "rows.json").read_text())
    assert written["prompts"] > 0
    hidings = [row["hiding"] for row in written["rows"]]
    table = capsys.readouterr().out.splitlines()[-len(hidings) :]
    assert [line[:12].strip() for line in table] == hidings and len(hidings) == 7
