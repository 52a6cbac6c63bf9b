"""What was recorded of answers without the target."""

from html import escape

from demo.common.methods import RIVAL, family, label
from moa_core.bench.records import ALL, Row, select


def right_answers(found: dict[str, Row]) -> str:
    """How many of the target's right answers are right without it, cut at the start."""
    told = ""
    for one in found.values():
        if one["kind"] == "answers":
            rows = select(one["rows"], kind=ALL, cut=0.0)
            best = sorted(rows, key=lambda row: -row["right"])
            shares = [f"{escape(label(row['method']))} {100 * row['right']:.0f} %"
                      for row in best if family(row["method"]) in ("moa", RIVAL)]  # fmt: skip
            told += (
                "<p>A few short answers are right without the target. Of "
                f"{rows[0]['asked']} questions that it answers right, drafters that are cut off "
                f"after the first token still answer right: {', '.join(shares)}.</p>"
            )
    return told
