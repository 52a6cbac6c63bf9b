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
            rows = [row for row in rows if family(row["method"]) in ("moa", RIVAL)]
            best = sorted(rows, key=lambda row: -row["right"])
            shares = [f"{escape(label(row['method']))} {100 * row['right']:.0f} %" for row in best]
            if not best:
                continue
            ends = dict.fromkeys(f"{100 * row['right']:.0f}" for row in (best[-1], best[0]))
            told += (
                f"<details><summary>To short questions, a drafter alone still gives "
                f"{' to '.join(ends)} % of the target’s right answers</summary><p>Of "
                f"{rows[0]['asked']} short questions that the target answers right, drafters that "
                f"are cut off after the first token still answer right: {', '.join(shares)}."
                "</p></details>"
            )
    return told
