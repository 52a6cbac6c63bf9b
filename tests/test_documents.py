"""What README and docs show runs as it stands there; what cannot run here is at least understood.

A block with `<!-- not run: why -->` in the line above it needs a network, a GPU, minutes, or a
program that goes on. Its commands are parsed all the same.
"""

import re
import shlex
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest

from moa_core.__main__ import main, parser
from tests.models import save_bundle

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
ALL_PAGES = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("assets/*/README.md")})
CARRIED_OUT = {"adding_a_drafter.md"}  # by tests/moa_core/drafters/test_adding_one.py
FENCE = re.compile(
    r"(?:^<!-- not run: (?P<why>[^\n]+) -->\n)?^```(?P<kind>sh|python)\n(?P<text>.*?)^```$",
    re.M | re.S,
)


class Block(NamedTuple):
    """A fenced block of Python or shell code. why: it is not run; None where it is."""

    place: str
    kind: str
    text: str
    why: str | None

    @property
    def commands(self) -> list[list[str]]:
        """A shell block's commands, word by word."""
        lines = self.text.replace("\\\n", " ").splitlines()
        parts = (part for line in lines for part in re.split(r" && |; ", line))
        return [words for part in parts if (words := shlex.split(part, comments=True))]


ALL = [
    Block(f"{page.name}:{found.string.count(chr(10), 0, found.start('kind')) + 1}", *found.group(
        "kind", "text", "why"))
    for page in PAGES if page.name not in CARRIED_OUT
    for found in FENCE.finditer(page.read_text(encoding="utf-8"))
]  # fmt: skip
COMMANDS = [block for block in ALL if block.kind == "sh"]


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    save_bundle(folder)
    return folder


@pytest.mark.parametrize("block", [b for b in ALL if b.why is None], ids=lambda block: block.place)
def test_what_a_page_shows_runs(block, models, tmp_path, monkeypatch, capsys):
    """On tiny models in place of the default ones; FOLDER is the target's."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MOA_MODELS", str(models))
    if block.kind == "python":
        exec(compile(block.text, block.place, "exec"), {"__name__": "__main__"})
    else:
        for words in block.commands:
            module, arguments = called(words)
            run = main if module == "moa_core" else import_module(module).main
            given = [word.replace("FOLDER", str(models / "tiny")) for word in arguments]
            assert run(given) == 0, (words, capsys.readouterr().err)
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("block", COMMANDS, ids=lambda block: block.place)
def test_its_commands_are_ones_that_there_are(block):
    for words in block.commands:
        module, arguments = called(words)
        if module == "moa_core":
            parser().parse_args(arguments)
        elif module:
            assert find_spec(module), words
        for word in words:
            assert (ROOT / word).exists() or not re.match(r"(tests|configs)/|\w+\.py$", word), words


def called(words: list[str]) -> tuple[str, list[str]]:
    """The module that a command runs, "" for another program, and what it is given."""
    match words:
        case ["moa", *given]:
            return "moa_core", given
        case ["python", *_] if "-m" in words:  # pytest's -m is another
            at = words.index("-m")
            return words[at + 1], words[at + 2 :]
    return "", []


# ---- links ----


def anchors(page: Path) -> set[str]:
    """The places of a page, as GitHub and the Hub name them."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", ALL_PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_to_files_and_places_are_right_and_no_command_line_shows_a_secret(page):
    """There everybody on the machine would see it."""
    text = page.read_text(encoding="utf-8")
    assert not re.findall(r"--(?:token|password)[ =][\w$…]", text)
    for link in re.findall(r"\]\((?!https?:|mailto:)([^)\s]+)\)", text):
        path, _, place = link.partition("#")
        there = (page.parent / path) if path else page
        assert there.exists(), f"{page.name} names {link}"
        assert not place or place in anchors(there), f"{page.name} names {link}"


def test_every_page_of_docs_is_found_from_the_readme():
    assert "(docs/index.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for page in {*ROOT.glob("docs/*.md")} - {ROOT / "docs" / "index.md"}:
        assert f"({page.name})" in index
