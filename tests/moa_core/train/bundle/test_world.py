"""The small world: what is told is well formed, true to the log, varied, and the same again."""

import random
import re
from collections import Counter

import pytest

from moa_core.train.bundle import world
from moa_core.train.bundle.world.grammar import section
from moa_core.train.bundle.world.lexicon import lexicon
from moa_core.train.bundle.world.world import World, plots

KINDS = ("story", "words", "continued", "reading", "talk")
_FAULT = re.compile(r"[{}\[\]|~]|  |\.\.|[!?,][.,]| [.,!?]|\b[Aa] (?!(?:one|uni|use)\w*)[aeio]\w")


@pytest.fixture(scope="module")
def stories() -> list[world.Story]:
    return [world.tell(random.Random(seed)) for seed in range(150)]


def _runs(text: str, length: int) -> list[str]:
    words = re.findall(r"[\w']+", text.lower())
    return [" ".join(words[i : i + length]) for i in range(len(words) - length + 1)]


@pytest.mark.parametrize("draws", [60, pytest.param(2_000, marks=pytest.mark.slow)])
def test_all_given_words_are_used_in_their_form(draws: int) -> None:
    singles = [(w,) for w in ("boat", "storm", "brave", "lantern", "river", "jump", "grandma")]
    for seed in range(draws):
        rng = random.Random(seed)
        words = singles[seed] if seed < len(singles) else world.words_for(rng)
        text = world.tell(rng, words).text
        missing = [word for word in words if not re.search(rf"(?i)(?<!\w){word}(?!\w)", text)]
        assert not missing, f"{missing} not in: {text}"


def test_texts_are_well_formed_and_say_nothing_twice(stories: list[world.Story]) -> None:
    for story in stories:
        for text in (story.text, story.title, *story.clauses):
            assert not (fault := _FAULT.search(text)), f"{fault} in: {text}"
            assert text.count('"') % 2 == 0, text
        assert story.text[0].isupper() or story.text[0] == '"', story.text
        assert story.text.endswith((".", "!", "?", '"')), story.text
        twice = [run for run, count in Counter(_runs(story.text, 8)).items() if count > 1]
        assert not twice, f"{twice} in: {story.text}"
        for end in story.opening_ends:
            assert story.text[:end].count('"') % 2 == 0 and story.text[end].isspace()


def test_questions_are_many_and_their_answers_in_the_story(stories: list[world.Story]) -> None:
    known = lexicon()
    names = {name for key in ("he", "she", "animal_he", "animal_she") for name in known.names[key]}
    for story in stories:
        told = set(re.findall(r"\w+", story.text.lower()))
        asked = [question.question for question in story.questions]
        assert len(set(asked)) == len(asked), asked
        for question in story.questions:
            nouns = known.nouns.keys() - {"story"} if question.kind == "who" else set[str]()
            keys = set(re.findall(r"\w+", question.answer)) & (names | nouns)
            keys -= set(re.findall(r"\w+", question.question))
            assert {key.lower() for key in keys} <= told, (question, story.text)
    told_of = [story for story in stories if story.hero]
    assert sum(len(story.questions) >= 3 for story in told_of) > 0.95 * len(told_of)


def test_stories_differ(stories: list[world.Story]) -> None:
    assert len({story.text.split(".")[0] for story in stories}) > 0.7 * len(stories)
    assert len({story.plot for story in stories}) > 0.8 * len(plots())
    shares = Counter(run for story in stories for run in set(_runs(story.text, 8)))
    often = [(run, count) for run, count in shares.items() if count > 0.06 * len(stories)]
    assert not often, often
    lengths = sorted(len(story.text.split()) for story in stories)
    assert lengths[len(lengths) // 20] < 125 and lengths[-len(lengths) // 20] > 190


@pytest.mark.parametrize("kind", KINDS)
def test_chats_alternate_and_are_the_same_again(kind: str) -> None:
    for seed in range(15):
        chat = world.chats(kind, random.Random(seed))
        assert chat == world.chats(kind, random.Random(seed))
        roles = [message["role"] for message in chat]
        assert roles == ["user", "assistant"] * (len(chat) // 2)
        assert all(message["content"].strip() for message in chat)


def test_every_plot_has_all_its_wordings_and_words_for_its_slots() -> None:
    for plot in plots().values():
        for seed in range(10):
            made = World(random.Random(seed), plot)
            assert made.log, plot.name
            for event in made.log:
                if event.name and not event.name.startswith("trait."):
                    fitting = [w for w in section(event.name).wordings if w.fits(event.tags)]
                    assert fitting or not event.core, event.name
                    assert section(event.name).wordings, event.name
