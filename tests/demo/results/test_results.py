"""Benchmarks: recorded figures in tables and words; traces that visitors bring."""

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given

from demo.common.figures import recorded_tree
from demo.common.tokens.view import Feed
from demo.inside.view import packed
from demo.live.measure import figures as live
from demo.results import tab
from demo.results.table import (
    DRAWN,
    beside,
    choice,
    conclusion,
    headline,
    made,
    methods,
    styled,
    table,
    title,
)
from moa_core.decoding.trace import Trace
from moa_core.errors import UserError
from moa_core.text import RecordedText
from tests.demo.results.made_up import figures, recording
from tests.models import worded_trace
from tests.mutations import mutated
from tests.properties import SEEDS

ONE = recording("One")


def test_the_table_has_what_the_charts_show():
    rows = table(ONE)
    assert list(rows["prompts"]) == ["all", "all", "a", "a", "b", "b"]
    assert list(rows)[:5] == ["method", "prompts", "× plain", "tokens/s", "τ"]  # what matters first
    assert "× low" not in rows  # not recorded
    rows = rows[rows["method"] == "MoA N=1"]
    assert list(rows["τ"]) == [3.0, 3.1, 3.2] and list(rows["tokens/s"]) == [20.0, 21.0, 22.0]
    expected = {"same text": "10 of 10", "tree": "2-1-2", "τ low": 2.9, "τ high": 3.2}
    assert {name: rows.iloc[0][name] for name in expected} == expected
    assert "drafts in" not in rows  # nobody has it
    written = styled(recording(moa_n0=figures(2, 9) | {"trainable_parameters": 7892544})).to_html()
    assert all(f">{cell}</td>" in written for cell in ("1.50", "9.0", "2.00", "7.9 M", "10 of 10"))


PROCESSORS = {  # what a title says of them
    "AMD EPYC": "", "AMD EPYC (AVX512_VNNI)": "", "AMD EPYC (AVX2)": ", older processor (AVX2)",
    "Intel(R) Xeon(R) Processor (AMX_INT8)": ", processor with AMX",
}  # fmt: skip


def test_a_recording_is_named_and_described_in_plain_words():
    one = recording(moa_n0=figures(2, 9) | {"draft_precision": "int8"}, llama_cpp=figures(1, 9))
    one.results["settings"] = {"repeat": 2, "tree": "auto", "temperature": 1, "max_new_tokens": 64}
    assert title(one) == "Trees that size themselves, float32, sampled"
    for processor, told in PROCESSORS.items():
        machine = {**one.results["machine"], "processor": processor}
        of = replace(one, results={**one.results, "machine": machine})
        assert title(of) == title(one) + told
    assert (
        "Trees that size themselves, float32, sampled, drafts in int8. 10 prompts from 2 sets, "
        "at most 64 tokens each, 2 passes." in made(one)
    )
    assert made(one) in headline(one)
    assert "llama.cpp" in methods(one) and "llama.cpp" not in methods(ONE)
    assert "Medusa" in methods(recording(medusa=figures(1, 9))) and "Medusa" not in methods(ONE)


def test_the_headline_says_what_when_where_and_how_and_escapes_it():
    hostile = "<script>alert(1)</script>"
    words = headline(ONE)
    date, *more = (ONE.results[key] for key in ("date", "commit", "command"))
    for part in (ONE.name, ONE.machine, ONE.precision, date[:10], *more):
        assert part in words
    odd = recording(hostile, hostile, hostile, **{hostile: figures(2, 9, kinds=(hostile,))})
    odd.results.update(command=hostile, commit=hostile, date=hostile)
    assert "<script" not in headline(odd) and "&lt;script" in headline(odd)


def ran(speedup, same=1.0, spread=0.0):
    return {**figures(2, 10 * speedup, spread), "speedup": speedup, "identical_to_vanilla": same}


def found_in(methods):
    """The speeds over plain decoding of methods that draft."""
    return [
        one["speedup"] for name, one in methods.items() if one.get("tree") and name != "vanilla"
    ]


SAME = "Every text is the same as plain decoding’s."


@pytest.mark.parametrize(
    ("methods", "fastest", "said"),
    [
        ({"moa_n0": ran(1.28), "eagle2": ran(1.36)},
         "EAGLE-2", ["MoA N=0 reaches 1.28 ×, behind EAGLE-2 (1.36 ×).", SAME]),
        ({"moa_n0": ran(1.28, spread=2), "eagle2": ran(1.31, spread=1), "ngram": ran(1.0),
          "medusa": ran(0.9, spread=1), "moa_n0+ngram": ran(1.4), "eagle2+ngram": ran(1.5)},
         "EAGLE-2 + n-gram",
         ["MoA N=0 reaches 1.28 ×, level with EAGLE-2 (1.31 ×), ahead of Medusa (0.90 ×).",
          "For use: EAGLE-2 + n-gram (1.50 ×). Untrained lookup alone reaches 1.00 ×.", SAME]),
        ({"moa_n0": ran(1.2), "moa_n0+ngram": ran(1.32)},
         "MoA N=0 + n-gram",
         ["MoA N=0 reaches 1.20 ×.", "For use: MoA N=0 + n-gram (1.32 ×).", SAME]),
        ({"moa_n0": ran(0.74), "moa_n1": ran(0.97), "ngram": ran(1.08, 0.9)},
         "N-gram lookup", ["MoA N=0 reaches 0.74 ×, MoA N=1 0.97 ×."]),
        ({"moa_n0": ran(1.2, spread=2.5), "vanilla": ran(1, spread=1)},  # their passes overlap
         "", ["MoA N=0 reaches 1.20 ×.", SAME]),
        ({"moa_n0": ran(1.2), "eagle2": ran(1.22)},  # of single runs
         "EAGLE-2 and MoA N=0 are the fastest (1.20 to 1.22 ×)",
         ["MoA N=0 reaches 1.20 ×, level with EAGLE-2 (1.22 ×).", SAME]),
        ({"moa_n0": ran(1.2), "moa_n0+ngram": ran(1.5), "eagle2+ngram": ran(1.52)},
         "drafters alone 1.20 ×, with n-gram lookup 1.50 to 1.52 ×",
         ["MoA N=0 reaches 1.20 ×.",
          "For use: EAGLE-2 + n-gram (1.52 ×), level with MoA N=0 + n-gram (1.50 ×).", SAME]),
        ({"moa_n0": ran(1.2), "ngram": {**ran(1.3), "tau": 1.0}, "moa_n0+ngram": ran(1.5)},
         "MoA N=0 + n-gram",
         ["MoA N=0 reaches 1.20 ×.",
          "For use: MoA N=0 + n-gram (1.50 ×). Untrained lookup alone (1.30 ×) beats every drafter "
          "alone: its guesses cost almost nothing.", SAME]),
        ({"moa_n0": ran(0.8), "ngram": ran(1.08), "moa_n0+ngram": ran(0.9)},
         "N-gram lookup", ["MoA N=0 reaches 0.80 ×.", "For use: N-gram lookup (1.08 ×).", SAME]),
        ({"eagle2": ran(1.2)}, "", [SAME]),
        ({"eagle2": ran(1.2), "ngram": ran(1.4), "medusa": ran(1.03)}, "N-gram lookup", [SAME]),
    ],
)  # fmt: skip
def test_the_conclusion_says_whether_drafting_pays(methods, fastest, said):
    gains = [f"{one:.2f}" for one in sorted(found_in(methods))]
    ends = " to ".join(dict.fromkeys((gains[0], gains[-1])))
    whole, *points = conclusion(recording(**methods))
    counts = re.search(r"of (\d+) methods? that draft, (.+) \(", whole)
    if counts:
        assert sum(map(int, re.findall(r"\d+", counts[2]))) == int(counts[1]) == len(gains)
    elif few := re.search(r"faster with (\d+) of (\d+) methods", whole):
        assert (int(few[1]), int(few[2])) == (
            sum(one > 1.05 for one in found_in(methods)),
            len(gains),
        )
    assert ("Guessing ahead makes the target " in whole) == (not counts)
    assert f"{ends} ×" in whole or " alone " in fastest
    named = any(word in fastest for word in (" are ", " alone "))
    first = fastest if named else f"{fastest} is the fastest"
    assert whole.endswith(f" {first}.") if fastest else "fastest" not in whole
    both = {"moa_n0", "vanilla"} <= methods.keys()
    kinds = "By kind of prompt, MoA N=0 has 1.17 × (b) to 1.18 × (a)."
    assert points == [*said, *[kinds] * both]


def test_level_is_explained_as_it_was_measured_and_so_is_sampling():
    for repeat, rule in {1: "within 5\u00a0%", 2: "their passes overlap"}.items():
        found = recording(vanilla=ran(1), moa_n0=ran(1.2, same=0.5))
        found.results["settings"] |= {"repeat": repeat, "temperature": 1.0}
        assert f"Level: {rule}." in headline(found) and DRAWN in headline(found)
    assert DRAWN not in headline(recording(vanilla=ran(1), moa_n0=ran(1.2)))


def test_over_the_same_prompts_two_methods_are_level_if_chance_could_turn_their_order():
    costs = {
        "vanilla": [[64, 2.0]] * 10,
        "moa_n0": [[64, 1.0]] * 10,
        "eagle2": [[64, 0.9]] * 10,  # on each prompt
        "eagle3": [[64, 0.5]] * 5 + [[64, 1.3]] * 5,  # on some
    }
    speeds = {name: 10 * 640 / sum(second for _, second in of) for name, of in costs.items()}
    found = {
        name: {
            **figures(2, speeds[name], spread=900),
            "by_prompt": of,
            "speedup_spread": [1.9, 2.1],
        }
        for name, of in costs.items()
    }
    told = headline(recording(**found))
    rank = (
        "MoA N=0 reaches 1.50 × (95\u00a0%: 1.90 to 2.10), behind EAGLE-2 (1.50 ×), level with "
        "EAGLE-3 (1.50 ×)."
    )
    assert rank in told
    assert "interval of their ratio, over the prompts, includes 1." in told
    rows = table(recording(**found))
    assert list(rows["× low"].dropna()) == [1.9] * 4 and list(rows["× high"].dropna()) == [2.1] * 4


def test_without_drafting_there_is_no_conclusion():
    found = recording(vanilla=ran(1), hf_generate={**ran(2), "tree": None})
    assert conclusion(found) == [] and "No method that drafts" in headline(found)
    assert choice(found) == title(found)


def test_a_choice_names_the_method_with_the_highest_speed():
    found = recording(vanilla=ran(1), moa_n0=ran(1.2), eagle2=ran(1.3), hf={**ran(2), "tree": None})
    assert choice(found) == f"{title(found)}: EAGLE-2 1.30 ×"
    found.results["machine"]["processor"] = "A Chip (AVX2)"
    for here, mark in {
        "Another Chip (AVX2)": "this server’s kind of processor",
        "A Chip (AMX_INT8)": "older processor", "A Chip": "older processor",
    }.items():  # fmt: skip
        assert choice(found, here).endswith(f", {mark} (AVX2): EAGLE-2 1.30 ×")


def test_the_first_one_is_of_this_servers_kind_of_processor(monkeypatch):
    made = [(tab.FIRST, "auto", "A Chip"), ("Other trees", "same", "A Chip (AVX2)"),
            ("Older", "auto", "A Chip (AVX2)"), ("Newer", "auto", "A Chip (AMX_INT8)")]  # fmt: skip
    there = [recording(name, processor=kind) for name, _, kind in made]
    for one, (_, tree, _) in zip(there, made, strict=True):
        one.results["settings"]["tree"] = tree
    monkeypatch.setattr(tab, "recordings", lambda: there)
    for here, name in {"AVX2": "Older", "AMX_INT8": "Newer", "NEON": tab.FIRST}.items():
        monkeypatch.setattr(tab, "processor", lambda here=here: f"My Chip ({here})")
        assert tab.first("tiny").name == tab.ours()[0].name == name


def test_the_papers_figures_are_apart_and_without_the_flagged_cells():
    for words, ours in ((beside(ONE), "1.50|3.00"), (beside(), "–|–")):
        rows = re.findall(r"<tr><th scope=.row.>(.+?)</th>(.+?)</tr>", words)
        cells = {name: "|".join(re.findall("<td>(.+?)</td>", row)) for name, row in rows}
        assert cells["MoA N=1"] == f"{ours}|1.98|4.56"  # without GSM8K
        assert cells["EAGLE-2"] == "–|–|1.82|3.65"
        assert "Not measured here" in words and "2410.03804" in words and "slip" in words


# ---- files that visitors bring ----


def no_number(name):
    pytest.fail(f"{name} goes to the page")


@given(SEEDS)
def test_a_trace_that_is_let_in_can_be_shown_everywhere(seed):
    """What is sent is JSON that a browser reads, without numbers that are none."""
    try:
        trace = Trace.from_json(json.dumps(mutated(json.loads(worded_trace()), seed)))
        text = RecordedText(trace)
    except UserError:
        return
    feed = Feed(text, "drafter")
    json.loads(json.dumps([feed.head("r", trace), *feed.lines(trace.events)]))
    recorded_tree(trace)
    live(trace.about.get("method", ""), {trace.about.get("method", ""): [trace]})
    try:
        json.loads(packed(trace), parse_constant=no_number)
    except UserError as error:
        assert "damaged" in str(error)
