"""Tasks check themselves, stay in their split, and run nothing they should not."""

import random
import re

import pytest

from moa_core.train.bundle.tasks import KINDS, Task, check, generate
from moa_core.train.bundle.words import french, spanish

BAD_REPLIES = (
    "",
    " ",
    "The answer is",
    "def f(x): return",
    "\x00",
    "1" * 5_000,
    "-" * 400,
    "\ud800",
)


def python(body: str) -> Task:
    return Task("python", "", f"def f(x): return {body}")


def some(kind: str, count: int = 150, held_out: bool = False) -> list[Task]:
    rng = random.Random(7)
    return [generate(kind, rng, held_out) for _ in range(count)]


@pytest.mark.parametrize("kind", KINDS)
def test_references_pass_and_other_answers_fail(kind: str) -> None:
    tasks = some(kind)
    assert all(check(task, task.answer) for task in tasks)
    wrong = [check(task, tasks[i - 1].answer) for i, task in enumerate(tasks)]
    # Counts and functions can be the same for two prompts.
    assert sum(wrong) < (len(tasks) if kind == "letters" else 8)
    assert not any(check(task, bad) for task in tasks[:20] for bad in BAD_REPLIES)


@pytest.mark.parametrize("kind", KINDS)
def test_held_out_prompts_are_never_for_training(kind: str) -> None:
    training = {task.prompt for task in some(kind, 1_000)}
    assert training.isdisjoint(task.prompt for task in some(kind, 300, held_out=True))


@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_same_tasks_and_one_answer_a_prompt(kind: str) -> None:
    tasks = some(kind, 500)
    assert tasks == some(kind, 500)
    assert len({task.prompt for task in tasks}) == len({(t.prompt, t.answer) for t in tasks})
    assert len({task.prompt for task in tasks}) > 400


@pytest.mark.parametrize(
    ("task", "reply", "passes"),
    [
        (Task("sum", "", "2 + 2 = 4. The answer is 4."), "Well. The answer is 4.", True),
        (Task("sum", "", "2 + 2 = 4. The answer is 4."), "2 + 2 = 4.", False),
        (Task("sum", "", "2 + 2 = 4. The answer is 4."), "The answer is 4.5.", False),
        (Task("sort", "", "3, 12, 40"), "3,12,40.", True),
        (Task("sort", "", "3, 12, 40"), "3, 12", False),
        (Task("letters", "", "a1-b. The letter a is there 1 time."), "a is there 1 time", True),
        (Task("letters", "", "a1-b. The letter a is there 1 time."), "is there 2 times", False),
        (Task("number", "", "vingt et un"), "Vingt-et-un.", True),
        (python("x[1:] + 'a'"), 'def f( y ):\n    return y[1:]+"a"', True),
        (python("x > 5"), "```python\ndef f(x): return x > 5\n```", True),
        (python("x > 5"), "def f(x): return x >= 5", False),
        (python("x > 5"), "def f(y): return x > 5", False),
        (python("x > 5"), "def g(x): return x > 5", False),
        (python("x > 5"), "def f(x): return x > 5\nprint(1)", False),
        (python("x > 5"), "def f(x, y): return x > 5", False),
        (python("x > 5"), "def f(x): return " + "(" * 300, False),
    ],
)
def test_only_the_final_result_counts(task: Task, reply: str, passes: bool) -> None:
    assert check(task, reply) is passes


def test_sums_are_worked_correctly() -> None:
    signs = {"+": int.__add__, "-": int.__sub__, "x": int.__mul__}
    for task in some("sum"):
        steps = re.findall(r"(\d+) (.) (\d+) = (\d+)\.", task.answer)
        assert all(signs[sign](int(a), int(b)) == int(c) for a, sign, b, c in steps)
        assert task.answer.endswith(f"= {steps[-1][3]}. The answer is {steps[-1][3]}.")


def test_letters_are_spelled_and_counted() -> None:
    for task in some("letters"):
        spelled = task.answer.partition(".")[0]
        word = re.sub(r"[\d-]", "", spelled)
        letter, count = re.search(r"letter (.) is there (\d+)", task.answer).groups()
        assert word in task.prompt and word.count(letter) == int(count)


def test_numerals() -> None:
    for number, words in {
        0: ("cero", "zéro"), 21: ("veintiuno", "vingt et un"),
        71: ("setenta y uno", "soixante et onze"), 80: ("ochenta", "quatre-vingts"),
        91: ("noventa y uno", "quatre-vingt-onze"), 100: ("cien", "cent"),
        500: ("quinientos", "cinq cents"), 1101: ("mil ciento uno", "mille cent un"),
    }.items():  # fmt: skip
        assert (spanish(number), french(number)) == words
    assert len({(spanish(n), french(n)) for n in range(10_000)}) == 10_000
