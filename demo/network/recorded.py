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
                "<details><summary>How often is a drafter right alone?</summary><p>Of "
                f"{rows[0]['asked']} short questions that the target answers right, drafters that "
                f"are cut off after the first token still answer right: {', '.join(shares)}."
                "</p></details>"
            )
    return told
