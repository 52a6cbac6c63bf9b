"""A sweep's runs: in turn, warmed up, stoppable, and auto N on a tiny bundle."""

from itertools import groupby

import pytest

import demo.engine as module
from demo.common.methods import AUTO
from demo.common.turns import WARM_UP
from demo.engine import Engine
from demo.tli.rows import rows_of, sameness
from demo.tli.run import Plan, Sweep, sweep
from moa_core.bench.tuning import SAME
from moa_core.decoding.decode import Settings
from moa_core.decoding.trace import Drafted
from moa_core.decoding.tree import TreeSettings
from moa_core.errors import UserError
from moa_core.loading.installed import Installed
from tests.demo.conftest import TREE
from tests.models import save_bundle

PROMPT = "once upon a time"


def swept(engine, should_stop=lambda: False, **plan):
    made = Sweep(Plan(PROMPT, **{"max_new_tokens": 30, "auto": False, **plan}))
    return made, list(sweep(engine, made, should_stop, clock=iter(range(10**6)).__next__))


def settings_of(loads):
    return [item for item in loads if isinstance(item, Settings)]


def test_every_method_warms_up_and_then_they_take_turns(loads):
    made, steps = swept(Engine(), repeats=2)
    words = [word for word, _ in groupby(step.words for step in steps)]
    assert words == [
        "Warming up Vanilla: a short run that is not counted.",
        "Warming up MoA N=0: a short run that is not counted.",
        "Warming up MoA N=1: a short run that is not counted.",
        "Repeat 1 of 2: Vanilla (run 1 of 6).",
        "Repeat 1 of 2: MoA N=0 (run 2 of 6).",
        "Repeat 1 of 2: MoA N=1 (run 3 of 6).",
        "Repeat 2 of 2: MoA N=0 (run 4 of 6).",
        "Repeat 2 of 2: MoA N=1 (run 5 of 6).",
        "Repeat 2 of 2: Vanilla (run 6 of 6).",
    ]
    assert {name: len(found) for name, found in made.traces.items()} == {
        "vanilla": 2, "moa-n0": 2, "moa-n1": 2,
    }  # fmt: skip
    lengths = [each.max_new_tokens for each in settings_of(loads)]
    assert lengths == [WARM_UP] * 3 + [30] * 6


def test_progress_grows_to_all_runs(loads):
    _, steps = swept(Engine())
    done = [step.share for step in steps]
    assert done == sorted(done) and done[0] == 0 and 0.9 < done[-1] <= 1
    assert len(set(done)) > 100


def test_one_tree_for_all_or_each_its_own(loads):
    swept(Engine(), repeats=1)
    assert {each.tree for each in settings_of(loads)} == {SAME}
    loads.clear()
    swept(Engine(), repeats=1, own_trees=True)
    assert [each.tree for each in settings_of(loads)] == [TreeSettings(), TREE, TREE] * 2


def test_stop_keeps_what_is_finished(loads):
    calls = iter(range(10**6))
    made, steps = swept(Engine(), lambda: next(calls) > 130, repeats=5)
    assert 0 < made.finished < made.wanted == 15
    traces = [trace for found in made.traces.values() for trace in found]
    assert {len(trace.output_ids) for trace in traces} == {30} and steps[-1].words


def test_other_numbers_of_repeats_are_refused():
    with pytest.raises(UserError, match="1 to 5"):
        Plan(PROMPT, repeats=6)


def test_a_target_without_moa_has_nothing_to_sweep(loads, monkeypatch):
    monkeypatch.setattr(module, "bundle", lambda: Installed("fake", {}))
    with pytest.raises(UserError, match="no N to sweep"):
        swept(Engine())
    assert loads == []


def test_a_bad_prompt_is_refused_before_anything_is_decoded(loads):
    with pytest.raises(UserError, match="empty"):
        list(sweep(Engine(), Sweep(Plan("  "))))
    assert settings_of(loads) == []


@pytest.fixture(scope="module")
def bundled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundle")
    save_bundle(folder)
    return folder


@pytest.mark.parametrize("own_trees", [False, True])
def test_auto_n_runs_beside_the_fixed_ones(bundled, monkeypatch, own_trees):
    monkeypatch.setenv("MOA_MODELS", str(bundled))
    monkeypatch.setattr(module, "published", list)
    engine = Engine()
    made, _ = swept(engine, auto=True, own_trees=own_trees, repeats=1, max_new_tokens=40)
    assert list(made.traces) == ["vanilla", "moa-n0", "moa-n1", AUTO]
    rows = {row.method: row for row in rows_of(made.traces)}
    [trace] = made.traces[AUTO]
    assert len(rows[AUTO].choices) == len(trace.accepted_lengths) > 0
    assert set(rows[AUTO].choices) == {0, 1} and set(rows["moa-n1"].choices) == {1}
    assert trace.about["method"] == trace.about["drafter"] == AUTO
    assert "same" in sameness(made.traces)
    assert all(trace.about["prompt"] == PROMPT for trace in (*made.traces["vanilla"], trace))
    sizes = {event.tli: len(event.tree) - 1 for event in trace.of(Drafted)}
    assert sizes == ({0: 6, 1: 7} if own_trees else {0: 12, 1: 12})
    assert trace.about["settings"]["tree"]["budget"] == (7 if own_trees else 12)
    assert not engine.busy and not engine.drafter(AUTO).trees  # the engine's is as it was
