"""For tests: how often hypothesis tries, and what it draws.

With `MOA_EXAMPLES=thorough` in the environment, pytest tries two thousand times each.
"""

import os

from hypothesis import settings
from hypothesis import strategies as st

from moa_core.decoding.tree import DraftTree

settings.register_profile("usual", derandomize=True, max_examples=60, deadline=None, database=None)
settings.register_profile("thorough", max_examples=2000, deadline=None, database=None)
settings.load_profile(os.environ.get("MOA_EXAMPLES", "usual"))


def few(usual: int) -> settings:
    """For slow examples: this number of them, or ten times as many if thorough."""
    thorough = settings.get_current_profile_name() == "thorough"
    return settings(max_examples=10 * usual if thorough else usual)


SEEDS = st.integers(0, 2**32)
TOKENS = 6  # few, so that what is drafted is often chosen


@st.composite
def trees(draw: st.DrawFn, most: int = 24, words: int = TOKENS) -> DraftTree:
    """Any draft tree, of so many words: parents first, siblings with tokens of their own."""
    tokens, parents, depths, log_probs = [draw(st.integers(0, words - 1))], [-1], [0], [0.0]
    taken: set[tuple[int, int]] = set()
    for _ in range(draw(st.integers(0, most - 1))):
        parent = draw(st.integers(0, len(tokens) - 1))
        token = draw(st.integers(0, words - 1))
        if (parent, token) in taken:
            continue
        taken.add((parent, token))
        tokens.append(token)
        parents.append(parent)
        depths.append(depths[parent] + 1)
        log_probs.append(log_probs[parent] - draw(st.floats(0, 9)))
    return DraftTree(tuple(tokens), tuple(parents), tuple(depths), tuple(log_probs))


def above(tree: DraftTree, node: int) -> list[int]:
    """The nodes from below the root to a node."""
    path: list[int] = []
    while node > 0:
        path.insert(0, node)
        node = tree.parents[node]
    return path


def paths(tree: DraftTree) -> list[tuple[int, ...]]:
    """The tokens from below the root to each node."""
    return [tuple(tree.tokens[one] for one in above(tree, node)) for node in range(len(tree))]
