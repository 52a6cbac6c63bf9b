"""Make the suite `tuning` of a file of prompts: `python -m moa_core.bench.tuning PROMPTS.jsonl.gz`.

Of each line, it needs `source`, `kind`, and `prompt` or the user's turns in `messages`. Prompts
under share-alike licences are left out. Training leaves out all that are held out here.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterable

from moa_core.bench.suites import SUITES
from moa_core.train.corpus import HELD_OUT_PERCENT, bucket

SHARE_ALIKE = ("dolly", "query-well", "efficientqa", "adversarial_qa")
LONGEST, COUNT = 1_200, 200  # characters of a prompt; prompts


def chosen(lines: Iterable[str]) -> list[dict[str, str]]:
    """First turns that a hash holds out, evenly over their kinds, so that each has its share."""
    held: dict[str, str] = {}
    for row in map(json.loads, lines):
        first = row["prompt"] if "prompt" in row else row["messages"][0]["content"]
        permissive = not any(part in row["source"] for part in SHARE_ALIKE)
        if permissive and len(first) <= LONGEST and bucket(first) < HELD_OUT_PERCENT:
            made = {"kind": row["kind"], "prompt": first, "source": row["source"]}
            held.setdefault(first, json.dumps(made, ensure_ascii=False))
    ranked = [json.loads(one) for one in sorted(held.values())]  # by kind
    return [ranked[at * len(ranked) // COUNT] for at in range(min(COUNT, len(ranked)))]


if __name__ == "__main__":
    with gzip.open(sys.argv[1], "rt", encoding="utf-8") as file:
        rows = chosen(file)
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    SUITES["tuning"].write_text(text, encoding="utf-8")
