"""Recordings of links: a sentence without any, and never anybody's HTML."""

from demo.network_records import NONE, recorded, records_html
from moa_core.bench.link_files import write


def test_without_recordings_there_is_a_sentence(tmp_path):
    assert recorded(tmp_path) == {} and records_html({}) == NONE


def test_recordings_are_named_with_their_commands(tmp_path):
    one = {"version": 1, "kind": "offline", "date": "2026-11-20", "command": "a <b>", "rows": []}
    write(one, tmp_path / "cut.json")
    shown = records_html(recorded(tmp_path))
    assert "<b>cut</b>: offline, 2026-11-20" in shown and "a &lt;b&gt;" in shown


def test_damaged_files_are_no_recordings(tmp_path):
    (tmp_path / "cut.json").write_text("{}")
    assert recorded(tmp_path) == {}
