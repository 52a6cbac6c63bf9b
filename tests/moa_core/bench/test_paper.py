"""The recorded table of the paper: one source for the report, the claim and the page."""

import json

import pytest

from moa_core.bench.paper import PATH, published

TABLE = json.loads(PATH.read_text(encoding="utf-8"))


def test_it_is_the_recorded_table():
    paper = published()
    assert [row.drafter for row in paper.rows] == [row["drafter"] for row in TABLE["rows"]]
    for row, printed in zip(paper.rows, TABLE["rows"], strict=True):
        assert [cell and list(cell) for cell in row.cells] == printed["cells"]
        assert list(row.printed) == printed["printed_mean"]
        assert row.flagged == (None in printed["cells"])
    assert (paper.target, list(paper.sets)) == (TABLE["target"], TABLE["data"])


def test_moa_by_n():
    rows = published().by_tli
    printed = {tli: row.printed for tli, row in rows.items()}
    assert list(printed.items()) == [(0, (1.95, 4.22)), (1, (1.95, 4.50)), (3, (1.79, 4.79))]


def test_means_leave_the_flagged_cells_out():
    paper = published()
    assert [paper.sets[at] for at in range(6) if at not in paper.shared] == ["GSM8K"]
    cells = [cell for cell in TABLE["rows"][0]["cells"] if cell]
    assert paper.mean(paper.rows[0]) == pytest.approx(
        tuple(sum(part) / 5 for part in zip(*cells, strict=True))
    )


def test_without_the_file_there_is_no_table(tmp_path):
    assert published(tmp_path / "none.json") is None
