"""The small world: what is told is well formed, true to the log, varied, and the same again."""

import random
import re
from collections import Counter

import pytest

from moa_core.train.bundle import world
from moa_core.train.bundle.world.grammar import parse
from moa_core.train.bundle.world.lexicon import lexicon
from moa_core.train.bundle.world.plots import PLOTS
from moa_core.train.bundle.world.teller import section
from moa_core.train.bundle.world.world import World

KINDS = ("story", "words", "continued", "reading", "talk")
_FAULT = re.compile(r"[{}\[\]|~]|  |\.\.|[!?,][.,]| [.,!?]|\b[Aa] (?!(?:one|uni|use)\w*)[aeio]\w")


@pytest.fixture(scope="module")
def stories() -> list[world.Story]:
    return [world.tell(random.Random(seed)) for seed in range(400)]


def _words(text: str) -> list[str]:
    return re.findall(r"[\w']+", text.lower())


def _runs(text: str, length: int) -> list[str]:
    words = _words(text)
    return [" ".join(words[i : i + length]) for i in range(len(words) - length + 1)]


@pytest.mark.parametrize("draws", [300, pytest.param(2_000, marks=pytest.mark.slow)])
def test_all_given_words_are_used_in_their_form(draws: int) -> None:
    for seed in range(draws):
        rng = random.Random(seed)
        words = world.words_for(rng)
        text = world.tell(rng, words).text
        missing = [word for word in words if not re.search(rf"(?i)(?<!\w){word}(?!\w)", text)]
        assert not missing, f"{missing} not in: {text}"


@pytest.mark.parametrize("word", ["boat", "storm", "brave", "lantern", "river", "jump", "grandma"])
def test_any_single_word_fits_in(word: str) -> None:
    for seed in range(20):
        assert word in world.tell(random.Random(seed), (word,)).text.lower()


def test_texts_are_well_formed(stories: list[world.Story]) -> None:
    for story in stories:
        for text in (story.text, story.title, *story.clauses):
            fault = _FAULT.search(text)
            assert not fault, f"{fault} in: {text}"
            assert text.count('"') % 2 == 0, text
        assert story.text[0].isupper() or story.text[0] == '"', story.text
        assert story.text.endswith((".", "!", "?", '"')), story.text


def test_no_story_says_a_run_of_words_twice(stories: list[world.Story]) -> None:
    for story in stories:
        twice = [run for run, count in Counter(_runs(story.text, 8)).items() if count > 1]
        assert not twice, f"{twice} in: {story.text}"


def test_answers_are_in_the_story(stories: list[world.Story]) -> None:
    known = lexicon()
    names = {name for key in ("he", "she", "animal_he", "animal_she") for name in known.names[key]}
    for story in stories:
        told = set(re.findall(r"\w+", story.text.lower()))
        for question in story.questions:
            nouns = known.nouns.keys() - {"story"} if question.kind == "who" else set[str]()
            keys = set(re.findall(r"\w+", question.answer)) & (names | nouns)
            keys -= set(re.findall(r"\w+", question.question))
            assert {key.lower() for key in keys} <= told, (question, story.text)


def test_nearly_every_story_has_questions(stories: list[world.Story]) -> None:
    told_of = [story for story in stories if story.hero]
    assert sum(len(story.questions) >= 3 for story in told_of) > 0.97 * len(told_of)
    for story in stories:
        asked = [question.question for question in story.questions]
        assert len(set(asked)) == len(asked), asked


def test_stories_differ(stories: list[world.Story]) -> None:
    assert len({story.text.split(".")[0] for story in stories}) > 0.7 * len(stories)
    shares = Counter(run for story in stories for run in set(_runs(story.text, 8)))
    often = [(run, count) for run, count in shares.items() if count > 0.04 * len(stories)]
    assert not often, often
    lengths = sorted(len(story.text.split()) for story in stories)
    assert lengths[len(lengths) // 20] < 115
    assert lengths[-len(lengths) // 20] > 190


def test_openings_end_between_sentences(stories: list[world.Story]) -> None:
    for story in stories:
        for end in story.opening_ends:
            assert story.text[:end].count('"') % 2 == 0
            assert story.text[end].isspace()


@pytest.mark.parametrize("kind", KINDS)
def test_chats_alternate_and_are_the_same_again(kind: str) -> None:
    for seed in range(100):
        chat = world.chats(kind, random.Random(seed))
        assert chat == world.chats(kind, random.Random(seed))
        roles = [message["role"] for message in chat]
        assert roles == ["user", "assistant"] * (len(chat) // 2)
        assert all(message["content"].strip() for message in chat)


def test_every_plot_has_all_its_wordings() -> None:
    for plot in PLOTS.values():
        for seed in range(30):
            made = World(random.Random(seed), plot)
            plot.run(made)
            for event in made.log:
                if event.name and not event.name.startswith("trait."):
                    assert section(event.name).wordings, event.name


def test_a_wording_with_a_bracket_too_many_is_refused() -> None:
    with pytest.raises(ValueError, match="Brackets"):
        parse("one [two|three")
    with pytest.raises(ValueError, match="Brackets"):
        parse("one] two")


def test_the_world_keeps_account_of_who_holds_what() -> None:
    made = World(random.Random(1), PLOTS["present"])
    made.take(made.hero, made.thing)
    made.give(made.hero, made.friend, made.thing)
    with pytest.raises(ValueError, match="no"):
        made.give(made.hero, made.friend, made.thing)
    with pytest.raises(ValueError, match="held by"):
        made.take(made.hero, made.thing)
