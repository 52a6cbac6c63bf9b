"""The recorded runs of the first screen and of the static page are what the bundle writes today."""

import pytest

from demo.engine import Engine
from demo.live.follow import requests_for
from demo.live.recording import COMMAND, FILE, cut_off, recording, request
from moa_core.decoding.trace import LinkBack, LinkDown, OfflineToken

STALE = f"{FILE.name} is not what the bundle writes: make it anew by `{COMMAND}`"
NEAR = 0.05  # of τ: at near ties drafts in int8 differ between processors, the text does not


@pytest.fixture(scope="module")
def traces():
    """The recorded run and those beside it, made now."""
    engine, made = Engine(), {}
    for method, asked in requests_for(engine, request(engine)).items():
        run = engine.prepare(asked)
        list(run.events)
        made[method] = run.trace
    return made


@pytest.mark.parametrize("which", ["trace", "rival", "plain"])
def test_the_recorded_runs_are_the_bundle_s(traces, which):
    kept = getattr(recording(), which)
    again = traces.get(kept.about["method"])
    assert again is not None and kept.about["prompt"] == again.about["prompt"], STALE
    assert kept.output_ids == again.output_ids, STALE
    assert again.tau == pytest.approx(kept.tau, rel=NEAR), STALE


def test_the_cut_is_the_bundle_s_and_heals():
    kept, engine = recording(), Engine()
    third = len(kept.trace.output_ids) // 3
    again = cut_off(engine, request(engine), third)
    alone = [[one.token for one in cut.of(OfflineToken)] for cut in (kept.cut, again)]
    assert len(alone[0]) == len(alone[1]) and kept.cut.output_ids == again.output_ids, STALE
    assert 0 < len(alone[0]) <= third and len(kept.cut.of(LinkDown)) == 1
    assert [one.tokens for one in kept.cut.of(LinkBack)] == [len(alone[0])]
    assert kept.cut.output_ids == kept.plain.output_ids


def test_what_is_recorded_beside_it_is_the_bundle_s_too(traces):
    known = recording().known
    assert {lane.method for lane in known.lanes} == set(traces), STALE
    for lane in known.lanes:
        assert lane.tau == pytest.approx(traces[lane.method].tau, rel=NEAR), STALE
    assert known.timed and known.plain["same"], STALE
    assert known.plain["calls"] == traces["vanilla"].target_calls, STALE
