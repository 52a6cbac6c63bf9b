"""Write the prompts that are measured with: python -m moa_core.train.bundle.suite --texts DATA"""

from __future__ import annotations

import argparse
import json
import sys
from itertools import chain

from moa_core.arguments import check_folder, path
from moa_core.assets import ASSETS
from moa_core.errors import ended
from moa_core.train.bundle.__main__ import check_kinds, held_out_texts
from moa_core.train.bundle.prompts import Chat
from moa_core.train.bundle.tasks import KINDS

SUITE = {  # kinds of text that make up each kind of prompt
    "story": ["story", "world continued"],
    "words": ["world words"],
    "reading": ["world reading"],
    "sum": ["task sum"],
    "task": [f"task {kind}" for kind in KINDS if kind != "sum"],
}
EACH, TUNING = 40, 4  # prompts of each kind
LONGEST = 1_800  # characters of a prompt: the longest text is 1,024 tokens


def main() -> None:
    """Write `bundled.jsonl` and `tuning.jsonl`, which have no prompt in common."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=path, required=True, help="folder of open texts")
    parser.add_argument("--out", type=path, default=ASSETS / "suites")
    options = parser.parse_args()
    check_folder(options.out)
    drawn = held_out_texts(options.texts, 2 * (EACH + TUNING))
    check_kinds(chain(*SUITE.values()), drawn)
    lines: dict[str, list[str]] = {"bundled": [], "tuning": []}
    for kind, sources in SUITE.items():
        # The sources take turns, so that all are in both files.
        turns = chain.from_iterable(zip(*(drawn[source] for source in sources), strict=True))
        found = dict.fromkeys(line for one in turns if (line := _line(kind, one)))
        lines["bundled"] += list(found)[:EACH]
        lines["tuning"] += list(found)[EACH : EACH + TUNING]
    options.out.mkdir(parents=True, exist_ok=True)
    for name, prompts in lines.items():
        (options.out / f"{name}.jsonl").write_text("\n".join(prompts) + "\n", encoding="utf-8")


def _line(kind: str, made: Chat | str) -> str | None:
    """The chat without its last reply; None if it is too long."""
    line = json.dumps({"kind": kind, "messages": made[:-1]}, ensure_ascii=False)
    return line if len(line) < LONGEST else None


if __name__ == "__main__":
    sys.exit(ended(main))
