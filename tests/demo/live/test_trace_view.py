"""Events in, lines of JSON out: what the page is told of cycles, and of what was written alone."""

from dataclasses import replace

import pytest

from demo.common.tokens.view import Feed, Healing, paced
from moa_core.decoding.trace import (
    Drafted,
    Finished,
    LinkBack,
    LinkDown,
    OfflineToken,
    Prefilled,
    Trace,
    Verified,
)
from moa_core.decoding.tree import DraftTree
from moa_core.text import RecordedText, TokenText, record_words
from tests.models import made_tokenizer

ROOT = 3  # tokens of the prompt: the first new token stands there


def verified(cycle, emitted, nodes=9):
    """A verification, over a link, that accepted all but the last of what it emits.

    nodes  of its tree; more than any of these has where it is not read
    """
    path, half = tuple(range(1, len(emitted))), (0.5,) * nodes
    return Verified(
        cycle, path, emitted[-1], (0,) * nodes, half, half, tuple(emitted), 0.01, 0.001, 0.06, 100,
        2000,
    )  # fmt: skip


def drafted(cycle, position, tokens, offline=False):
    tree = DraftTree.chain(1, list(tokens), [-0.1] * len(tokens))
    return Drafted(cycle, position, tree, 0.005, None, offline, 5000)


def written(first, tokens):
    """What the drafter wrote alone from a position on."""
    return [OfflineToken(first + at, token, 0.8, 0.002) for at, token in enumerate(tokens)]


# The prompt of three tokens and a first cycle that gains 10 and 11, after token 1.
BEGUN = [
    Prefilled((7, 8, 9), 1, 0.5, 0.2, 0.06, 300, 150),
    drafted(0, ROOT, [10, 12]), verified(0, [10, 11], 3),
]  # fmt: skip
CUT = [*BEGUN, drafted(1, 5, [50]), LinkDown(1.2)]
# Alone it wrote 20 to 24. The old question's answer is 20; of the rest 21 is confirmed, and 30
# stands where 22 was.
HEALED = [
    *CUT, *written(6, [20, 21, 22, 23, 24]), LinkBack(3.0, 5), verified(1, [20], 2),
    drafted(2, 6, [21, 22, 23, 24], offline=True), verified(2, [21, 30], 5),
    Finished("length", {"prefill": 0.3, "draft": 0.1, "verify": 0.03, "network": 4.4,
                        "other": 0.003}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("course", "became", "waiting"),  # confirmed, changed, dropped
    [
        (HEALED, (2, 3, 0), []),
        # The link stays lost.
        ([*CUT, *written(6, [20, 21]), Finished("offline", {"network": 9.0})], (0, 0, 0),
         [20, 21]),
        # An answer that differs at once; text that ends before the answer.
        ([*BEGUN, *written(6, [20, 21]), verified(1, [40, 41, 42])], (0, 2, 0), []),
        ([*BEGUN, *written(6, [20, 21]), verified(1, [20, 21, 22])], (2, 0, 0), []),
        # After a second loss the drafter may go on or begin anew.
        ([*written(6, [20, 21]), LinkDown(1), *written(8, [22])], (0, 0, 0), [20, 21, 22]),
        ([*written(6, [20, 21, 22]), verified(1, [20]), *written(7, [21])], (1, 0, 0), [21]),
        # What was not verified before Stop goes.
        ([*BEGUN, *written(6, [20, 21, 22]), verified(1, [20]), Finished("stopped")],
         (1, 0, 2), []),
    ],
)  # fmt: skip
def test_what_becomes_of_offline_tokens(course, became, waiting):
    healing = Healing()
    found = [healing.add(event) for event in course]
    kinds = ("confirmed", "changed", "dropped")
    assert tuple(sum(one.get(kind, 0) for one in found) for kind in kinds) == became
    assert [one.token for one in healing.waiting] == waiting


WORDS = ["the", " cat", " sat", " ran", " down", "."]


@pytest.fixture(scope="module")
def tokenizer():
    made = made_tokenizer(["the cat sat ran down."] * 3, 400)
    assert [made.encode(word) for word in WORDS] == [[made.encode(word)[0]] for word in WORDS]
    return made


@pytest.fixture(scope="module")
def ids(tokenizer):
    return {word: tokenizer.encode(word)[0] for word in WORDS}


def cycle_of(ids, path, bonus, emitted):
    """Of a tree: the -> { cat -> { sat -> ., ran }, down }."""
    odds = (0, -0.1, -0.5, -1, -2, -0.7)
    tree = DraftTree(tuple(ids.values()), (-1, 0, 1, 1, 0, 2), (0, 1, 2, 2, 1, 3), odds)
    verified = Verified(
        0, path, ids[bonus], (ids[bonus],) * len(tree), (0.7,) * len(tree),
        (1, 0.6, 0.3, 0.2, 0.1, 0.05), tuple(ids[word] for word in emitted), 0.02, 0.001,
    )  # fmt: skip
    return [Drafted(0, 4, tree, 0.01), verified]


def lines_of(tokenizer, events):
    feed = Feed(TokenText(tokenizer), "drafter")
    return [line for event in events for line in feed.lines([event])]


def test_a_cycle_shows_accepted_rejected_bonus_and_counts_the_rest(tokenizer, ids):
    [line] = lines_of(tokenizer, cycle_of(ids, (1,), " ran", (" cat", " ran")))
    assert line["lane"] == "drafter" and line["s"] == 0.031 and line["ms"] == [10, 20, 1]
    assert line["accepted"] == [[" cat", 0.9048, 0.6, 0]]
    assert line["bonus"] == [" ran", None, 0.7, 0]
    assert line["at"] == 4
    tree = line["tree"]
    assert tree["texts"] == WORDS
    assert (tree["parents"], tree["path"]) == ((-1, 0, 1, 1, 0, 2), (1,))
    assert tree["draft"][1:3] == [9048, 6703] and tree["target"][:3] == [10_000, 6000, 3000]
    assert tree["bonus"] == [" ran", 7000] and tree["special"] == []


def test_first_token_and_ending_and_a_cycle_cut_short_has_no_bonus(tokenizer, ids):
    begins = Prefilled((1, 2, 3), ids["the"], 0.5, 0.25)
    events = [begins, *cycle_of(ids, (1, 2), "the", (" cat",)), Finished("stopped")]
    first, line, end = lines_of(tokenizer, events)
    assert first["first"] == ["the", None, 0.5, 0] and first["at"] == 3 and end["end"] == "stopped"
    assert [token[0] for token in line["accepted"]] == [" cat"]
    assert line["bonus"] is None


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


def renamed(event, known):
    match event:
        case Prefilled() | OfflineToken():
            return replace(event, token=known(event.token))
        case Drafted():
            tokens = tuple(map(known, event.tree.tokens))
            return replace(event, tree=replace(event.tree, tokens=tokens))
        case Verified():
            return replace(event, emitted=tuple(map(known, event.emitted)))
    return event


def test_offline_tokens_come_as_they_are_written_and_are_healed(tokenizer, ids):
    words = {1: "the", 10: " cat", 11: " sat", 12: " ran", 20: " down", 21: ".", 22: " ran"}
    known = {number: ids[word] for number, word in words.items()}
    told = [renamed(event, lambda number: known.get(number, ids["the"])) for event in HEALED]
    lines = lines_of(tokenizer, told)
    [down] = [line for line in lines if "down" in line]
    assert down["down"] == 1.2
    alone = [line for line in lines if "offline" in line]
    assert [line["at"] for line in alone] == [6, 7, 8, 9, 10]
    assert alone[0]["offline"] == [" down", 0.8, None, 0]
    _, first, second = [line for line in lines if "cycle" in line]
    assert first["confirmed"] == 1 and "changed" not in first
    assert (second["confirmed"], second["changed"]) == (1, 3)
    # What was drafted had been written alone: it is changed, not rejected, and keeps its odds.
    assert second["tree"] is None
    assert second["accepted"] == [[".", 0.8, 0.5, 0]]


def test_characters_that_are_written_alone_come_whole_and_leave_the_text_as_it_was(tokenizer):
    one, two = tokenizer.encode("ö")
    events = [
        Prefilled((1,), one, 0.5, 0.1), Drafted(0, 1, DraftTree.only_root(one), 0.0),
        LinkDown(1.0), OfflineToken(2, two, 0.9, 0.0), LinkBack(1.0, 1),
        Verified(0, (), two, (two,), (0.9,), (1,), (two,), 0, 0),
    ]  # fmt: skip
    lines = lines_of(tokenizer, events)
    assert [line["offline"][0] for line in lines if "offline" in line] == ["ö"]
    assert [line["bonus"][0] for line in lines if "cycle" in line] == ["ö"]


def test_a_recorded_run_over_a_link_is_shown_without_its_tokenizer(tokenizer, ids):
    trace = Trace({}, [renamed(event, lambda number: 200 + number) for event in HEALED])
    record_words(trace, tokenizer)
    again = Trace.from_json(trace.to_json())
    live, recorded = (Feed(text, "") for text in (TokenText(tokenizer), RecordedText(again)))
    assert recorded.lines(again.events) == live.lines(trace.events)
