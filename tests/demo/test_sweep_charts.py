"""A sweep's figures and table hold the rows' numbers, and the paper's hold the paper's."""

import re
from dataclasses import replace

import pytest

from demo.common.methods import colour
from demo.tli.charts import panel, paper_panel, strip
from demo.tli.table import table_html
from moa_core.bench.paper import published
from moa_core.decoding.tree import TreeSettings
from tests.demo.test_sweep_rows import N0, N1, N3, PLAIN, row

AUTO = row("moa-auto", 130, 3.2, 6.5, choices=(0, 0, 1, 3, 0), spread=0.1)
MOA = [N0, N1, N3]
ROWS = [PLAIN, *MOA, AUTO]


@pytest.mark.parametrize(
    ("key", "values"),
    [("tau", [3, 3.5, 4, 3.2]), ("draft", [4, 6, 9, 6.5]), ("rate", [150, 120, 90, 130])],
)
def test_a_panel_has_a_bar_for_each_n_and_auto_n(key, values):
    figure = panel(ROWS, key)
    [bars] = figure.data
    assert list(bars.y) == values
    names = [text.partition("<br>")[2] for text in figure.layout.xaxis.ticktext]
    assert names == ["N = 0", "N = 1", "N = 3", "Auto N"]
    assert bars.error_y.array[-1] == pytest.approx(values[-1] * 0.1)
    assert figure.layout.yaxis.rangemode == "tozero"
    assert list(bars.marker.color) == [colour(one.method) for one in ROWS[1:]]


def test_plain_decoding_is_a_line_in_the_panel_of_speed_alone():
    assert [line.y0 for line in panel(ROWS, "rate").layout.shapes] == [100]
    assert not panel(ROWS, "tau").layout.shapes and not panel(ROWS[1:], "rate").layout.shapes


def test_one_repeat_has_no_spread():
    assert panel([row("moa-n0", 5, runs=1)], "rate").data[0].error_y.array is None


def test_the_papers_figures_are_those_of_the_recorded_table():
    known = published()
    tau, speed = paper_panel(known, "tau"), paper_panel(known, "speed_up")
    assert list(tau.data[0].y) == [4.22, 4.5, 4.79] and list(speed.data[0].y) == [1.95, 1.95, 1.79]
    for figure in (tau, speed):
        assert "The paper" in figure.layout.title.text and figure.data[0].marker.pattern.shape
        assert [text.partition("<br>")[2] for text in figure.layout.xaxis.ticktext] == [
            "N = 0", "N = 1", "N = 3",
        ]  # fmt: skip


def test_the_strip_has_a_mark_for_each_cycle_at_its_n():
    figure = strip(AUTO.choices, [0, 1, 3])
    [marks] = figure.data
    assert list(marks.x) == [1, 2, 3, 4, 5] and list(marks.y) == [0, 0, 1, 2, 0]
    assert list(marks.text) == ["N = 0", "N = 0", "N = 1", "N = 3", "N = 0"]
    assert list(figure.layout.yaxis.ticktext) == ["N = 0", "N = 1", "N = 3"]
    assert len(set(marks.marker.symbol)) == 3  # not by colour alone


def test_charts_say_what_they_show():
    made = panel(ROWS, "draft"), paper_panel(published(), "tau"), strip(AUTO.choices, [0, 1, 3])
    assert [figure.layout.meta["words"] for figure in made] == [
        "Draft time, ms per cycle: MoA N=0 4.0, MoA N=1 6.0, MoA N=3 9.0, MoA, auto N 6.5.",
        "The paper: τ, tokens per target forward: N = 0 4.22, N = 1 4.50, N = 3 4.79.",
        "What auto N chose, cycle by cycle: of 5 cycles N = 0 in 3, N = 1 in 1, N = 3 in 1.",
    ]


def test_the_table_has_the_same_numbers():
    page = table_html(ROWS, "Tree: <3>.")
    cells = [re.findall(r"<b>([\d.]+)</b>", line) for line in page.split("<tr ")[1:]]
    assert cells[1] == ["3.00", "4.0", "9.0", "150", "159"]
    assert cells[4] == ["3.20", "6.5", "9.0", "130", "139"]
    assert "<small>117–143</small>" in page and "<td>1.50</td>" in page
    assert "own bonus token included" in page and "Tree: &lt;3&gt;." in page


def test_the_table_names_each_tree():
    def trees(*shapes):
        rows = [
            replace(one, tree=TreeSettings(*shape)) for one, shape in zip(MOA, shapes, strict=True)
        ]
        return re.findall(r"<td>([^<]*)</td></tr>", table_html([PLAIN, *rows, AUTO], ""))

    auto = replace(AUTO, tree=TreeSettings(5, 4, 12))
    assert trees((5, 4, 12), (5, 4, 12), (5, 4, 12)) == ["–", *["5-4-12"] * 3, "–"]
    assert trees((6, 3, 12), (5, 1, 5), (5, 1, 5)) == ["–", "6-3-12", "5-1-5", "5-1-5", "each N’s"]
    assert "<td>5-4-12</td></tr>" in table_html([auto], "")
