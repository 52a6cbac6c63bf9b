"""Runs are recorded with any target's drafters; the page and the static page work without them."""

from dataclasses import replace

import pytest

from demo import static
from demo.common.methods import colour
from demo.compare import bench, race
from demo.engine import Engine
from demo.inside.tab import _open
from demo.live.recording import place, record, recording
from moa_core.decoding.trace import LinkBack, LinkDown, OfflineToken
from tests.models import save_bundle


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("MOA_MODELS", str(tmp_path))
    save_bundle(tmp_path, max_position_embeddings=512)
    return tmp_path


def test_what_is_recorded_is_played_and_its_cut_heals(folder, monkeypatch):
    assert recording() is None and record(Engine(), 1) == place() == folder / "recording.json"
    old = place().read_text().replace(colour("eagle2"), "red")
    place().write_text(old)
    kept = recording()
    methods = [one.about["method"] for one in (kept.trace, kept.rival, kept.plain)]
    assert methods == ["moa-n0", "eagle2", "vanilla"]
    assert kept.trace.output_ids == kept.rival.output_ids == kept.plain.output_ids
    lanes = kept.measured["lanes"]
    assert [lane["method"] for lane in lanes] == methods
    assert [lane["colour"] for lane in lanes] == [colour(name) for name in methods]
    assert set(kept.measured["over"]) == {"eagle2", "vanilla"} and kept.measured["runs"] == 1
    played = kept.stage()
    for name, trace in (("drafter", kept.trace), ("plain", kept.plain)):
        assert {line["lane"] for line in played[name]} == {name}
        assert sum("cycle" in line for line in played[name]) == trace.target_calls - 1
    alone = len(kept.cut.of(OfflineToken))
    assert 0 < alone <= len(kept.trace.output_ids) // 3 and len(kept.cut.of(LinkDown)) == 1
    assert [one.tokens for one in kept.cut.of(LinkBack)] == [alone]
    assert kept.cut.output_ids == kept.plain.output_ids
    measured = {**kept.measured, "over": {"eagle2": None, "vanilla": None}}
    monkeypatch.setattr(race, "recording", lambda: replace(kept, measured=measured))
    said, same, *_ = bench.verdict(race.recorded_rows(), recorded=True)
    assert said.startswith("No drafter was clearly faster: MoA N=0 ")
    assert same == "Same text ✓"
    shown = race.recorded_race()["lanes"][1]
    assert shown["tau"] == f"{lanes[1]['tau']:.2f} tokens per call" and "× plain" in shown["over"]
    assert static.main([str(folder / "page")]) == 0
    assert "This is a recording" in (folder / "page" / "index.html").read_text()


def test_without_a_recording_the_page_asks_for_a_run(folder, capsys):
    assert race.recorded_rows() == []
    status, *unchanged = _open(Engine(), None, "", "")
    assert "Press Run in Live first" in str(status) and len(unchanged) == 6
    assert static.main([str(folder / "page")]) == 2
    assert "There is no recorded run yet" in capsys.readouterr().err
    assert not (folder / "page").exists()
