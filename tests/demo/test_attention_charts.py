"""Figures of attention weights: the numbers are those given, the texts stay text."""

import pytest

from demo.inside.charts import layers_read, short, text_read

NEAR = [[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]]
MEAN = [0.3, 0.2, 0.5]
TOKENS = [" fox", "<b>x</b>"]


def test_the_heat_map_holds_the_weights_row_by_row():
    bars, heat = layers_read(NEAR, MEAN, TOKENS, 0).data
    assert [list(row) for row in heat.z] == NEAR
    assert list(heat.x) == list(bars.x) == [1, 2, 3] and list(bars.y) == MEAN
    assert (heat.zmin, heat.zmax) == (0, 0.8)  # colours begin at nothing


def test_rows_are_named_by_their_tokens_and_read_downwards():
    axis = layers_read(NEAR, MEAN, TOKENS, 0).layout.yaxis2
    assert list(axis.ticktext) == ["␣fox", "&lt;b&gt;x&lt;/b&gt;"]  # plotly would read the tag
    assert list(axis.tickvals) == [0, 1] and axis.autorange == "reversed"


def test_reused_layers_are_marked_by_more_than_colour():
    figure = layers_read(NEAR, MEAN, TOKENS, 2)
    assert list(figure.data[0].marker.pattern.shape) == ["", "/", "/"]
    [frame] = [shape for shape in figure.layout.shapes if shape.type == "rect"]
    assert (frame.x0, frame.x1) == (1.5, 3.5)
    assert [note.text for note in figure.layout.annotations] == ["re-used, N = 2"]


def test_without_tli_nothing_is_marked():
    figure = layers_read(NEAR, MEAN, TOKENS, 0)
    assert set(figure.data[0].marker.pattern.shape) == {""} and not figure.layout.annotations
    assert all(shape.type == "line" for shape in figure.layout.shapes)


def test_each_head_is_a_column_beside_the_mean_of_all():
    heads = [[0.6, 0.1, 0.3], [0.2, 0.7, 0.1]]
    bars, heat = text_read(heads, ["(earlier)", *TOKENS], 2).data
    assert [list(row) for row in heat.z] == [[0.6, 0.2], [0.1, 0.7], [0.3, 0.1]]
    assert list(bars.x) == pytest.approx([0.4, 0.4, 0.2])
    assert heat.zmax == 0.7  # text that is summed up does not wash the single tokens out


def test_charts_say_what_they_show():
    figures = layers_read(NEAR, MEAN, TOKENS, 1), text_read([[0.5, 0.2, 0.3]], ["", *TOKENS], 2)
    assert [figure.layout.meta["words"] for figure in figures] == [
        "LSA over the target’s layers: most read on average layer 3 50.0%, layer 1 30.0%, "
        "layer 2 20.0%, evenly 33.3% each.",
        "CA over the text: most read on average “<b>x</b>” 30.0%, “fox” 20.0%.",
    ]


@pytest.mark.parametrize(
    "figure", [layers_read(NEAR, MEAN, TOKENS, 1), text_read(NEAR, ["a", "b", "c"], 3)]
)
def test_the_ground_is_transparent_for_both_themes(figure):
    assert figure.layout.paper_bgcolor == figure.layout.plot_bgcolor == "rgba(0,0,0,0)"


def test_labels_show_white_space_and_are_cut():
    assert (short(" \n"), short(""), short("a" * 20)) == ("␣↵", "∅", "a" * 13 + "…")
