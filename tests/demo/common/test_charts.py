"""All charts: their numbers are those given, their words say them, their ground is transparent."""

import pytest

from demo.compare.bench import charts
from demo.compare.rows import rows
from demo.inside.charts import grouped, layers_read, text_read
from demo.network.recorded import right_answers
from demo.results import table as texts
from demo.results.charts import CHARTS as RESULTS
from demo.results.charts import ahead, learning
from tests.demo.compare.comparisons import usual_comparison
from tests.demo.results.made_up import figures, recording

COMPARED = charts(rows(usual_comparison()))
NEAR, MEAN, TOKENS = [[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]], [0.3, 0.2, 0.5], [" fox", "<b>x</b>"]

ONE = recording("One")
CASES = {  # a chart: its words, then each trace's values along its axis of numbers
    "compare phases": (
        COMPARED["phases"],
        "milliseconds: MoA N=1 draft 22.00 verify 77.00 other 11.00, EAGLE-2 draft 20.00",
        [[22, 20, 10], [77, 70, 35], [11, 10, 5], [110, 100, 50]]),
    "LSA": (
        layers_read(NEAR, MEAN, TOKENS, 1),
        "Which of the target’s 3 layers it reads (LSA): most read on average layer 3 50.0%, "
        "layer 1 30.0%, layer 2 20.0%, an even spread would be 33.3% each.", [MEAN]),
    "CA": (
        text_read([[0.5, 0.2, 0.3]], ["", *TOKENS], 2),
        "Which tokens it reads (CA): most read on average “<b>x</b>” 30.0%, “fox” 20.0%.",
        [[0.5, 0.2, 0.3]]),
    "results acceptance": (
        RESULTS["acceptance"](ONE), "MoA N=1 50 % at position 1.", []),
    "results times": (
        RESULTS["times"](ONE), "milliseconds: Plain draft 2.00 verify 3.00 other 1.00, MoA N=1",
        [[2, 2], [3, 3], [1, 1]]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_chart_has_its_numbers_words_and_ground(name):
    figure, words, expected = CASES[name]
    assert words in figure.layout.meta["words"] and figure.layout.meta["words"].endswith(".")
    assert figure.layout.paper_bgcolor == figure.layout.plot_bgcolor == "rgba(0,0,0,0)"
    for drawn, values in zip(figure.data, expected, strict=False):
        named = drawn.type == "scatter" and isinstance((*drawn.y, 0)[0], str)
        lying = drawn.orientation == "h" or named
        assert list(drawn.x if lying else drawn.y) == pytest.approx(values)


def test_heat_maps_hold_the_weights_and_name_rows_by_tokens():
    figure = layers_read(NEAR, MEAN, TOKENS, 2)
    bars, heat = figure.data
    assert [list(one) for one in heat.z] == NEAR
    # plotly would read the tag
    assert list(figure.layout.yaxis2.ticktext) == ["fox", "&lt;b&gt;x&lt;/b&gt;"]
    assert list(bars.marker.pattern.shape) == ["", "/", "/"]  # reused layers
    assert [note.text for note in figure.layout.annotations] == ["even share", "reused, N = 2"]
    _, heat = text_read([[0.6, 0.1, 0.3], [0.2, 0.7, 0.1]], ["(earlier)", *TOKENS], 2).data
    assert [list(one) for one in heat.z] == [[0.6, 0.2], [0.1, 0.7], [0.3, 0.1]]


@pytest.mark.parametrize(("tli", "alone"), [(0, 1), (1, 1), (3, 3)])
def test_layers_that_are_reused_and_the_last_one_stand_alone(tli, alone):
    groups = grouped(30, tli)
    assert [at for group in groups for at in group] == [*range(30)] and len(groups) <= 12 + alone
    sizes = [len(group) for group in groups]
    assert sizes[-alone:] == [1] * alone and min(sizes[:-alone]) > 1
    ticks = layers_read([[1 / 30] * 30], [1 / 30] * 30, ["fox"], tli).layout.xaxis2.ticktext
    assert [tick.replace("<br>", "") for tick in ticks] == [
        "–".join(map(str, sorted({group[0] + 1, group[-1] + 1}))) for group in groups
    ]


def test_right_answers_without_the_target_are_told_the_best_first():
    rows = [{"method": method, "cut": 0.0, "kind": "all", "asked": 217, "right": right}
            for method, right in (("target", 1), ("eagle2", 0.07), ("moa-n1", 0.22))]  # fmt: skip
    told = right_answers({"links": {"kind": "link"}, "answers": {"kind": "answers", "rows": rows}})
    assert "gives 7 to 22 % of the target’s right answers" in told
    assert right_answers({"answers": {"kind": "answers", "rows": rows[:1]}}) == ""
    assert "Of 217 short questions" in told and "right: MoA N=1 22 %, EAGLE-2 7 %." in told


def test_learning_is_a_line_for_each_method_over_updates():
    rows = [{"method": method, "updates": updates, "tau": updates / 40}
            for method in ("moa-n1", "eagle2") for updates in (50, 100)]  # fmt: skip
    figure = learning({"rows": rows})
    assert [list(one.x) for one in figure.data] == [[50, 100]] * 2
    assert "MoA N=1 from 1.25 to 2.5" in figure.layout.meta["words"]


def test_right_guesses_are_a_line_for_each_method_over_their_places():
    shares = {"eagle2": [0.42, 0.1], "moa-n0": [0.4, 0.3]}
    rows = [{"method": name, "tokens": 1100, "forced": of} for name, of in shares.items()]
    found = {"rows": rows, "command": "python <there>"}
    figure = ahead(found)
    assert [(list(one.x), list(one.y)) for one in figure.data] == [
        ([1, 2], [pytest.approx(42), 10]), ([1, 2], [40, 30]),
    ]  # fmt: skip
    told = texts.ahead(found)
    falls = "EAGLE-2 falls from 42 to 10 %; MoA N=0 falls from 40 to 30 %."
    assert "over\n1,100 tokens: " in told and falls in told
    assert "python &lt;there&gt;" in told


def test_acceptance_in_percent_and_nothing_where_no_path_reached():
    one = recording(moa_n0=figures(2, 9, rates=(0.9, 0.4)), medusa=figures(2, 9, rates=(0.5,)))
    [grid] = RESULTS["acceptance"](one).data
    assert grid.z[0] == pytest.approx([90, 40]) and list(grid.z[1]) == [50, None]


def test_thin_lines_are_ranges_of_passes_and_stripes_mean_n_gram_lookup():
    one = recording(moa_n0=figures(2, 9, 1), **{"moa_n0+ngram": figures(3, 8, 1)})
    (ends, speed, *key, said), (tau, *_) = (RESULTS[name](one).data for name in ("speed", "tau"))
    assert ends.error_x.visible and not speed.error_x.visible  # one in a row
    assert not tau.error_x.visible
    [own, *_] = RESULTS["speed"](recording(moa_n0=figures(2, 9, 1))).data
    assert own.error_x.visible
    assert speed.y == ends.y == said.y == ("MoA N=0",) and speed.x == (9,)
    assert ends.base == (9,) and ends.x == (-1,) and ends.marker.pattern.shape == ("/",)
    assert said.text == (" 9 → 8",)
    assert [one.name for one in key] == ["drafter alone", "with n-gram lookup"]  # the legend


def test_a_chart_with_lookup_has_ratios_without_and_with_it():
    joined = {"moa_n0+ngram": figures(3, 18)}
    one = recording(vanilla=figures(1, 10), moa_n0=figures(2, 15), **joined)
    said = RESULTS["speed"](one).data[-1]
    assert {*zip(said.y, said.text, strict=True)} == {
        ("Plain", " 1.00 ×"), ("MoA N=0", " 1.50 → 1.80 ×"),
    }  # fmt: skip


@pytest.mark.parametrize("name", RESULTS)
def test_names_from_elsewhere_are_no_markup(name):
    figure = RESULTS[name](recording(**{"<i>y</i>": figures(2, 9)}))
    assert "<i>" not in figure.to_json().replace("\\u003c", "<").replace("\\u003e", ">")
