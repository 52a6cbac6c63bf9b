"""Tasks check themselves, stay in their split, and run nothing they should not."""

import random
import re

import pytest

from moa_core.train.bundle.numerals import french, spanish
from moa_core.train.bundle.safe_python import Refused, SafeFunction
from moa_core.train.bundle.tasks import KINDS, Task, check, generate

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
    training = {task.prompt for task in some(kind, 3_000)}
    assert training.isdisjoint(task.prompt for task in some(kind, 1_000, held_out=True))


@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_same_tasks_and_one_answer_a_prompt(kind: str) -> None:
    tasks = some(kind, 2_000)
    assert tasks == some(kind, 2_000)
    assert len({task.prompt for task in tasks}) == len({(t.prompt, t.answer) for t in tasks})
    assert len({task.prompt for task in tasks}) > 1_600


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
        (Task("python", "a number x", "def f(x): return x + x"), "def f(y): return 2 * y", True),
        (Task("python", "a number x", "def f(x): return x > 5"), "def f(x): return x >= 5", False),
        (Task("python", "a number x", "def f(x): return x > 5"), "def f(x): return 5", False),
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


@pytest.mark.parametrize(
    ("number", "in_spanish", "in_french"),
    [
        (0, "cero", "zéro"),
        (21, "veintiuno", "vingt et un"),
        (71, "setenta y uno", "soixante et onze"),
        (80, "ochenta", "quatre-vingts"),
        (91, "noventa y uno", "quatre-vingt-onze"),
        (100, "cien", "cent"),
        (500, "quinientos", "cinq cents"),
        (1101, "mil ciento uno", "mille cent un"),
        (9999, "nueve mil novecientos noventa y nueve",
         "neuf mille neuf cent quatre-vingt-dix-neuf"),
    ],
)  # fmt: skip
def test_numerals(number: int, in_spanish: str, in_french: str) -> None:
    assert (spanish(number), french(number)) == (in_spanish, in_french)


def test_numerals_are_all_different() -> None:
    assert len({spanish(n) for n in range(10_000)}) == len({french(n) for n in range(10_000)})
    assert len({french(n) for n in range(10_000)}) == 10_000


@pytest.mark.parametrize(
    ("body", "argument", "value"),
    [
        ("x * 3 + 1", 4, 13),
        ("sorted((i ** 2 for i in x if i % 2), reverse=True)", [1, 2, 3], [9, 1]),
        ("x[::-1].upper() + '!'", "ab", "BA!"),
        ("'yes' if 0 < x <= 3 and not x == 2 else 'no'", 3, "yes"),
        ("[a + b for a in x for b in x]", ["p", "q"], ["pp", "pq", "qp", "qq"]),
        ("''.join(reversed(x))", "abc", "cba"),
        ("x or [0]", [], [0]),
    ],
)
def test_interpreter_runs_what_python_would(body: str, argument: object, value: object) -> None:
    assert SafeFunction(f"def f(x): return {body}")(argument) == value


@pytest.mark.parametrize(
    "body",
    [
        "__import__('os')", "open('a')", "eval('1')", "x.__class__", "''.__class__.__mro__",
        "'{0.__class__}'.format(x)", "'%999999999d' % x", "getattr(x, 'real')", "9**9**9",
        "2 ** -1", "2 ** 99", "10 ** 10 ** 2", "range(10 ** 9)", "list(range(99999))",
        "'a' * 10 ** 9", "10 ** 9 * [0]", "('a' * 1999) * 1999", "[[[0] * 99] * 99] * 99",
        "[i for i in range(1999) for j in range(1999)]", "(lambda: x)()", "(y := x)", "f(x)",
        "sorted([1], key=print)", "int('9' * 99)", "f'{x:999999999}'", "len(i for i in [x])",
        "1 / 0", "[][0]", "y", "x.real", "b'a'", "{x: x}", "yield x", "await x", "[*range(9)]",
        "sum(i for i, j in [(1, 2)])", "sorted([1], key=x)", "sum([1], start=2)",
    ],
)  # fmt: skip
def test_interpreter_refuses(body: str) -> None:
    with pytest.raises(Refused):
        SafeFunction(f"def f(x): return {body}")(3)


@pytest.mark.parametrize(
    "source",
    [
        "x + 1", "import os", "def g(x): return x", "def f(): return 1", "def f(x, y): return 1",
        "def f(x=print()): return 1", "def f(*x): return x", "@print\ndef f(x): return x",
        "def f(x):\n import os\n return x", "def f(x): return x\nprint(1)", "def f(x): return",
        "def f(x): return " + "(" * 300, "def f(x): return " + "-" * 10_000 + "1",
    ],
)  # fmt: skip
def test_only_a_one_line_function_is_read(source: str) -> None:
    with pytest.raises(Refused):
        SafeFunction(source)
