"""The words of "How it works", as text.toml has them: steps, glossary, references."""

import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

ARXIV = "https://arxiv.org/abs/"
PRESSED = {  # the button that runs, by tab
    "live": "run", "compare": "compare-run", "inside": "inside-look",
}  # fmt: skip

_WORDS: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
PROMPT: str = _WORDS["prompt"]
Step = SimpleNamespace  # text.toml says what each part is
STEPS = [Step(**{"task": "", "trial": "", "links": [], **step}) for step in _WORDS["steps"]]
GLOSSARY: list[list[str]] = _WORDS["glossary"]
REFERENCES: list[list[str]] = _WORDS["references"]


def address(link: dict[str, Any]) -> str:
    """The query of a step's link: its tab, settings there, and this page's prompt if it asks."""
    given = {name: value for name, value in link.items() if name != "words"}
    return "?" + urlencode(given | ({"prompt": PROMPT} if "prompt" in given else {}))
