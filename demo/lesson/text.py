"""The words of "How it works", as text.toml has them: steps, glossary, references."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

ARXIV = "https://arxiv.org/abs/"
PRESSED = {  # the button that runs, by tab
    "live": "run", "compare": "compare-run", "inside": "inside-look",
}  # fmt: skip

_WORDS: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
PROMPT: str = _WORDS["prompt"]
GLOSSARY: list[list[str]] = _WORDS["glossary"]
REFERENCES: list[list[str]] = _WORDS["references"]  # arXiv number, title, reason to read it


@dataclass(frozen=True)
class Link:
    """A link to another tab, with settings in the address.

    press  id of the button that it also presses there; "" for none
    """

    words: str
    address: str
    press: str


@dataclass(frozen=True)
class Step:
    """One step of the tour.

    trial     the run that the step offers (demo.lesson.run.TRIALS); "" for none
    lead      what to do or look at in the example
    ask       what to do in class mode
    question  to be answered from the example, or from what class mode shows
    """

    id: str
    ask: str
    title: str
    text: str
    lead: str
    question: str
    answer: str
    links: list[Link]
    trial: str = ""


def _link(words: str, tab: str, prompt: bool = False, **settings: str | int) -> Link:
    """A link to a tab that also presses its button. prompt: whether to pass this page's prompt."""
    settings |= {"prompt": PROMPT} if prompt else {}
    return Link(words, "?" + urlencode({"tab": tab, **settings}), PRESSED.get(tab, ""))


STEPS = [
    Step(**{**step, "links": [_link(**link) for link in step.get("links", [])]})
    for step in _WORDS["steps"]
]
