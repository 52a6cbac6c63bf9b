"""The README and the page of recorded results say what the recorded files say, and no more."""

import re

import pytest

from moa_core.__main__ import parser
from tests.recorded_claims import BEST, NO_MEASUREMENT, PAGES, ROOT, SAME, found, replaced
from tests.test_documents import Block

PAIRS = list(PAGES.items())


def text_of(page: str) -> str:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.S)  # what the Hub reads


def flat(text: str) -> str:
    return " ".join(text.split())


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


def test_a_changed_figure_is_noticed():
    [row] = [one for one in PAGES["README.md"]() if one.startswith("| EAGLE-2 |")]
    assert re.search(found(row), flat(f"x {row} y")) and not re.search(found(row), f"{row}1")
    assert not re.search(found("20 prompts"), "120 prompts")
    assert replaced("τ 1.5, as 1.52 and\n1.5 is", ["τ 1.5", "and 1.5"], ["τ 2", "and 3"]) == (
        "τ 2, as 1.52 and 3 is"
    )


def test_greedy_texts_are_plain_decodings():
    ours = [one for run in (SAME, BEST) for name, one in run.items() if name != "llama-cpp"]
    assert {one["identical_to_vanilla"] for one in ours} == {1.0}


def test_every_command_is_one_that_the_program_takes():
    text = text_of("assets/results/README.md")
    shown = re.findall(r"```sh\n(.*?)```", text, re.S)
    shown += re.findall(r"`(python -m moa_core [^`…]*)`", text)
    commands = [words for one in shown for words in Block("", "sh", one, None).commands]
    ours = [words for words in commands if words[0] == "python"]
    assert len(ours) > 5
    for words in ours:
        assert words[1:3] == ["-m", "moa_core"], words
        parser().parse_args(words[3:])
