"""What makes the start quick, and keeps the process small.

Import it before anything large, and call `done` once all is built.

The imports make some 900,000 objects that stay for good. Python's collector of garbage walks them
again and again meanwhile, in vain: without it the page is there a second sooner, after
5.5 s and not 6.6 (`python -m tests.browser.bench_start`, two busy cores).
"""

from __future__ import annotations

import gc

from moa_core.footprint import keep_small

gc.disable()
keep_small()


def done() -> None:
    """Collect garbage from here on, but do not walk again what is here to stay."""
    gc.freeze()
    gc.enable()
