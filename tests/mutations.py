"""For tests: what strangers make of good messages and files. Values in them become others, or go.

Deep enough to get past a parser, where changed bytes alone mostly end.
"""

import copy
import random
from typing import Any

HUGE = 10**30
STRINGS = (
    "", "x", "\x00", "\ud800", "\u202e", "../../x", "<img src=x onerror=alert(1)>", "${6*7}",
    "{0.__class__}", "%s%n", "=1+1", "1e9", "NaN", "x" * 300,
)  # fmt: skip
NUMBERS = (
    0, 1, -1, 2, 7, 255, 4096, 2**31, 2**53, 2**63, -(2**63), HUGE, 0.0, -0.5, 1.5, 1e-320, 1e308,
    float("inf"), float("-inf"), float("nan"),
)  # fmt: skip


def nasty(draw: random.Random) -> Any:
    """A value that few expect."""
    return draw.choice(
        [
            draw.choice(NUMBERS), draw.choice(STRINGS), None, True, [], {}, [[[]]], {"x": {}},
            [draw.choice(NUMBERS)] * draw.randint(1, 5), {draw.choice(STRINGS): 1},
        ]
    )  # fmt: skip


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key or index) in a value of dicts and lists."""
    found, waiting = [], [value]
    while waiting:
        one = waiting.pop()
        keys = list(one) if isinstance(one, dict) else range(len(one))
        for key in keys:
            found.append((one, key))
            if isinstance(one[key], dict | list):
                waiting.append(one[key])
    return found


def mutated(value: Any, seed: int, most: int = 4) -> Any:
    """The value with some of its parts replaced, gone, doubled, swapped or nested."""
    draw, value = random.Random(seed), copy.deepcopy(value)
    for _ in range(draw.randint(1, most)):
        there = places(value) if isinstance(value, dict | list) else []
        if not there:
            return nasty(draw)
        holder, key = draw.choice(there)
        match draw.randrange(6):
            case 0 | 1:
                holder[key] = nasty(draw)
            case 2:
                del holder[key]
            case 3:
                other, place = draw.choice(there)
                if place in other if isinstance(other, dict) else place < len(other):
                    holder[key] = copy.deepcopy(other[place])
            case 4 if isinstance(holder, list):
                holder.insert(key, copy.deepcopy(holder[key]))
            case 5 if isinstance(holder[key], int) and not isinstance(holder[key], bool):
                holder[key] += draw.choice((-1, 1, 1000))
            case _:
                holder[key] = [holder[key]]
    return value
