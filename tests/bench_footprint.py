"""How a process grows that decodes one text after another: python -m tests.bench_footprint

Prompts of 3 to 200 words of this project's README, with the bundled models, 48 tokens each, methods
in turn. Prints texts, MB and seconds. --as-it-is leaves oneDNN's cache and malloc alone.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from random import Random
from time import monotonic

from moa_core.runtime import keep_small

METHODS = (
    "moa-n0", "moa-n1", "moa-n2", "moa-n3", "eagle2", "vanilla", "glide", "medusa", "independent",
    "ngram",
)  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=320)
    parser.add_argument("--as-it-is", action="store_true")
    options = parser.parse_args()
    if not options.as_it_is:
        keep_small()
    import psutil

    from demo.engine import Engine, Request
    from moa_core.decoding.tree import AUTO

    engine, me, draw = Engine(), psutil.Process(), Random(1)
    words = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8").split()
    for method in METHODS:
        engine.drafter(method)
    begun = monotonic()
    for number in range(1, options.texts + 1):
        count = draw.randint(3, 200)
        start = draw.randint(0, len(words) - count)
        prompt = " ".join(words[start : start + count])[:900]
        for _ in engine.prepare(Request(prompt, METHODS[number % 10], 48, AUTO)).events:
            pass
        if number % 40 == 0:
            print(number, me.memory_info().rss >> 20, round(monotonic() - begun, 1), flush=True)


if __name__ == "__main__":
    main()
