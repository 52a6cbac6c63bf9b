"""The draft tree of each method: one for all, or the one at which each is fastest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

from moa_core.bench.methods import Method, Record
from moa_core.bench.results import decode_speed, grouped
from moa_core.bench.run import Contender, Decoding, run_all
from moa_core.bench.suites import Prompt
from moa_core.decoding.tree import TreeSettings, named_tree

SAME = TreeSettings(5, 4, 11)
# Chains first: prompt lookup and cheap drafters may want no more.
GRID = "5-1-5,4-2-5,5-2-5,4-3-11,5-4-11,6-4-17,7-6-23"
PASSES = 2  # over the tuning prompts, each tree in turn


def one_tree(text: str) -> TreeSettings:
    """The tree that --tree names. UserError for anything else."""
    return SAME if text == "same" else named_tree(text, "auto, same, best")


def best_trees(
    methods: Mapping[str, Method],
    grid: Sequence[TreeSettings],
    prompts: Sequence[Prompt],
    ids: Sequence[Sequence[int]],
    decoding: Decoding,
    folder: Path,
) -> dict[str, Contender]:
    """Each method with the tree of the grid at which it decodes fastest: prefills are alike.

    Measured on prompts that the benchmark itself does not have.
    """
    tried = {
        f"{name}@{tree}": Contender(method, tree)
        for name, method in methods.items()
        if method.trees
        for tree in dict.fromkeys(grid)
    }
    runs = run_all(tried, prompts, ids, PASSES, decoding, folder / "tuning.jsonl", "trees")
    speeds = tree_speeds(runs)
    best: dict[str, Contender] = {}
    for name, method in methods.items():
        mine = [entry for entry in tried if entry.rpartition("@")[0] == name]
        fastest = max(mine, key=lambda entry: speeds[entry], default=None)
        best[name] = Contender(method, tried[fastest].tree if fastest else None)
    return best


def tree_speeds(runs: Sequence[Record]) -> dict[str, float]:
    """Tokens per second of decoding, of each method and tree: the median over the passes."""
    return {
        name: median(decode_speed(one) or 0.0 for one in grouped(mine, "repeat").values())
        for name, mine in grouped(runs, "method").items()
    }
