"""What README and docs show runs as it stands there; what cannot run here is at least understood.

A block with `<!-- not run: why -->` in the line above it needs a network, a GPU, minutes, or a
program that goes on. Its commands are parsed all the same.
"""

import re
import shlex
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

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


@dataclass(frozen=True)
class Block:
    """A fenced block of code. why: it is not run; None where it is."""

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


def blocks(page: Path) -> list[Block]:
    """The Python and shell blocks of a page."""
    text = page.read_text(encoding="utf-8")
    return [
        Block(f"{page.name}:{text.count(chr(10), 0, found.start('kind')) + 1}", *found.group(
            "kind", "text", "why"))
        for found in FENCE.finditer(text)
    ]  # fmt: skip


ALL = [block for page in PAGES if page.name not in CARRIED_OUT for block in blocks(page)]
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
            run = main if (module := called(words)) == "moa_core" else import_module(module).main
            given = [word.replace("FOLDER", str(models / "tiny")) for word in arguments(words)]
            assert run(given) == 0, (words, capsys.readouterr().err)
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize("block", COMMANDS, ids=lambda block: block.place)
def test_its_commands_are_ones_that_there_are(block):
    for words in block.commands:
        if (module := called(words)) == "moa_core":
            parser().parse_args(arguments(words))
        elif module:
            assert find_spec(module), words
        for word in words:
            assert (ROOT / word).exists() or not re.match(r"(tests|configs)/|\w+\.py$", word), words


def called(words: list[str]) -> str:
    """The module that a command runs, "" for another program; pytest's -m is another."""
    if words[0] == "python" and "-m" in words:
        return words[words.index("-m") + 1]
    return "moa_core" if words[0] == "moa" else ""


def arguments(words: list[str]) -> list[str]:
    """What a command's module is given."""
    start = 1 if words[0] == "moa" else words.index("-m") + 2
    return words[start:]


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
