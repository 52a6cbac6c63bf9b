"""The style sheets and scripts, before a browser reads them."""

import re

import pytest

from demo.common.theme import CSS, DEMO, script


def bare(path):
    """A style sheet without its comments."""
    return re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.S)


@pytest.mark.parametrize("path", CSS, ids=lambda path: path.name)
def test_selectors_survive_gradios_prefixer(path):
    """It splits selectors at every comma, and in @media it puts its own container before them."""
    for selector in re.findall(r"([^{};]+)\{", bare(path)):
        if not selector.strip().startswith("@"):
            assert not re.search(r"\([^()]*,", selector), selector
    for block in re.findall(r"@media[^{]*\{((?:[^{}]*\{[^{}]*\})*)", bare(path)):
        assert not re.search(r"(^|[,{}])\s*(\.gradio-container|\.dark|:root|body)\b", block), block


def test_what_the_tabs_share_comes_first():
    assert CSS[0].name == "page.css" and set(CSS) == set(DEMO.rglob("*.css"))


def test_scripts_of_one_component_are_joined_in_their_order():
    joined = script("common/static/dom.js", "compare/race.js")
    assert joined.index("function add(") < joined.index("let lanes")
