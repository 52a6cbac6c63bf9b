"""Every page leads where it says."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("assets/*/README.md")})


def anchors(page):
    """The places of a page, as GitHub and the Hub name them."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_to_a_file_or_a_place_in_it_is_right(page):
    links = re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8"))
    for link in links:
        if re.match(r"https?:|mailto:", link):
            continue
        path, _, place = link.partition("#")
        there = (page.parent / path) if path else page
        assert there.exists(), f"{page.name} names {link}"
        assert not place or place in anchors(there), f"{page.name} names {link}"


def test_every_page_of_docs_is_found_from_the_readme():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    for page in ROOT.glob("docs/*.md"):
        assert f"(docs/{page.name})" in readme


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_page_puts_a_secret_on_a_command_line(page):
    """Where everybody on the machine sees it."""
    assert not re.findall(r"--(?:token|password)[ =][\w$…]", page.read_text(encoding="utf-8"))
