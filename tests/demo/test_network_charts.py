"""Figures of runs over a link, from traces whose numbers are known."""

import pytest

from demo.network.charts import course, latency, timeline, traffic
from moa_core.decoding.trace import Verified
from tests.demo.lost_links import gone, healed, kept, plain, trace

RUNS = (healed, kept, gone)


def test_the_course_has_the_silence_and_the_absence_in_it():
    found = course(trace(healed))
    [loss] = found.losses
    # 0.2 s to the first token, 0.1 s of shares; a cycle of 0.005 + 0.01 + 0.06 + 0.001 s.
    heard = 0.2 + 0.1 + 0.076
    assert loss.began == pytest.approx(heard + 1.2) and loss.cycle == 2
    assert loss.ended == pytest.approx(loss.began + 3.0) and loss.tokens == 5
    assert found.verified[0] == (0.2, 1) and found.verified[1][1] == 3
    assert found.verified[1][0] == pytest.approx(heard)
    assert [count for _, count in found.verified] == [1, 3, 4, 6]
    # Alone: 0.002 s a token, after a look of 0.1 s for the link.
    seconds, counts = zip(*found.alone, strict=True)
    assert counts == (4, 5, 6, 7, 8)
    assert seconds == pytest.approx([loss.began + 0.102 * count for count in range(1, 6)])


def test_a_link_that_stays_lost_is_lost_to_the_end():
    [loss] = course(trace(gone)).losses
    assert loss.ended is None
    assert "link lost to the end, 2 written alone" in timeline(trace(gone)).layout.meta["words"]


@pytest.mark.parametrize("run", RUNS)
def test_the_timeline_has_each_cycles_own_seconds(run):
    made = trace(run)
    bars = {bar.name: list(bar.y) for bar in timeline(made).data}
    answers = made.of(Verified)
    assert bars["server"] == [1000 * one.seconds for one in answers]
    assert bars["network"] == [1000 * one.network_seconds for one in answers]
    assert bars["draft, here"] == [1000 * drafted.seconds for drafted, _ in made.cycles]


@pytest.mark.parametrize("run", RUNS)
def test_traffic_has_each_cycles_own_bytes(run):
    made = trace(run)
    down, up = traffic(made).data
    assert list(down.y) == [one.received for one in made.of(Verified)]
    assert list(up.y) == [one.sent for one in made.of(Verified)]
    assert "5150 bytes from the server and 300 to it" in traffic(made).layout.meta["words"]


@pytest.mark.parametrize("run", RUNS)
def test_the_gap_is_shaded_and_named_in_both_charts(run):
    for chart in (timeline, latency):
        figure = chart(trace(run))
        [band], [note] = figure.layout.shapes, figure.layout.annotations
        assert band.x0 < band.x1 and "written alone" in note.text
        assert note.text in figure.layout.meta["words"]


def test_offline_tokens_are_drawn_as_other_marks():
    verified, alone = latency(trace(healed)).data
    assert verified.mode == "lines" and alone.mode == "markers" and len(alone.x) == 5
    assert list(verified.y) == [1, 3, 4, 6, 6]
    assert len(latency(trace(plain)).data) == 1


def test_a_run_that_never_began_has_charts_all_the_same():
    empty = trace(list)
    for chart in (timeline, latency, traffic):
        assert chart(empty).layout.meta["words"].endswith(".")
