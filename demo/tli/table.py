"""A sweep's numbers as a table: the same ones that the charts show."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from demo.common.figures import CUT, tree_words
from demo.common.methods import AUTO, VANILLA
from demo.common.spread import Spread
from demo.tli.rows import Row

DEFINITION = (
    "<b>Acceptance length τ</b>: tokens gained per target forward after the prefill, the target’s "
    f"own bonus token included, and {CUT}; plain decoding has 1."
)
HEADS = (
    "Method",
    "τ",
    "Draft, ms per cycle",
    "Verify, ms per cycle",
    "Tokens per second",
    "Decoding alone",
    "× plain",
    "Tree",
)


def table_html(rows: Sequence[Row], trees: str) -> str:
    """Rows of medians with the lowest and highest of the repeats; trees: a word on the tree."""
    plain = next((row.rate.middle for row in rows if row.method == VANILLA), None)
    heads = "".join(f'<th scope="col">{escape(head)}</th>' for head in HEADS)
    drafted = {row.tree for row in rows if row.fixed}
    body = "".join(_row(row, plain, len(drafted) > 1) for row in rows)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="The sweep’s numbers"><table>'
        f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
        f"<p>{DEFINITION} Each figure is the median of the repeats, with the lowest and highest in "
        "small print. Tokens per second and × plain count the whole run, prefill included; "
        f"decoding alone leaves it out. Trees: depth-breadth-budget. {escape(trees)}</p>"
    )


def _row(row: Row, plain: float | None, several: bool) -> str:
    """several: whether the N differ in their trees, and so auto N in those of its cycles."""
    tree = "each N’s" if several and row.method == AUTO else tree_words(row.tree)
    times = "" if plain is None else f"{row.rate.middle / plain:.2f}"
    cells = [
        _cell(row.tau, 2, row), _cell(row.draft, 1, row), _cell(row.verify, 1, row),
        _cell(row.rate, 0, row), _cell(row.decoding, 0, row), f"<td>{times}</td>",
        f"<td>{tree}</td>",
    ]  # fmt: skip
    return (
        f'<tr data-method="{escape(row.method)}"><th scope="row">{escape(row.name)}</th>'
        f"{''.join(cells)}</tr>"
    )


def _cell(spread: Spread, digits: int, row: Row) -> str:
    small = ""
    if row.runs > 1 and f"{spread.low:.{digits}f}" != f"{spread.high:.{digits}f}":
        small = f" <small>{spread.low:.{digits}f}–{spread.high:.{digits}f}</small>"
    return f"<td><b>{spread.middle:.{digits}f}</b>{small}</td>"
