"""The TLI tab: what is swept, its figures, its sentences, its table and its drawing."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

import demo.engine as module
from demo.common import measure as measuring
from demo.common.measure import Measured
from demo.common.methods import AUTO as AUTO_N
from demo.common.spread import Spread
from demo.engine import Engine
from demo.tli.drawing import drawing_html, explanation
from demo.tli.rows import Row, rows_of, sameness, sentences, settled
from demo.tli.run import SAME, Plan, sweep
from demo.tli.table import table_html
from moa_core.decoding.decode import Settings
from moa_core.decoding.trace import Drafted, Finished, Prefilled, Trace, Verified
from moa_core.decoding.tree import DraftTree, TreeSettings
from moa_core.errors import UserError
from moa_core.loading.catalog import Installed
from tests.demo.conftest import TREE
from tests.models import save_bundle

PROMPT = "once upon a time"


def swept(engine, **plan):
    made = Measured()
    plan = Plan(PROMPT, **{"tokens": 30, "repeats": 1, "auto": False, **plan})
    return made, list(sweep(engine, plan, made))


def asked(loads):
    return [item for item in loads if isinstance(item, Settings)]


def test_plain_decoding_and_every_n_take_turns_with_one_tree_or_each_its_own(loads, monkeypatch):
    monkeypatch.setattr(measuring, "INTERVAL", 1e9)
    made, steps = swept(Engine(), repeats=2)
    assert [step.method for step in steps[3:]] == [
        "vanilla", "moa-n0", "moa-n1", "moa-n0", "moa-n1", "vanilla",
    ]  # fmt: skip
    assert [len(found) for found in made.traces.values()] == [2, 2, 2]
    assert {each.tree for each in asked(loads)} == {SAME}
    loads.clear()
    swept(Engine(), trees="own")
    assert [each.tree for each in asked(loads)] == [TreeSettings(), TREE, TREE] * 2


def test_what_cannot_be_swept_is_refused(loads, monkeypatch):
    with pytest.raises(UserError, match="1 to 5"):
        Plan(PROMPT, repeats=6)
    with pytest.raises(UserError, match="empty"):
        list(sweep(Engine(), Plan("  "), Measured()))
    monkeypatch.setattr(module, "bundle", lambda: Installed("fake", {}))
    with pytest.raises(UserError, match="no N to sweep"):
        swept(Engine())
    assert asked(loads) == []


@pytest.fixture(scope="module")
def bundled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundle")
    save_bundle(folder)
    return folder


@pytest.mark.parametrize("trees", ["same", "own"])
def test_auto_n_runs_beside_the_fixed_ones(bundled, monkeypatch, trees):
    monkeypatch.setenv("MOA_MODELS", str(bundled))
    monkeypatch.setattr(module, "published", list)
    engine = Engine()
    made, _ = swept(engine, auto=True, trees=trees, tokens=40)
    assert list(made.traces) == ["vanilla", "moa-n0", "moa-n1", AUTO_N]
    rows = {row.method: row for row in rows_of(made.traces)}
    [trace] = made.traces[AUTO_N]
    assert len(rows[AUTO_N].choices) == len(trace.accepted_lengths) > 0
    assert set(rows[AUTO_N].choices) == {0, 1} and set(rows["moa-n1"].choices) == {1}
    assert trace.about["method"] == trace.about["drafter"] == AUTO_N
    assert "same" in sameness(made.traces) and trace.about["prompt"] == PROMPT
    sizes = {event.tli: len(event.tree) - 1 for event in trace.of(Drafted)}
    assert sizes == ({0: 6, 1: 7} if trees == "own" else {0: 12, 1: 12})
    assert trace.about["settings"]["tree"]["budget"] == (7 if trees == "own" else 12)
    assert not engine.busy and not engine.drafter(AUTO_N).trees  # the engine's is as it was


# ---- figures and sentences ----


def trace_of(gained, seconds, choices=None, token=9):
    """A run of cycles with these gains; seconds: in all, of drafting, verifying and the rest."""
    events = [Prefilled((1, 2), token, 0.5, 0.1)]
    for cycle, count in enumerate(gained):
        tli = choices[cycle] if choices else None
        events.append(Drafted(cycle, 1, DraftTree.only_root(9), 0.0, tli))
        path, emitted = tuple(range(1, count)), (token,) * count
        events.append(Verified(cycle, path, 9, (), (), (), emitted, 0.0, 0.0))
    spent = dict(zip(("draft", "verify", "other"), seconds, strict=True))
    return Trace(events=[*events, Finished("length", {"prefill": 0.1, **spent})])


def row(method, rate, tau=3.0, draft=5.0, choices=(), spread=0.0, runs=3):
    spreads = [Spread(value, value * (1 - spread), value * (1 + spread))
               for value in (tau, draft, 9.0, rate, rate + 9)]  # fmt: skip
    return Row(method, *spreads, runs, 40, choices)


PLAIN, N0 = row("vanilla", 100, 1.0, 0.0), row("moa-n0", 150, 3.0, 4.0)
N1, N3 = row("moa-n1", 120, 3.5, 6.0), row("moa-n3", 90, 4.0, 9.0)
AUTO = row("moa-auto", 130, 3.2, 6.5, choices=(0, 0, 1, 3, 0), spread=0.1)
ROWS = [PLAIN, N0, N1, N3, AUTO]


def said(*rows):
    return "\n".join(lead + rest for lead, rest in sentences(rows))


def test_figures_are_medians_and_spreads_of_the_runs():
    runs = [trace_of((3, 1, 4), (0.3, 0.6, 0.1)), trace_of((3, 1, 4), (0.6, 0.6, 0.4))]
    [found] = rows_of({"moa-n0": runs})
    assert (found.tau, found.runs, found.tokens) == (Spread(8 / 3, 8 / 3, 8 / 3), 2, 9)
    assert found.draft == Spread(*map(pytest.approx, (150, 100, 200)))
    assert found.rate == Spread(*map(pytest.approx, ((9 / 1.1 + 9 / 1.7) / 2, 9 / 1.7, 9 / 1.1)))
    assert found.decoding == Spread(*map(pytest.approx, (6.5, 5, 8)))  # the prefill left out
    assert rows_of({"vanilla": [], "moa-n0": [trace_of((), (0, 0, 0))]}) == []
    [found] = rows_of({"moa-auto": [trace_of((2, 3), (1, 1, 1), (0, 1))]})
    assert found.choices == (0, 1) and not found.fixed
    assert (found.name, found.short) == ("MoA, auto N", "Auto N")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ((PLAIN, N0, N1, N3), "Fastest here: N = 0 with 150.0 tokens per second, 25 % ahead of N = "
         "1; 1.50 × plain decoding."),
        ((PLAIN, N0, N1, N3), "Highest τ: N = 3 with 4.00, against 3.00 at N = 0. Drafting takes "
         "9.0 ms per cycle at N = 3, 4.0 ms at N = 0."),
        ((row("vanilla", 200), N0, N1), "every N is slower than plain decoding"),
        ((row("moa-n0", 150, spread=0.2), row("moa-n1", 140, spread=0.2)),
         "too close to call against N = 1"),
        ((row("moa-n0", 150, runs=1), row("moa-n1", 150, runs=1)), "level with N = "),
        ((row("moa-n0", 150, 4.0), row("moa-n1", 120, 3.5)),
         "against 3.50 at N = 1. On this prompt more layers did not raise τ."),
        ((PLAIN, N0, N1, row("moa-auto", 120, draft=5.5, choices=(0,))),
         "20 % slower than N = 0, the best fixed N. Its drafting takes 1.5 ms per cycle more than "
         "that of N = 0: it tries other N too"),
        ((N0, N1, row("moa-auto", 160, choices=(0,))), "7 % faster than N = 0"),
        ((N0, N1, row("moa-auto", 149, choices=(0,))), "as fast as N = 0"),
        ((row("moa-n0", 150, spread=0.2), row("moa-auto", 120, spread=0.2, choices=(0,))),
         "too close to call against N = 0"),
    ],
)  # fmt: skip
def test_sentences_say_what_the_figures_say(rows, words):
    assert words in said(*rows)
    assert ("too close" in words) == ("too close" in said(*rows))


def test_nothing_is_said_that_is_not_known():
    assert sentences([PLAIN]) == [] and "plain" not in said(N0, N1)
    assert settled((1, 1, 1, 1, 0, 0, 0, 0)) == "settled on N = 0 (4 of its last 4 cycles)"
    assert settled((0, 1, 0, 1)).startswith("did not settle on one N (most often N = ")
    assert settled((2,)) == "settled on N = 2 (1 of its last 1 cycle)"
    assert settled(()) == settled((None,)) == "had no cycle to choose for"
    same = [trace_of((2,), (1, 1, 1)), trace_of((1, 1), (1, 1, 1))]
    odd = trace_of((2,), (1, 1, 1), token=8)
    assert sameness({"a": same[:1]}) == ""
    assert sameness({"a": same[:1], "b": same[1:]}) == "All 2 runs wrote the same 3 tokens."
    assert sameness({"a": same, "b": [odd]}) == "1 of 3 runs wrote another text than the others."


def test_the_table_has_the_same_numbers_and_names_each_tree():
    page = table_html(ROWS, "Tree: <3>.")
    cells = [re.findall(r"<b>([\d.]+)</b>", line) for line in page.split("<tr ")[1:]]
    assert cells[1] == ["3.00", "4.0", "9.0", "150", "159"]
    assert "<small>117–143</small>" in page and "<td>1.50</td>" in page
    assert "own bonus token included" in page and "Tree: &lt;3&gt;." in page

    def trees(*shapes):
        rows = [replace(one, tree=TreeSettings(*shape)) for one, shape in
                zip((N0, N1, N3), shapes, strict=True)]  # fmt: skip
        return re.findall(r"<td>([^<]*)</td></tr>", table_html([PLAIN, *rows, AUTO], ""))

    assert trees((5, 4, 12), (5, 4, 12), (5, 4, 12)) == ["–", *["5-4-12"] * 3, "–"]
    assert trees((6, 3, 12), (5, 1, 5), (5, 1, 5))[-1] == "each N’s"


@pytest.mark.parametrize("tli", range(4))
@pytest.mark.parametrize("layers", [None, 2, 12])
def test_the_drawing_runs_the_last_n_layers_and_no_other(tli, layers):
    page = drawing_html(tli, layers)
    assert "<em>adds</em>" in page and 'role="img"' in page and "aria-label" in page
    groups = ElementTree.fromstring(re.search(r"<svg.*</svg>", page)[0]).iter(
        "{http://www.w3.org/2000/svg}g"
    )
    drawn = [(one.get("class"), one[1].text) for one in groups if float(one[0].get("x")) > 200]
    named = {12: [12, 11, 10]}.get(layers, ["L", "L−1", "L−2"])
    assert [text for _, text in drawn if text.startswith("layer")] == [
        f"layer {name}" for name in named[:tli]
    ]
    assert [text for kind, text in drawn if kind == "box own"] == ["CA", "SA"]
    assert (("box reused", "norm") in drawn) == bool(tli)
    assert explanation(0, 12).endswith("while drafting.")
    assert "last layer of 12 (same weights), once per draft level" in explanation(1, 12)
    assert "last 3 layers (same weights)" in explanation(3)
