"""The lesson: complete, in order, and true to its own runs."""

from dataclasses import replace
from urllib.parse import parse_qs
from xml.etree import ElementTree

from demo.lesson import tab as how
from demo.lesson.pictures import PICTURES
from demo.lesson.run import telling
from demo.lesson.text import PROMPT, STEPS, address
from moa_core.decoding.trace import Drafted, LinkBack, LinkDown, Prefilled, Trace, Verified
from moa_core.decoding.tree import DraftTree

LIVE = {"tab", "method", "prompt", "tokens", "temperature", "seed", "depth", "breadth", "budget"}


def test_links_have_settings_that_the_live_tab_reads():
    links = [link for step in STEPS for link in step.links]
    for link in links:
        settings = parse_qs(address(link).removeprefix("?"), strict_parsing=True)
        assert set(settings) <= LIVE and settings["tab"] == [link["tab"]]
        assert set(settings) <= {"tab", "prompt"} or link["tab"] == "live"
        assert settings.get("prompt", [PROMPT]) == [PROMPT]
    assert {link["tab"] for link in links} >= {"live", "compare", "tli", "network"}


def test_the_page_is_well_formed():
    parts = [how._overview(), how._after(), *(draw() for draw in PICTURES.values())]
    parts += [how._lesson(at, step) + how._question(step) for at, step in enumerate(STEPS, 1)]
    for part in parts:
        ElementTree.fromstring(f"<div>{part}</div>")


#      0 -> 1 -> 3 (accepted), 0 -> 2, 1 -> 4
FORK = DraftTree((10, 11, 12, 13, 14), (-1, 0, 0, 1, 1), (0, 1, 1, 2, 2), (0, -0.3, -1, -0.5, -2))
LINE = DraftTree((10, 11, 12, 13), (-1, 0, 1, 2), (0, 1, 2, 3), (0, -0.1, -0.2, -0.3))


def trace(tree, path, choices):
    """One cycle below the prefill's token, with its words."""
    bonus = choices[path[-1] if path else 0]
    probs = (0.5,) * len(tree)
    emitted = (*(tree.tokens[node] for node in path), bonus)
    verified = Verified(0, path, bonus, choices, probs, probs, emitted, 0.02, 0)
    alone = {str(token): f" w{token}" for token in (*tree.tokens, *choices)}
    words = {"prompt": "", "output": [" w"] * (1 + len(emitted)), "alone": alone, "special": []}
    events = [Prefilled((1, 2), 10, 0.5, 0.1), Drafted(0, 2, tree, 0.01), verified]
    return Trace({"method": "moa-n1", "words": words}, events)


def test_the_cycle_that_shows_most_is_drawn_first():
    forked, single = ((FORK, (1, 3), (11, 13, 50, 51, 52)), (LINE, (1,), (11, 50, 13, 51)))
    chain = trace(LINE, (1, 2, 3), (11, 12, 13, 51))
    wrong = trace(FORK, (), (50, 13, 50, 51, 52))
    assert telling(trace(*single), chain, wrong) == (chain, 0)  # two accepted come first
    signs, named = trace(*forked), trace(*forked)
    signs.about["words"]["alone"] = dict.fromkeys(signs.about["words"]["alone"], ".")
    assert telling(signs, named)[0] is named
    both = trace(*single)
    both.events += [replace(event, cycle=1) for event in trace(*forked).events[1:]]
    assert telling(chain, wrong, both) == (both, 1)
    both.events[3:3] = [LinkDown(0.1), LinkBack(0.2, 0)]  # a cut before its second tree
    assert telling(chain, both) == (both, 1)
    both.events.insert(6, LinkBack(0.3, 0))  # and one while it waited to be verified
    assert telling(chain, both) == (chain, 0)
    lone = trace(*forked)
    lone.events[1] = replace(lone.events[1], offline=True)
    assert telling(chain, lone) == (chain, 0)
