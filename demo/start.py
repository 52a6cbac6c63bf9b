"""What makes the start quick. Import it before anything large, and call `done` once all is built.

An import makes half a million objects that stay for good. Python's collector of garbage walks them
again and again meanwhile, in vain: without it they are there a fifth sooner.
"""

from __future__ import annotations

import gc

gc.disable()


def done() -> None:
    """Collect garbage from here on, but do not walk again what is here to stay."""
    gc.freeze()
    gc.enable()
