"""Sums in words, of one step or two, answered with a short working."""

import random
import re

from moa_core.train.bundle.words import HOLDERS, PEOPLE, PHRASES, THINGS

_ANSWER = re.compile(r"The answer is (-?\d[\d,]*(?:\.\d+)?)")


def make(rng: random.Random) -> tuple[str, str]:
    return rng.choice((_bare, _story, _story, _groups, _groups_and_more))(rng)


def result(reply: str) -> str | None:
    """The number that a reply ends on, or None where it names none."""
    found = _ANSWER.findall(reply)
    return found[-1].replace(",", "") if found else None


def _worked(start: int, *steps: tuple[str, int]) -> str:
    """The working, one equation a step, and the answer."""
    value, lines = start, []
    for sign, amount in steps:
        after = {"+": value + amount, "-": value - amount, "x": value * amount}[sign]
        lines.append(f"{value} {sign} {amount} = {after}.")
        value = after
    return " ".join((*lines, f"The answer is {value}."))


def _steps(rng: random.Random, value: int, count: int) -> list[tuple[str, int]]:
    """Random gains and losses that never fall below zero."""
    steps = []
    for _ in range(count):
        sign = rng.choice("+-") if value > 1 else "+"
        amount = rng.randint(1, 60 if sign == "+" else min(value, 60))
        value += amount if sign == "+" else -amount
        steps.append((sign, amount))
    return steps


def _bare(rng: random.Random) -> tuple[str, str]:
    if rng.random() < 0.25:
        start, steps = rng.randint(2, 12), [("x", rng.randint(2, 12))]
    else:
        start = rng.randint(2, 99)
        steps = _steps(rng, start, rng.choice((1, 1, 2)))
    text = " ".join((str(start), *(f"{sign} {amount}" for sign, amount in steps)))
    return rng.choice(PHRASES["sum"]).format(text), _worked(start, *steps)


def _story(rng: random.Random) -> tuple[str, str]:
    (name, pronoun), things = rng.choice(PEOPLE), rng.choice(THINGS)
    start = rng.randint(2, 99)
    steps = _steps(rng, start, rng.choice((1, 2, 2)))
    told = [_changed(rng, step) for step in steps]
    then = rng.choice(PHRASES["sum_goes_on"]).format(pronoun=pronoun)
    begin = rng.choice(PHRASES["sum_begins"])
    last = "How many {things} are left?" if steps[-1][0] == "-" else "How many {things} is that?"
    end = rng.choice([*PHRASES["sum_ends"], last]).format(things=things, name=name, pronoun=pronoun)
    prompt = f"{begin.format(name, start, things)} {pronoun.title()} {then.join(told)}. {end}"
    return prompt, _worked(start, *steps)


def _changed(rng: random.Random, step: tuple[str, int]) -> str:
    return rng.choice(PHRASES["gain" if step[0] == "+" else "lose"]).format(step[1])


def _groups(rng: random.Random) -> tuple[str, str]:
    things, holders = rng.choice(THINGS), rng.choice(HOLDERS)
    name, _ = rng.choice(PEOPLE)
    count, each = rng.randint(2, 12), rng.randint(2, 12)
    facts = {"name": name, "count": count, "holders": holders, "each": each, "things": things}
    prompt = rng.choice(PHRASES["groups"]).format(**facts)
    return prompt, _worked(count, ("x", each))


def _groups_and_more(rng: random.Random) -> tuple[str, str]:
    (name, pronoun), things, holders = rng.choice(PEOPLE), rng.choice(THINGS), rng.choice(HOLDERS)
    count, each = rng.randint(2, 12), rng.randint(2, 12)
    step = _steps(rng, count * each, 1)[0]
    change = _changed(rng, step)
    then = rng.choice((f"Then {pronoun}", "Later " + pronoun, pronoun.title()))
    prompt = (
        f"{name} has {count} {holders} of {each} {things}. {then} {change}. "
        f"How many {things} does {name} have now?"
    )
    return prompt, _worked(count, ("x", each), step)
