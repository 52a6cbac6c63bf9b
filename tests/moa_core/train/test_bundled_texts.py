"""The bundle's text: tasks that check themselves, chats and stories that can be made again."""

import gzip
import random
import re
import sys
from collections import Counter
from importlib import import_module

import pytest

from moa_core.errors import ended
from moa_core.train.bundle import manners, suite, world
from moa_core.train.bundle.prompts import Chat
from moa_core.train.bundle.tasks import KINDS, Task, check, generate
from moa_core.train.bundle.words import french, spanish
from moa_core.train.bundle.world.chats import hero_of
from moa_core.train.bundle.world.entities import Given, favoured
from moa_core.train.bundle.world.story import first_use

BAD_REPLIES = (
    "", " ", "The answer is", "def f(x): return", "\x00", "1" * 5_000, "-" * 400, "\ud800",
)  # fmt: skip
SUM = Task("sum", "", "2 + 2 = 4. The answer is 4.")
SORT = Task("sort", "", "3, 12, 40")
LETTERS = Task("letters", "", "a1-b. The letter a is there 1 time.")
ADDS, ABOVE = (Task("python", "", f"def f(x): return {body}") for body in ("x[1:] + 'a'", "x > 5"))


def some(kind: str, count: int = 150, held_out: bool = False) -> list[Task]:
    rng = random.Random(7)
    return [generate(kind, rng, held_out) for _ in range(count)]


@pytest.mark.parametrize("kind", KINDS)
def test_tasks_have_one_answer_that_alone_passes_and_others_are_held_out(kind):
    tasks = some(kind, 1_000)
    assert tasks == some(kind, 1_000)
    prompts = {task.prompt for task in tasks}
    assert 400 < len(prompts) == len({(task.prompt, task.answer) for task in tasks})
    assert prompts.isdisjoint(task.prompt for task in some(kind, 300, held_out=True))
    few = tasks[:150]
    assert all(check(task, task.answer) for task in few)
    wrong = [check(task, few[i - 1].answer) for i, task in enumerate(few)]
    # Counts and functions can be the same for two prompts.
    assert sum(wrong) < (len(few) if kind == "letters" else 8)
    assert not any(check(task, bad) for task in few[:20] for bad in BAD_REPLIES)


@pytest.mark.parametrize(
    ("task", "reply", "passes"),
    [
        (SUM, "Well. The answer is 4.", True), (SUM, "2 + 2 = 4.", False),
        (SUM, "The answer is 4.5.", False), (SORT, "3,12,40.", True), (SORT, "3, 12", False),
        (LETTERS, "a is there 1 time", True), (LETTERS, "is there 2 times", False),
        (Task("number", "", "vingt et un"), "Vingt-et-un.", True),
        (ADDS, 'def f( y ):\n    return y[1:]+"a"', True),
        (ABOVE, "```python\ndef f(x): return x > 5\n```", True),
        (ABOVE, "def f(x): return x >= 5", False), (ABOVE, "def f(y): return x > 5", False),
        (ABOVE, "def g(x): return x > 5", False), (ABOVE, "def f(x, y): return x > 5", False),
        (ABOVE, "def f(x): return x > 5\nprint(1)", False),
        (ABOVE, "def f(x): return " + "(" * 300, False),
    ],
)  # fmt: skip
def test_only_the_final_result_counts(task, reply, passes):
    assert check(task, reply) is passes


def test_sums_and_letters_are_worked_correctly():
    signs = {"+": int.__add__, "-": int.__sub__, "x": int.__mul__}
    for task in some("sum"):
        steps = re.findall(r"(\d+) (.) (\d+) = (\d+)\.", task.answer)
        assert all(signs[sign](int(a), int(b)) == int(c) for a, sign, b, c in steps)
        assert task.answer.endswith(f"= {steps[-1][3]}. The answer is {steps[-1][3]}.")
    for task in some("letters"):
        word = re.sub(r"[\d-]", "", task.answer.partition(".")[0])
        letter, count = re.search(r"letter (.) is there (\d+)", task.answer).groups()
        assert word in task.prompt and word.count(letter) == int(count)


def test_numerals():
    for number, words in {
        0: ("cero", "zéro"), 21: ("veintiuno", "vingt et un"),
        71: ("setenta y uno", "soixante et onze"), 80: ("ochenta", "quatre-vingts"),
        91: ("noventa y uno", "quatre-vingt-onze"), 100: ("cien", "cent"),
        500: ("quinientos", "cinq cents"), 1101: ("mil ciento uno", "mille cent un"),
    }.items():  # fmt: skip
        assert (spanish(number), french(number)) == words
    assert len({(spanish(n), french(n)) for n in range(10_000)}) == 10_000


def alternates(chat: Chat) -> bool:
    return [turn["role"] for turn in chat] == ["user", "assistant"] * (len(chat) // 2)


def test_chats_are_filled_in_claim_nothing_and_others_are_held_out():
    def made(count: int, held_out: bool = False, seed: int = 0) -> list[Chat]:
        rng = random.Random(seed)
        return [manners.chats(rng, held_out) for _ in range(count)]

    assert made(50, seed=3) == made(50, seed=3) != made(50, seed=4)
    seen, held = made(1500), made(600, held_out=True)
    assert not {chat[0]["content"] for chat in seen} & {chat[0]["content"] for chat in held}
    for chat in seen + held:
        assert alternates(chat)
        for turn in chat:
            assert not re.search(r"\{a? ?[a-z_]+\d?\}", turn["content"]), turn
        # Square brackets are Python's alone.
        assert "[" not in chat[0]["content"] or "def " in chat[0]["content"], chat
        user, assistant, *more = (turn["content"] for turn in chat)
        assert more or not manners.claims(assistant, user), chat
    assert not any("  " in turn["content"] for chat in seen for turn in chat[1::2])


_FAULT = re.compile(r"[{}\[\]|~]|  |\.\.|[!?,][.,]| [.,!?]|\b[Aa] (?!(?:one|uni|use)\w*)[aeio]\w")


@pytest.mark.parametrize("draws", [60, pytest.param(2_000, marks=pytest.mark.slow)])
def test_all_given_words_are_used_in_their_form(draws):
    singles = [(w,) for w in ("boat", "storm", "brave", "lantern", "river", "jump", "grandma")]
    for seed in range(draws):
        rng = random.Random(seed)
        words = singles[seed] if seed < len(singles) else world.words_for(rng)
        text = world.tell(rng, words).text
        missing = [word for word in words if not re.search(rf"(?i)(?<!\w){word}(?!\w)", text)]
        assert not missing, f"{missing} not in: {text}"


def test_given_words_stand_early_and_but_for_the_hero_in_the_order_asked():
    ordered = 0
    for seed in range(60):
        words = world.words_for(rng := random.Random(seed))
        story, being = world.tell(rng, words), Given(words).being()
        uses = {word: first_use(story.text, word) for word in words}
        assert max(uses.values()) < len(story.text) / 2
        others = [at for word, at in uses.items() if not (being and word == being.word)]
        ordered += others == sorted(others)
    assert ordered > 55  # some openings name the plot's thing


def test_each_key_has_its_favourites_and_every_option_is_drawn():
    rng, options = random.Random(0), range(50)
    draws = [Counter(favoured(rng, options, by) for _ in range(3_000)) for by in "abcdefgh"]
    assert len({drawn.most_common(1)[0][0] for drawn in draws}) > 5
    assert all({*options} == {*drawn} for drawn in draws)


def test_texts_are_well_formed_and_say_nothing_twice():
    for story in (world.tell(random.Random(seed)) for seed in range(150)):
        for text in (story.text, story.title, *story.clauses):
            assert not (fault := _FAULT.search(text)), f"{fault} in: {text}"
            assert text.count('"') % 2 == 0, text
        assert story.text[0].isupper() or story.text[0] == '"', story.text
        assert story.text.endswith((".", "!", "?", '"')), story.text
        words = re.findall(r"[\w']+", story.text.lower())
        runs = Counter(" ".join(words[at : at + 8]) for at in range(len(words) - 7))
        twice = [run for run, count in runs.items() if count > 1]
        assert not twice, f"{twice} in: {story.text}"
        for end in story.opening_ends:
            assert story.text[:end].count('"') % 2 == 0 and story.text[end].isspace()


@pytest.mark.parametrize("kind", ("story", "words", "continued", "reading", "talk"))
def test_chats_alternate_and_are_the_same_again(kind):
    for seed in range(15):
        chat = world.chats(kind, random.Random(seed))
        assert chat == world.chats(kind, random.Random(seed)) and alternates(chat)
        assert all(message["content"].strip() for message in chat)


@pytest.mark.parametrize(
    ("opening", "hero"),
    [
        ("Anna found an old map under the stairs.", ("Anna", "girl", "she", True)),
        ("Once there was a bear named Milo. He slept.", ("Milo", "bear", "he", False)),
        ("Pip the mouse was late.", ("Pip", "mouse", "he", False)),
        ("The king had lost his crown.", ("", "king", "he", True)),
        ("The moon was big that night.", None),
        ("The teacher told the class to be quiet.", None),  # he or she?
    ],
)
def test_the_small_world_goes_on_with_an_opening_from_elsewhere(opening, hero):
    found = hero_of(opening, random.Random(0))
    assert hero == (found and (found.name, found.noun, found.pron, found.human))
    told = [world.opened(opening, random.Random(seed)) for seed in range(20)]
    for request, reply in told:
        assert opening in request["content"]
        assert not _FAULT.search(reply["content"]), reply
    if hero:  # others have other names and kinds
        about = sum((hero[0] or hero[1]) in reply["content"] for _, reply in told)
        assert about >= 18


TEXTS = ("--texts", "{here}/texts")
WRITE = ("__main__", *TEXTS, "--out", "{here}/out", "--tokens", "99", "--shares")
MISTAKES = [
    ((*WRITE, "story=-1"), "is not a list of name=number above 0"),
    ((*WRITE, ""), "Say how much of what"),
    ((*WRITE, "story=1", "--tokens", "nan"), "Say how much of what"),
    ((*WRITE, "nope=1"), "No text of kind nope; there is story, task sum,"),
    ((*WRITE, "story=1", "--out", "{here}/file"), "file is a file: name a folder."),
    ((*WRITE, "story=1", "--texts", "{here}/cut"), "fables.txt.gz cannot be read: Not a gzip"),
    ((*WRITE, "story=1", "--texts", "{here}/rows"), "does not hold FairytaleQA's questions"),
    (("measure", "--texts", "{here}/nowhere"), "There is no folder "),
    (("measure", *TEXTS, "--each", "2"), "kind fairy tale questions, opening, sentence;"),
    (("measure", *TEXTS, "--each", "0"), "--each must be at least 1."),
    (("suite", "--texts", "{here}/empty", "--out", "{here}/out"), "No text of kind story; there"),
]  # fmt: skip


@pytest.mark.parametrize(("words", "told"), MISTAKES)
def test_a_mistake_is_told_in_one_sentence(words, told, tmp_path, capsys, monkeypatch):
    tales = "<|endoftext|>".join(f"Tale {n}. " + "A fox ran home. " * 20 for n in range(200))
    for name in ("texts", "rows", "empty", "cut"):
        (tmp_path / name).mkdir()
    (tmp_path / "texts/fables.txt.gz").write_bytes(gzip.compress(tales.encode()))
    (tmp_path / "rows/fairytale_qa.jsonl.gz").write_bytes(gzip.compress(b'{"a": 1}'))
    (tmp_path / "cut/fables.txt.gz").write_bytes(b"no gzip")
    (tmp_path / "file").touch()
    monkeypatch.setattr(suite, "EACH", 1)
    program, *given = (word.format(here=tmp_path) for word in words)
    monkeypatch.setattr(sys, "argv", ["program", *given])
    assert ended(import_module(f"moa_core.train.bundle.{program}").main) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("error: ") and told in printed.err
    assert printed.out == "" and printed.err.count("\n") == 1 and not (tmp_path / "out").exists()
