"""Figures in Markdown files are those of the recordings."""

from pathlib import Path

import pytest

from moa_core.bench.tables import BLOCK, TABLES, filled

ROOT = Path(__file__).parents[3]
FILES = "README.md", "assets/results/README.md"


@pytest.mark.parametrize("name", FILES)
def test_tables_are_those_of_the_recordings(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    assert filled(text) == text  # else: python -m moa_core.bench.tables FILES


def test_every_table_stands_in_a_file_and_a_changed_figure_is_put_right():
    texts = [(ROOT / name).read_text(encoding="utf-8") for name in FILES]
    found = [found for text in texts for found in BLOCK.finditer(text)]
    assert {one[2] for one in found} == set(TABLES)
    changed = texts[0].replace("| 1.00 |", "| 9.99 |")
    assert changed != texts[0] and filled(changed) == texts[0]
