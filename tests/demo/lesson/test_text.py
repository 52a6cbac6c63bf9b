"""The lesson: complete, in order, and true to the paper's table."""

import json
import re
from urllib.parse import parse_qs
from xml.etree import ElementTree

import pytest

from demo.lesson import tab as how
from demo.lesson.pictures import PICTURES
from demo.lesson.text import STEPS
from moa_core.bench.paper import PATH

LIVE = {"tab", "method", "prompt", "tokens", "temperature", "seed", "depth", "breadth", "budget"}


def test_links_have_settings_that_the_live_tab_reads():
    links = [link for step in STEPS for link in step.links]
    for link in links:
        settings = parse_qs(link.address.removeprefix("?"), strict_parsing=True)
        assert set(settings) <= LIVE and len(settings["tab"]) == 1
        assert set(settings) <= {"tab", "prompt"} or settings["tab"] == ["live"]
        assert bool(link.press) == (settings["tab"] != ["network"])
    tabs = {parse_qs(link.address[1:])["tab"][0] for link in links}
    assert tabs >= {"live", "compare", "tli", "network"}


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_has_a_name_and_words_that_fit(name):
    drawing = ElementTree.fromstring(PICTURES[name]())
    ids = {node.get("id"): node for node in drawing.iter() if node.get("id")}
    title, about = (ids[drawing.get(f"aria-{key}")] for key in ("labelledby", "describedby"))
    assert drawing.get("role") == "img" and title.text and len(about.text) > 60
    width, height = map(float, drawing.get("viewBox").split()[2:])
    for node in drawing.iter("rect"):
        assert 0 <= float(node.get("x")) <= width - float(node.get("width"))
        assert 0 <= float(node.get("y")) <= height - float(node.get("height"))
    for node in drawing.iter("text"):
        assert 0 <= float(node.get("x")) <= width and 0 < float(node.get("y")) <= height


def test_pictures_share_no_id():
    drawings = "".join(draw() for draw in PICTURES.values())
    ids = re.findall(r' id="([^"]+)"', drawings)
    assert len(ids) == len(set(ids)) >= 3 * len(PICTURES)


def test_the_papers_figures_are_the_tables():
    rows = {row["drafter"]: row for row in json.loads(PATH.read_text(encoding="utf-8"))["rows"]}
    means = [rows[f"MoA, TLI N = {tli}"]["printed_mean"] for tli in (0, 1, 3)]
    words = " ".join(next(step for step in STEPS if step.id == "tli").paragraphs)
    speeds, taus = zip(*means, strict=True)
    assert "τ {:.2f}, {:.2f} and {:.2f}".format(*taus) in words
    assert "speed-up {:.2f}, {:.2f} and {:.2f}".format(*speeds) in words


def test_the_page_is_well_formed():
    parts = [how._overview(), how._after()]
    parts += [how._lesson(at, step) + how._question(step) for at, step in enumerate(STEPS, 1)]
    for part in parts:
        ElementTree.fromstring(f"<div>{part}</div>")
