"""Manners: chats that can be made again, whose examples are real and whose facts are none."""

import random
import re

import pytest

from moa_core.train.bundle import manners, tasks
from moa_core.train.bundle.manners_data import is_held_out, wordings
from moa_core.train.bundle.prompts import Chat
from moa_core.train.bundle.words import WORDS

LEADS = wordings().rules["lead"]
FORMS = {
    "sum": r"What is|Work out|How much|Calculate|There are|\w+ (?:has|fills)|(?:At f|In th)",
    "list": r"Reverse|Write th|Turn|Say these|Sort|Put these",
    "letters": r"How (?:many|often)|Count",
    "number": r"Say \d|How do you say|What (?:is|number)|Write|Which number|Put this",
    "python": r"Write (?:a one-line|f)|I need a Python",
    "story": r"Write a|Tell me|Use these|Make up|Can you write|Continue|What happens next",
    "say": r"How do you say|Say this|Put this|Translate",
    "reading": r"The \w+|\w+ (?:has|put|lost|gave|was)",
}


def made(count: int, held_out: bool = False, seed: int = 0) -> list[Chat]:
    rng = random.Random(seed)
    return [manners.chats(rng, held_out) for _ in range(count)]


@pytest.fixture(scope="module")
def seen() -> list[Chat]:
    return made(1500)


@pytest.fixture(scope="module")
def held() -> list[Chat]:
    return made(600, held_out=True)


def examples(chats: list[Chat]) -> list[str]:
    """What the replies say after a lead, to the end."""
    leads = "|".join(re.escape(lead) for lead in LEADS)
    replies = (turn["content"] for chat in chats for turn in chat[1::2])
    parts = (re.split(rf"(?:^|(?<=[.!?] ))(?:{leads}) ", reply, maxsplit=1) for reply in replies)
    return [part[1] for part in parts if len(part) == 2]


def test_turns_alternate_and_slots_and_marks_are_gone(seen: list[Chat], held: list[Chat]) -> None:
    assert made(50, seed=3) == made(50, seed=3) != made(50, seed=4)
    for chat in seen + held:
        assert [turn["role"] for turn in chat] == ["user", "assistant"] * (len(chat) // 2)
        for turn in chat:
            assert not re.search(r"\{a? ?[a-z_]+\d?\}", turn["content"]), turn
        # Square brackets are Python's alone.
        assert "[" not in chat[0]["content"] or "def " in chat[0]["content"], chat
    assert not any("  " in turn["content"] for chat in seen for turn in chat[1::2])


def test_every_slot_has_something_to_fill_it() -> None:
    data = wordings()
    known = {*data.rules, *data.things[1], *manners._MADE, "topic"}
    sorts = data.sorts.values()
    lines = [line for sort in sorts for line in (*sort.user[0], *sort.user[1], *sort.reply)]
    lines += [line for sort in sorts for line in sort.topical]
    lines += [line for group in data.offers.values() for line in group]
    lines += [line for group in data.rules.values() for line in group]
    assert {name for line in lines for _, name, _ in manners._SLOT.findall(line)} <= known


def test_held_out_messages_are_new(seen: list[Chat], held: list[Chat]) -> None:
    first = {chat[0]["content"] for chat in seen}
    assert not first & {chat[0]["content"] for chat in held}


def test_every_sort_is_trained_and_nearly_every_one_held_out() -> None:
    sorts = wordings().sorts
    assert all(sort.user[False] for sort in sorts.values())
    assert sum(bool(sort.user[True]) for sort in sorts.values()) > 0.9 * len(sorts)
    templates = [len(sort.user[side]) for side in (True, False) for sort in sorts.values()]
    assert 0.07 < sum(templates[: len(sorts)]) / sum(templates) < 0.13


def test_training_never_names_a_held_out_thing() -> None:
    seen, every = wordings().things
    for name, listed in seen.items():
        assert listed and not any(is_held_out(thing) for thing in listed), name
    assert sum(map(len, seen.values())) < 0.95 * sum(map(len, every.values()))


def test_examples_are_requests_that_the_model_can_meet(seen: list[Chat], held: list[Chat]) -> None:
    found = examples(seen + held)
    assert len(found) > 1000
    for example in found:
        assert any(re.match(form, example) for form in FORMS.values()), example
        assert len(example) < 200


def test_what_is_taken_up_is_answered_rightly() -> None:
    talk = manners._Talk(random.Random(0), held_out=False)
    for kind in tasks.KINDS:
        for _ in range(20):
            offer = talk.example(kind)
            assert offer.answer is not None
            assert tasks.check(tasks.Task(kind, offer.prompt, offer.answer), offer.answer)
            assert not tasks.is_held_out(offer.prompt)
    for _ in range(50):
        said = talk.exchange(answered=True)
        assert (
            said.offer is not None and said.offer.answer and said.reply.endswith(said.offer.prompt)
        )


def test_examples_spell_real_words_only(seen: list[Chat]) -> None:
    """Invented words may be rude by chance, which a reply must not be."""
    asked = r"(?:Count the letter|How often|How many (?:times|letters)) .*?([a-z]+)[.?]$"
    found = [
        re.search(rf"^{asked}|letters.*: ([a-z](?:-[a-z])+)$", text) for text in examples(seen)
    ]
    words = [match[1] or match[2] for match in found if match]
    assert len(words) > 30 and {word.replace("-", "") for word in words} <= {*WORDS}


@pytest.mark.parametrize(
    ("reply", "found"),
    [
        ("I don't know the capital of France. Try: Write a story about Bob and 12 owls.", []),
        ("I speak English and a little Spanish.", []),
        ("The capital of France is Paris.", ["Paris"]),
        ("Paris is lovely.", ["Paris"]),
        ("It has 300 people, and I like France's food.", ["300"]),
        ("I was made by Google in 2020.", ["Google", "2020"]),
    ],
)
def test_claims_finds_made_up_facts(reply: str, found: list[str]) -> None:
    assert manners.claims(reply, "what is the capital of france?") == found


def test_no_reply_claims_anything(seen: list[Chat], held: list[Chat]) -> None:
    single = [chat for chat in seen + held if len(chat) == 2]
    for user, assistant in single:
        assert not manners.claims(assistant["content"], user["content"]), (user, assistant)


def test_nothing_before_is_denied_where_something_was() -> None:
    """No "I see no story here" after a passage, no "this is the start" later on."""
    talk = manners._Talk(random.Random(0), held_out=False)
    first = [line for sort in wordings().sorts.values() if sort.first for line in sort.reply]
    plain = [line for line in first if "{" not in line]
    later = [talk.exchange(first=False).reply for _ in range(600)]
    assert plain and not any(line in reply for line in plain for reply in later)
