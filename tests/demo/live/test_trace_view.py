"""Events in, lines of JSON out: what the page is told of cycles, and of what was written alone."""

import json

import pytest

from demo.common.offline import Healing
from demo.common.tokens.view import Feed, paced
from moa_core.decoding.trace import (
    Drafted,
    Finished,
    LinkBack,
    LinkDown,
    OfflineToken,
    Prefilled,
    Verified,
)
from moa_core.decoding.tree import DraftTree
from moa_core.text import TokenText
from moa_core.train.tokenizer import train_tokenizer


def verified(emitted, kept=False):
    """A verification that accepted all but the last of what it emits."""
    path, probs = tuple(range(1, len(emitted))), (0.5,) * 9
    return Verified(
        1, path, emitted[-1], (0,) * 9, probs, probs, tuple(emitted), 0.01, 0.001, kept=kept
    )


def written(first, tokens):
    """What the drafter wrote alone from a position on."""
    return [OfflineToken(first + at, token, 0.8, 0.002) for at, token in enumerate(tokens)]


@pytest.mark.parametrize(
    ("events", "counts", "waiting"),
    [
        # The old question's answer is 20; of the rest 21 is confirmed, and 30 stands where 22 was.
        ([LinkDown(1), *written(6, [20, 21, 22, 23, 24]), LinkBack(3, 5), verified([20]),
          verified([21, 30])], (2, 3, 0), []),
        # It stays, as after a link that came back in time; the link stays lost.
        ([*written(6, [20, 21]), verified([20, 21, 30], kept=True)], (0, 0, 2), []),
        ([*written(6, [20, 21]), Finished("offline")], (0, 0, 0), [20, 21]),
        # An answer that differs at once; text that ends before the answer.
        ([*written(6, [20, 21]), verified([40, 41, 42])], (0, 2, 0), []),
        ([*written(6, [20, 21]), verified([20, 21, 22])], (2, 0, 0), []),
        # After a second loss the drafter may go on or begin anew.
        ([*written(6, [20, 21]), LinkDown(1), *written(8, [22])], (0, 0, 0), [20, 21, 22]),
        ([*written(6, [20, 21, 22]), verified([20]), *written(7, [21])], (1, 0, 0), [21]),
        # What was not verified before Stop goes.
        ([*written(6, [20, 21, 22]), verified([20]), Finished("stopped")], (1, 0, 0), []),
    ],
)  # fmt: skip
def test_what_becomes_of_offline_tokens(events, counts, waiting):
    healing = Healing()
    found = [healing.add(event) for event in events]
    kinds = ("confirmed", "changed", "kept")
    assert tuple(sum(getattr(one, kind) for one in found) for kind in kinds) == counts
    assert [one.token for one in healing.waiting] == waiting
    dropped = sum(one.dropped for one in found)
    assert dropped == (2 if events[-1] == Finished("stopped") else 0)


WORDS = ["the", " cat", " sat", " ran", " down", "."]


@pytest.fixture(scope="module")
def tokenizer():
    made = train_tokenizer(iter(["the cat sat ran down."] * 3), 400)
    assert [made.encode(word) for word in WORDS] == [[made.encode(word)[0]] for word in WORDS]
    return made


@pytest.fixture
def ids(tokenizer):
    return {word: tokenizer.encode(word)[0] for word in WORDS}


def tree_of(ids):
    """the -> { cat -> { sat -> ., ran }, down }, with likelihoods in that order."""
    tokens = tuple(ids[word] for word in ("the", " cat", " sat", " ran", " down", "."))
    return DraftTree(tokens, (-1, 0, 1, 1, 0, 2), (0, 1, 2, 2, 1, 3), (0, -0.1, -0.5, -1, -2, -0.7))


def cycle_of(ids, path, bonus, emitted):
    tree = tree_of(ids)
    verified = Verified(
        0, path, bonus, (bonus,) * len(tree), (0.7,) * len(tree),
        (1, 0.6, 0.3, 0.2, 0.1, 0.05), emitted, 0.02, 0.001,
    )  # fmt: skip
    return [Drafted(0, 4, tree, 0.01), verified]


def lines_of(tokenizer, events):
    feed = Feed("r1", TokenText(tokenizer))
    feed.add(events)
    return [json.loads(line) for line in feed.ndjson.split("\n") if line]


def test_a_cycle_shows_accepted_rejected_bonus_and_counts_the_rest(tokenizer, ids):
    events = cycle_of(ids, (1,), ids[" ran"], (ids[" cat"], ids[" ran"]))
    run, line = lines_of(tokenizer, events)
    assert run == {"run": "r1", "by": "", "from": 0}
    assert line["accepted"] == [[" cat", 0.9048, 0.6, 0]]
    assert line["bonus"] == [" ran", None, 0.7, 0]
    assert (line["at"], line["branch"], line["after"]) == (4, [2, 5], 1)
    tree = line["tree"]
    assert tree["texts"] == ["the", " cat", " sat", " ran", " down", "."]
    assert (tree["parents"], tree["path"]) == ([-1, 0, 1, 1, 0, 2], [1])
    assert tree["draft"][1:3] == [9048, 6703] and tree["target"][:3] == [10_000, 6000, 3000]
    assert tree["bonus"] == [" ran", 7000] and tree["special"] == []


def test_first_token_and_ending(tokenizer, ids):
    events = [Prefilled((1, 2, 3), ids["the"], 0.5, 0.25)]
    events += cycle_of(ids, (1,), ids["."], (ids[" cat"], ids["."]))
    _, first, _, end = lines_of(tokenizer, [*events, Finished("stopped")])
    assert first == {"first": ["the", None, 0.5, 0], "at": 3} and end["end"] == "stopped"


def test_pacing_keeps_every_event_and_sends_the_first_at_once():
    now = [0.0]

    def events():
        for number in range(10):
            yield number
            now[0] += 0.03

    batches = list(paced(events(), 0.1, lambda: now[0]))
    assert batches[0] == [0]
    assert [event for batch in batches for event in batch] == list(range(10))
    assert len(batches) < 6


def test_characters_that_are_written_alone_come_whole_and_leave_the_text_as_it_was(tokenizer):
    one, two = tokenizer.encode("ö")
    events = [
        Prefilled((1,), one, 0.5, 0.1), Drafted(0, 1, DraftTree.only_root(one), 0.0),
        LinkDown(1.0), OfflineToken(2, two, 0.9, 0.0), LinkBack(1.0, 1),
        Verified(0, (), two, (two,), (0.9,), (1,), (two,), 0, 0),
    ]  # fmt: skip
    feed = Feed("r1", TokenText(tokenizer))
    feed.add(events)
    lines = [json.loads(line) for line in feed.ndjson.split("\n") if line]
    assert [line["offline"][0] for line in lines if "offline" in line] == ["ö"]
    assert [line["bonus"][0] for line in lines if "cycle" in line] == ["ö"]
