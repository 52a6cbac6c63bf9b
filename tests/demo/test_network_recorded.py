"""Recordings of links: a sentence without any, and never anybody's HTML."""

import pytest

from demo.network.recorded import NONE, recorded, recorded_charts, records_html
from moa_core.bench.link_files import write


def test_without_recordings_there_is_a_sentence(tmp_path):
    assert recorded(tmp_path) == {} and records_html({}) == NONE


def test_recordings_are_named_with_their_commands(tmp_path):
    one = {"version": 1, "kind": "offline", "date": "2026-11-20", "command": "a <b>", "rows": []}
    write(one, tmp_path / "cut.json")
    shown = records_html(recorded(tmp_path))
    assert "<b>cut</b>: offline, 2026-11-20" in shown and "a &lt;b&gt;" in shown
    assert "API streaming has no drafter" in shown


def test_damaged_files_are_no_recordings(tmp_path):
    (tmp_path / "cut.json").write_text("{}")
    assert recorded(tmp_path) == {}


def test_every_recording_that_has_a_chart_is_drawn_with_its_own_numbers():
    found = recorded()
    assert {"offline", "link"} <= {one["kind"] for one in found.values()}
    right, liked, times = recorded_charts(found)
    lines = {line.name: line for line in right.data}
    for row in found["offline"]["rows"]:
        if row["kind"] == "tasks" and row["method"] == "moa-n1":
            at = lines["MoA N=1"].x.index(100 * row["cut"])
            assert lines["MoA N=1"].y[at] == pytest.approx(100 * row["right"])
    assert {"the target itself", "API streaming", "EAGLE-2"} <= set(lines)
    assert all(value <= 0 for line in liked.data for value in line.y)
    assert {line.name for line in times.data} >= {"MoA N=0", "EAGLE-2", "API streaming"}
    assert all(list(line.x) == list(found["presets"]["links"]) for line in times.data)
    [row] = [one for one in found["presets"]["rows"]
             if (one["method"], one["link"]) == ("eagle2", "4g")]  # fmt: skip
    [line] = [one for one in times.data if one.name == "EAGLE-2"]
    assert line.y[line.x.index("4g")] == row["ms_per_token"]
    assert "EAGLE-2 from" in right.layout.meta["words"]
