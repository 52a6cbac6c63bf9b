"""Who runs when, what is counted, what Stop keeps. No weights."""

import pytest

import demo.engine as module
from demo.compare.api import answers
from demo.compare.run import Comparison, Plan, compare, partings, usual
from demo.engine import Engine, Run
from moa_core.decoding.exactness import Exactness
from moa_core.decoding.trace import Finished, Prefilled, Trace
from moa_core.decoding.tree import TreeSettings
from moa_core.decoding.verify import Sampling
from moa_core.errors import UserError
from moa_core.loading.checkpoints import DrafterInfo
from tests.demo.comparisons import comparison_of, trace_of
from tests.models import plain_greedy, tiny_target

PROMPT = "once upon a time"
METHODS = ("moa-n0", "moa-n1", "vanilla")


def done(plan, should_stop=lambda: False, clock=lambda: 0.0):
    """A comparison and what was said on the way: one word a run, where the clock stands still."""
    comparison = Comparison(plan)
    return comparison, list(compare(Engine(), comparison, should_stop, clock))


def test_methods_take_turns_after_a_warm_up_that_is_not_counted(loads):
    comparison, said = done(Plan(PROMPT, METHODS, 3, 20))
    order = [(step.phase, step.method) for step in said]
    assert order[:3] == [("warm-up", name) for name in METHODS]
    firsts = [said[3 + 3 * repeat].method for repeat in range(3)]
    assert firsts == list(METHODS)
    assert [(step.repeat, step.run, step.runs) for step in said[3:]] == [
        (1 + run // 3, 1 + run, 9) for run in range(9)
    ]
    lengths = [one.max_new_tokens for one in loads if hasattr(one, "max_new_tokens")]
    assert lengths == [16] * 3 + [20] * 9
    assert {name: len(found) for name, found in comparison.traces.items()} == dict.fromkeys(
        METHODS, 3
    )
    assert comparison.finished == comparison.wanted == 9


def test_without_vanilla_plain_decoding_runs_once_for_its_text(loads):
    comparison, said = done(Plan(PROMPT, METHODS[:2], 1, 5))
    assert [step.phase for step in said] == ["warm-up"] * 2 + ["plain"] + ["run"] * 2
    assert comparison.plain == [9] * 5 and "vanilla" not in comparison.traces
    with_vanilla, _ = done(Plan(PROMPT, METHODS, 1, 5))
    assert with_vanilla.reference is None and with_vanilla.plain == [9] * 5


def test_the_share_done_grows_to_the_end(loads):
    ticks = iter(range(10**6))
    _, said = done(Plan(PROMPT, METHODS, 2, 30), clock=lambda: next(ticks))
    shares = [step.share for step in said]
    assert shares == sorted(shares) and shares[0] == 0 and 0.9 < shares[-1] <= 1
    assert len(said) > 100


def test_words_on_progress_say_which_method_and_which_repeat(loads):
    _, said = done(Plan(PROMPT, METHODS[:2], 2, 5))
    words = [step.words for step in said]
    assert words[0] == "Warming up MoA N=0: a short run that is not counted."
    assert "Plain decoding, not counted" in words[2]
    assert words[3] == "Repeat 1 of 2: MoA N=0 (run 1 of 4)."
    assert words[5] == "Repeat 2 of 2: MoA N=1 (run 3 of 4)."


def test_where_a_text_parts_is_found_with_the_gap_there():
    target, prompt = tiny_target(), [5, 9, 33]
    text = plain_greedy(target, prompt, 7)
    late, early = [*text[:5], 1, 2], [*text[:3], text[3] + 1, *text[4:]]
    comparison = comparison_of(
        moa_n0=[trace_of([3, 3], ids=text), trace_of([3, 3], ids=text)],
        moa_n1=[trace_of([3, 3], ids=ids) for ids in (late, text, early)],
        vanilla=[trace_of([1] * 6, ids=text)],
    )
    run = Run(target, prompt, Trace(), iter(()))
    found = partings(comparison, run)
    assert list(found) == ["moa-n1"] and found["moa-n1"].at == 3 and found["moa-n1"].gap > 0
    sampled = comparison_of(sampling=Sampling(0.7), **{
        name.replace("-", "_"): runs for name, runs in comparison.traces.items()
    })  # fmt: skip
    assert partings(sampled, run) == {}
    assert partings(comparison_of(moa_n1=[trace_of([2])], eagle2=[]), run) == {}


@pytest.mark.parametrize("stopped", [False, True])
def test_a_finished_or_stopped_comparison_knows_where_its_texts_part(loads, monkeypatch, stopped):
    asked, texts = [], iter([[9]] * 4 + [[8]] + [[9]] * 9)  # the second counted run is another

    def decode(target, drafter, ids, settings, should_stop):
        yield Prefilled(tuple(ids), next(texts)[0], 0.5, 0.1)
        yield Finished("length", {})

    monkeypatch.setattr(module, "decode", decode)
    monkeypatch.setattr(
        "demo.compare.run.compare_with_plain", lambda *given: asked.append(given) or Exactness(0, 2)
    )
    comparison = Comparison(Plan(PROMPT, METHODS, 2, 5))
    list(compare(Engine(), comparison, lambda: stopped and comparison.finished == 3))
    assert comparison.finished == (3 if stopped else 6)
    assert comparison.parted == {"moa-n1": Exactness(0, 2)}
    [(target, prompt_ids, ours, plain)] = asked
    assert (ours, plain) == ([8], [9]) and prompt_ids and target.name == "fake"


def test_own_trees_or_one_for_all(loads):
    done(Plan(PROMPT, METHODS, 1, 5))
    assert {one.tree.budget for one in loads if hasattr(one, "tree")} == {6, 12}
    loads.clear()
    done(Plan(PROMPT, METHODS, 1, 5, tree=TreeSettings(2, 2, 3)))
    assert {one.tree.budget for one in loads if hasattr(one, "tree")} == {3}


def test_every_run_has_the_same_sampling(loads):
    sampling = Sampling(0.7, seed=5)
    done(Plan(PROMPT, METHODS, 2, 5, sampling))
    assert {one.sampling for one in loads if hasattr(one, "tree")} == {sampling}


def test_stop_keeps_what_is_finished_and_drops_the_rest(loads):
    plan, asked = Plan(PROMPT, METHODS, 3, 20), []

    def after_five_runs():
        asked.append(1)
        return len(comparison.traces["moa-n0"]) == 2

    comparison = Comparison(plan)
    list(compare(Engine(), comparison, after_five_runs))
    # The fourth counted run begins the second repeat, with MoA N=1; the sixth is MoA N=0.
    assert {name: len(runs) for name, runs in comparison.traces.items()} == {
        "moa-n0": 2, "moa-n1": 2, "vanilla": 2,
    }  # fmt: skip
    assert all(run.reason == "length" for runs in comparison.traces.values() for run in runs)


def test_a_run_that_was_stopped_half_way_is_not_counted(loads):
    engine = Engine()
    comparison = Comparison(Plan(PROMPT, METHODS, 2, 500))
    stopped = []
    for step in compare(
        engine, comparison, lambda: bool(stopped), clock=iter(range(10**6)).__next__
    ):
        if step.run == 2 and step.share > 0.3:
            stopped.append(1)
    assert [len(runs) for runs in comparison.traces.values()] == [1, 0, 0]
    assert not engine.busy


def test_leaving_frees_the_engine(loads):
    engine = Engine()
    plan = Plan(PROMPT, METHODS, 2, 500)
    steps = compare(engine, Comparison(plan), clock=iter(range(10**6)).__next__)
    for _ in range(10):
        next(steps)
    assert engine.busy
    steps.close()
    assert not engine.busy


@pytest.mark.parametrize(
    ("wrong", "word"),
    [
        ({"methods": ()}, "Choose 2 to 4 methods to compare: none is chosen"),
        ({"methods": ("vanilla",)}, "only 1 is chosen"),
        ({"methods": ("moa-n0", "moa-n1", "eagle2", "ngram", "vanilla")}, "5 are chosen"),
        ({"methods": ("vanilla", "vanilla")}, "named twice"),
        ({"repeats": 0}, "1 to 5"),
        ({"repeats": 6}, "1 to 5"),
        ({"repeats": True}, "1 to 5"),
        ({"repeats": 1.5}, "1 to 5"),
        ({"methods": ("vanilla", "moa-n3")}, "N = 3"),
        ({"methods": ("vanilla", "magic")}, "magic"),
        ({"prompt": " "}, "empty"),
        ({"max_new_tokens": 1000}, "512"),
        ({"max_new_tokens": 0}, "at least 1"),
        ({"target": "giant"}, "no MoA N=0 drafter for this target"),
    ],
)
def test_what_cannot_be_compared_is_refused_before_anything_runs(loads, wrong, word):
    with pytest.raises(UserError, match=word) as caught:
        done(Plan(**{"prompt": PROMPT, "methods": METHODS, **wrong}))
    assert "\n" not in str(caught.value)
    assert not any(hasattr(one, "tree") for one in loads)


HEAD = DrafterInfo("someone/head", "given", 0, TreeSettings(), None)


def test_the_methods_to_begin_with(loads):
    assert usual(Engine()) == ["moa-n1", "vanilla"]
    assert usual(Engine(drafters={"given": HEAD})) == ["given", "vanilla"]
    assert usual(Engine("someone/model")) == ["ngram", "vanilla"]


def test_the_endpoint_streams_progress_then_rows_and_verdict(timed):
    *progress, last = answers(Engine(), Plan(PROMPT, METHODS, 2, 10))
    phases = [step["phase"] for step in progress]
    assert phases == sorted(phases, reverse=True) and set(phases) == {"warm-up", "run"}
    assert [step["run"] for step in progress][-1] == 6
    assert [row["method"] for row in last["rows"]] == list(METHODS)
    assert all(row["tau"] == 1 and row["repeats"] == 2 for row in last["rows"])
    assert last["verdict"].startswith("On this prompt MoA N=0 is level with MoA N=1")


def test_a_run_that_breaks_leaves_the_engine_free(loads, monkeypatch):
    def broken(*_):
        yield Prefilled((1,), 9, 0.5, 0.1)
        raise ZeroDivisionError

    monkeypatch.setattr("demo.engine.decode", broken)
    engine = Engine()
    with pytest.raises(ZeroDivisionError):
        list(compare(engine, Comparison(Plan(PROMPT, METHODS))))
    assert not engine.busy
