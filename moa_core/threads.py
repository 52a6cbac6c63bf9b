"""How many processor threads decode quickest here, by a short measurement.

The operations of a small model are so short that threads meet more than they work: more of them
than are free make each operation wait. How many are free nobody but a measurement can say.
"""

from __future__ import annotations

import os
from time import perf_counter

import torch

from moa_core.decoding.tree import DraftTree
from moa_core.model.target import Target, is_split

LARGE = 3e8  # numbers of a model whose products are work enough for all threads there are
READ, NODES = 64, 12  # tokens of the prompt; drafts of the tree
TIMES = 8


def settle(target: Target, asked: int | None = None) -> int:
    """Set this thread's number of threads: as asked, by OMP_NUM_THREADS, or the quickest."""
    if asked or (target.device.type == "cpu" and "OMP_NUM_THREADS" not in os.environ):
        torch.set_num_threads(asked or quickest(target))
    return torch.get_num_threads()


@torch.inference_mode()
def quickest(target: Target) -> int:
    """The number, of powers of two up to torch's own, that verifies and steps soonest.

    Takes some steps of the target for each number it tries; it tries none for a large model. A
    smaller number is preferred to one that is less than a twentieth quicker.
    """
    target, most = target.fork(), torch.get_num_threads()
    numbers = sum(weight.numel() for weight in target.model.parameters())
    if most == 1 or numbers > LARGE or is_split(target.model):
        return most
    best, number, least = most, 1, float("inf")
    try:
        while number <= most:
            torch.set_num_threads(number)
            took = _seconds(target)
            if took < 0.95 * least:
                best, least = number, took
            number = most if number < most < 2 * number else 2 * number
        return best
    finally:
        torch.set_num_threads(most)


def _seconds(target: Target) -> float:
    """The shortest plain step and the shortest verification of a tree, together."""
    chain = range(NODES)
    tree = DraftTree(
        (0,) * (NODES + 1), (-1, *chain), (0, *(1 + n for n in chain)), (0.0,) * (NODES + 1)
    )
    found = 0.0
    target.prefill([0] * READ, READ + NODES + 1)  # a run keeps the threads that it began with
    for one in (DraftTree.only_root(0), tree):
        took = []
        for _ in range(TIMES):
            began = perf_counter()
            target.verify(one)
            took.append(perf_counter() - began)
        found += min(took)
    return found
