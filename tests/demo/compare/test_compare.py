"""Side by side: the plan, the rows, the race, the verdict, and what the tab tells the page."""

import json
from dataclasses import replace

import gradio as gr
import pytest

from demo.common.charts import middle
from demo.common.elements import SORRY
from demo.common.methods import label
from demo.compare import tab
from demo.compare.bench import run
from demo.compare.race import race, so_far
from demo.compare.rows import rows, table
from demo.compare.run import Comparison, compare, recorded_time
from demo.engine import Engine, Request
from demo.results.tab import first
from demo.session import guarded
from moa_core.decoding.tree import AUTO, TreeSettings
from moa_core.decoding.verify import Sampling
from moa_core.errors import UserError
from tests.demo.compare.comparisons import comparison_of, row_of, trace_of, usual_comparison
from tests.demo.conftest import PROMPT
from tests.demo.results.made_up import figures, recording

METHODS = ("moa-n0", "moa-n1", "vanilla")
GIVEN = (PROMPT, "", ["vanilla", "moa-n1"], 2, False, 20, 0.0, 0, 3, 2, 6)
SETTINGS = dict(zip(tab.NAMES, GIVEN, strict=True))
OTHER = [1, 2, 3, 99, 5, 6, 7]  # leaves 1 ... 7 at its fourth token


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"methods": ()}, "Choose 2 to 5 methods to compare: none is chosen"),
        ({"methods": ("vanilla",)}, "only 1 is chosen"),
        ({"methods": ("moa-n0", "moa-n1", "eagle2", "eagle3", "ngram", "vanilla")}, "6 are chosen"),
        ({"prompt": " "}, "empty"),
        ({"seed": 3.7}, "The seed must be a whole number"),
        ({"target": "giant"}, "no MoA N=0 drafter for this target"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_runs(loads, wrong, word):
    with pytest.raises(UserError, match=word) as caught:
        given = SETTINGS | {"methods": list(METHODS)} | wrong
        list(compare(Engine(), tab.comparison_of(*given.values()), lambda: False))
    assert "\n" not in str(caught.value) and not any(hasattr(one, "tree") for one in loads)


def test_how_long_it_takes_is_told_at_recorded_speeds_as_far_as_they_are_known():
    found = recording(vanilla=figures(1, 10), moa_n0=figures(3, 20))
    said = ", about {} s at Benchmarks’ speeds"
    both = (2 * 100 + 16) * (1 / 10 + 1 / 20)
    assert recorded_time(found, ["moa-n0", "vanilla"], 2, 100) == said.format(round(both))
    text = (100 + 16) / 20 + 100 / 10  # plain decoding runs once, for its text
    assert recorded_time(found, ["moa-n0"], 1, 100) == said.format(round(text))
    assert recorded_time(found, ["moa-n0", "eagle2"], 1, 100) == ""
    assert recorded_time(None, ["moa-n0", "vanilla"], 1, 100) == ""


def test_runs_have_the_plans_sampling_and_tree(loads):
    sampling, tree = Sampling(0.7, seed=5), TreeSettings(2, 2, 3)
    asked = Request(PROMPT, max_new_tokens=5, tree=tree, sampling=sampling)
    list(compare(Engine(), Comparison(asked=asked, methods=METHODS), lambda: False))
    asked = [one for one in loads if hasattr(one, "tree")]
    assert {one.sampling for one in asked} == {sampling} and {one.tree for one in asked} == {tree}


def test_the_table_reads_as_the_rows_do():
    shown = table(rows(usual_comparison()))
    assert {name: list(shown[name]) for name in list(shown)[1:]} == {
        "τ": ["3.00", "2.00", "1.00"],
        "Tokens/s (min–max)": ["25.9 (24.1–28.0)", "20.0 (18.4–21.9)", "20.0 (17.1–24.1)"],
        "Decoding alone": ["27.3", "20.0", "20.0"],
        "Model calls": ["3", "4", "7"],
        "Guesses accepted": ["4 of 8 (50 %)", "3 of 12 (25 %)", "–"],
        "Same text as plain greedy?": ["yes", "yes", "–"],
        "Speed-up over plain": ["1.30 ×", "1.00 ×", "1.00 ×"],
        "Tree": ["3-2-4", "3-2-4", "–"],
        "Runs": ["3", "3", "3"],
    }
    fast, slow = trace_of([3], 0.1), trace_of([3], 0.2)
    assert middle([fast, slow]) is middle([slow, fast]) is slow and middle([fast]) is fast
    auto = replace(row_of("moa-n1"), tree=AUTO)
    assert list(table([auto])["Tree"]) == ["auto, 4.0 guesses"]


def test_a_text_that_differs_is_marked_with_its_place():
    comparison = comparison_of(moa_n1=[trace_of([3, 3]), trace_of([3, 3], ids=OTHER)],
                               vanilla=[trace_of([1] * 6, 0.1, 0)])  # fmt: skip
    same = "Same text as plain greedy?"
    assert list(table(rows(comparison))[same]) == ["no, from token 4", "–"]
    assert "Same text as plain sampling?" in table(rows(comparison), greedy=False)


def test_what_is_not_known_is_not_claimed():
    [row] = rows(comparison_of(moa_n1=[trace_of([2])], eagle2=[]))
    assert row.same is row.differs is None
    assert table([row])["Same text as plain greedy?"][0] == "–"
    assert table([row])["Speed-up over plain"][0] == "–"
    found = rows(comparison_of(moa_n1=[trace_of([])], vanilla=[trace_of([])]))
    assert [(row.tau, row.decoding) for row in found] == [(None, None)] * 2
    assert list(table(found)["τ"]) == ["–", "–"]


NAMES = (
    "status", "box", "details", "verdict", "race", "tau", "latency", "phases", "table",
)  # fmt: skip


def outputs_of(visit, **changed):
    def work(stop):
        comparison = tab.comparison_of(*(SETTINGS | changed).values())
        for made in run(Engine(), comparison, stop):
            yield tuple(made.get(name, gr.skip()) for name in NAMES)

    for output in guarded(work, len(NAMES), visit):
        yield dict(zip(NAMES, output, strict=True))


def test_stop_keeps_what_is_finished_and_leaves_earlier_results(visit, breaks):
    shown = []  # of each race before the end: its lanes, with their texts
    for output in outputs_of(visit, tokens=500):
        if output["race"] != gr.skip() and (told := json.loads(output["race"])).get("measuring"):
            assert "wait for all 4 runs" in output["verdict"]
            lanes = told["lanes"]  # also of methods whose runs are to come
            assert [bool(lane["seconds"]) for lane in lanes] == [True, len(shown) > 0]
            shown.append([lane["label"] for lane in lanes if "lines" in lane])
        if output["status"] != gr.skip() and "run 3 of 4" in output["status"]["text"]:
            visit.ended.set()
    assert shown == [["MoA N=1"], ["MoA N=1", "Plain"]]
    assert output["status"]["text"] == "Stopped: 2 of 4 runs had finished; shown: 1 of each method."
    assert list(output["table"]["value"]["Runs"]) == ["1", "1"]
    visit.begin()
    outputs = outputs_of(visit)
    next(outputs)
    visit.ended.set()
    *_, last = outputs
    assert "nothing new to show" in last["status"]["text"]
    assert last["race"] == last["box"] == last["verdict"] == gr.skip()
    assert "share" not in last["status"]
    visit.begin()
    newer = outputs_of(visit)
    next(newer)
    visit.begin()  # in another tab
    *_, last = newer
    assert last["status"]["text"].endswith("show. You have started another run since.")
    breaks()
    *_, last = outputs_of(visit)
    assert last["box"] == last["race"] == gr.skip()
    assert (last["status"]["text"], last["status"]["kind"]) == (SORRY, "error")


def test_finished_runs_are_shown_though_one_fails(loads, visit, monkeypatch):
    def failing(*given):
        for step in compare(*given):
            if step.run == 3:
                raise RuntimeError
            yield step

    monkeypatch.setattr("demo.compare.bench.compare", failing)
    *_, last = outputs_of(visit)
    assert "measuring" not in last["race"] and list(last["table"]["value"]["Runs"]) == ["1", "1"]
    assert last["status"]["text"] == SORRY


def ranks(rates):
    made = [row_of(name, rate=rate) for name, rate in rates.items()]
    for row in made:
        row.trace.about["words"] = {"alone": {}, "special": [], "output": []}
    return [lane["rank"] for lane in race(made)["lanes"]]


def test_methods_whose_runs_overlap_share_a_place_as_in_the_headline():
    rates = {"moa-n1": (100, 98, 102), "eagle2": (99, 97, 101), "vanilla": (60, 59, 61)}
    assert ranks(rates) == [0, 0, 2]
    assert ranks(rates | {"vanilla": (120, 119, 121)}) == [1, 1, 0]
    assert ranks(rates | {"moa-n1": (100, 85, 115)}) == [0, 0, 2]
    assert ranks(dict.fromkeys(rates, (100, 85, 115))) == [0, 0, 0]
    assert ranks(rates | {"moa-n1": (100, 50, 150)}) == [None] * 3  # too busy a machine to tell


def test_on_a_busy_machine_a_races_speeds_are_rough():
    made = [row_of("moa-n1", rate=(100, 50, 150)), row_of("vanilla", rate=(50, 40, 60))]
    for row in made:
        row.trace.about["words"] = {"alone": {}, "special": [], "output": []}
    told = race(made)
    assert told["busy"] and [lane["over"] for lane in told["lanes"]] == [
        "≈ 2.0 × plain", "1.00 × plain"
    ]  # fmt: skip


def test_it_names_the_fastest_method_of_its_targets_recording():
    found = first("smollm2-135m")
    best = max(found.methods, key=lambda name: found.methods[name].get("tokens_per_second") or 0)
    name = label(best).replace("-", "\u2011")
    said = f"Fastest in Benchmarks: {name} (show all methods)."
    assert tab._fastest(found) == said and tab._fastest(None) is None


def test_of_two_runs_a_bar_is_the_mean():
    twice = {name: [trace_of([3, 3], pace) for pace in (0.1, 0.3)] for name in ("moa_n0", "eagle2")}
    lane = so_far(rows(comparison_of(**twice)), ["moa-n0", "eagle2"])["lanes"][0]
    assert lane["seconds"] == pytest.approx(0.05 + 2 * 0.2) and lane["over"] == "2 runs"
