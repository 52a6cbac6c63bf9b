"""The README and the page of recorded results say what the recorded files say, and no more."""

import re

import pytest

from tests.recorded_claims import BEST, NO_MEASUREMENT, PAGES, ROOT, SAME

PAIRS = list(PAGES.items())


def text_of(page: str) -> str:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.S)  # what the Hub reads


def flat(text: str) -> str:
    return " ".join(text.split())


def found(claim: str) -> str:
    """A pattern of a claim that is no part of a longer number."""
    return rf"(?<![\d.,]){re.escape(flat(claim))}(?![\d]|[.,]\d)"


@pytest.mark.parametrize(("page", "claims"), PAIRS, ids=PAGES)
def test_every_figure_is_that_of_the_files(page, claims):
    text = flat(text_of(page))
    missing = [claim for claim in claims() if not re.search(found(claim), text)]
    assert not missing, f"{page} does not say {missing}"


@pytest.mark.parametrize(("page", "claims"), PAIRS, ids=PAGES)
def test_no_other_number_stands_there(page, claims):
    """One that was measured needs a line in recorded_claims.py, any other one a pattern there."""
    text = re.sub(r"```.*?```", " ", text_of(page), flags=re.S)
    text = flat(re.sub(r"\]\([^)]*\)", "]", text))
    for claim in sorted(map(flat, claims()), key=len, reverse=True):
        text = re.sub(found(claim), " ", text)
    text = re.sub(r"`[^`]*`", " ", text)
    for pattern in NO_MEASUREMENT:
        text = re.sub(pattern, " ", text)
    left = [text[max(0, one.start() - 40) : one.end() + 20] for one in re.finditer(r"\d+", text)]
    assert not left, f"{page}: {left}"


def test_greedy_texts_are_plain_decodings():
    ours = [one for run in (SAME, BEST) for name, one in run.items() if name != "llama-cpp"]
    assert {one["identical_to_vanilla"] for one in ours} == {1.0}
