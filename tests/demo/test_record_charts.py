"""Charts of recordings: every number of theirs is the file's."""

import pytest

from demo.results.charts import CHARTS, View, colour, legend, shown
from moa_core.bench.recorded import recordings
from moa_core.bench.values import phase_times
from tests.demo.made_up import figures, recording


def view_of(*those, kind=None, methods=None):
    names = dict.fromkeys(name for one in those for name in one.methods)
    return View(those, tuple(methods or names), kind)


def test_bars_have_the_files_numbers_and_spreads():
    one = recording(moa_n0=figures(2.0, 30.0, spread=4.0), eagle2=figures(3.0, 20.0))
    chart = CHARTS["speed"](view_of(one))
    bars = chart.figure.data[0]
    assert list(bars.y) == ["moa-n0", "eagle2"] and list(bars.x) == [30.0, 20.0]
    assert list(bars.error_x.array) == [4.0, 0] and list(bars.error_x.arrayminus) == [4.0, 0]
    bars = CHARTS["tau"](view_of(one)).figure.data[0]
    assert list(bars.x) == [2.0, 3.0]
    assert bars.error_x.array == pytest.approx([0.2, 0.2])


def test_each_kind_has_a_mark_of_its_own():
    chart = CHARTS["tau"](view_of(recording()))
    marks = chart.figure.data[1:]
    assert [trace.name for trace in marks] == ["a", "b"]
    assert list(marks[0].x) == [1.1, 3.1] and list(marks[1].x) == [1.2, 3.2]
    assert marks[0].marker.symbol != marks[1].marker.symbol
    assert [(glyph, word) for glyph, _, word in legend(view_of(recording()), "tau")] == [
        ("○", "a"),
        ("□", "b"),
    ]


def test_a_kind_chosen_stands_in_the_bars():
    chart = CHARTS["tau"](view_of(recording(), kind="b"))
    [bars] = chart.figure.data
    assert list(bars.x) == [1.2, 3.2] and not legend(view_of(recording(), kind="b"), "tau")


def test_plain_decoding_is_a_line_even_where_its_bar_is_hidden():
    figure = CHARTS["speed"](view_of(recording(), methods=["moa-n1"])).figure
    [line] = figure.layout.shapes
    assert line.x0 == line.x1 == 10.0 and list(figure.data[0].y) == ["moa-n1"]


def test_acceptance_in_percent_and_nothing_where_no_path_reached():
    one = recording(vanilla=figures(1, 9, rates=()), moa_n0=figures(2, 9, rates=(0.9, 0.4, 0.1)),
                    medusa=figures(2, 9, rates=(0.5,)))  # fmt: skip
    chart = CHARTS["acceptance"](view_of(one))
    [grid] = chart.figure.data
    assert list(grid.y) == ["moa-n0", "medusa"] and list(grid.x) == [1, 2, 3]
    assert grid.z[0] == pytest.approx([90, 40, 10])
    assert list(grid.z[1]) == [50, None, None]
    assert chart.missing == ("vanilla",)


def test_times_of_a_cycle():
    # 110 target calls of 10 prompts are 100 cycles.
    assert phase_times(figures(2, 9)) == pytest.approx({"draft": 2, "verify": 3, "other": 1})
    chart = CHARTS["times"](view_of(recording()))
    assert [(trace.name, trace.x[0]) for trace in chart.figure.data] == [
        ("draft", pytest.approx(2)),
        ("verify", pytest.approx(3)),
        ("other", pytest.approx(1)),
    ]
    peer = {**figures(2, 9), "seconds": {"prefill": 1, "decode": 2}}
    assert CHARTS["times"](view_of(recording(hf_generate=peer))).figure is None


def test_a_frame_for_each_recording_in_its_own_order():
    first, second = recording("One"), recording("Two", eagle2=figures(2, 9), moa_n1=figures(3, 8))
    figure = CHARTS["tau"](view_of(first, second)).figure
    assert [note.text for note in figure.layout.annotations] == ["One", "Two"]
    assert list(figure.layout.yaxis.categoryarray) == ["vanilla", "moa-n1"]
    assert list(figure.layout.yaxis2.categoryarray) == ["eagle2", "moa-n1"]
    assert "MoA N=1" in figure.layout.yaxis2.ticktext[1]
    assert "3.00" in figure.layout.yaxis2.ticktext[1]


def test_charts_say_what_they_show():
    first, second = recording("One"), recording("<b>", **{"<i>": figures(2, 9, rates=(0.5,))})
    words = {name: draw(view_of(first, second)).figure.layout.meta["words"]
             for name, draw in CHARTS.items()}  # fmt: skip
    assert words["tau"] == (
        "Acceptance length τ, tokens per target forward: One: Vanilla 1.00, MoA N=1 3.00; "
        "<b>: <i> 2.00."
    )
    assert words["speed"].endswith("One: Vanilla 10, MoA N=1 20; <b>: <i> 9.")
    assert words["acceptance"].endswith(
        "One: MoA N=1 50 % at position 1 to 25 % at 2; <b>: <i> 50 % at position 1."
    )
    assert words["times"].endswith("milliseconds: One: Vanilla 6.0, MoA N=1 6.0; <b>: <i> 6.0.")


def test_names_from_elsewhere_are_no_markup():
    one = recording("<b>x</b>", **{"<i>y</i>": figures(2, 9)})
    for draw in CHARTS.values():
        figure = draw(view_of(one)).figure
        assert figure.layout.annotations[0].text == "&lt;b&gt;x&lt;/b&gt;"
        assert "<i>" not in figure.layout.yaxis.ticktext[0]
        for trace in figure.data:
            assert "<i>" not in str(trace.hovertext)


def test_ablations_are_not_taken_for_moa_with_an_n():
    assert shown("moa-n2") == "MoA N=2" and shown("moa-no-lsa") == "MoA without LSA"
    assert colour("moa-no-lsa") == colour("hf-generate") != colour("moa-n0")


@pytest.mark.parametrize("name", list(CHARTS))
def test_odd_values_are_left_out(name):
    odd = {"tau": "x", "tokens_per_second": None, "decode_tokens_per_second": [],
           "acceptance_by_position": [0.5, "x"], "seconds": {"draft": None},
           "kinds": 3}  # fmt: skip
    chart = CHARTS[name](view_of(recording(odd=odd, fine=figures(2, 9))))
    assert list(chart.figure.data[0].y) == ["fine"] and "odd" in chart.missing
    assert CHARTS[name](view_of(recording(odd=odd))).figure is None


def test_our_own_recordings_draw():
    ours = tuple(recordings())
    for kind in (None, ours[0].kinds[0]):
        for name, draw in CHARTS.items():
            if kind and name == "speed":  # recorded before whole runs were timed by kind
                continue
            layout = draw(view_of(*ours, kind=kind)).figure.layout
            assert layout.paper_bgcolor == "rgba(0,0,0,0)"
            assert len(layout.annotations) == len(ours)
