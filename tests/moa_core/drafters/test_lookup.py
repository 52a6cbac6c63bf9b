"""A drafter with n-gram lookup: one tree has both's drafts, and each learns from its own."""

from itertools import pairwise

import pytest
from hypothesis import given

from moa_core.decoding.trace import Drafted
from moa_core.decoding.tree import AUTO, TreeSettings
from moa_core.drafters.lookup import WithLookup, merged
from moa_core.drafters.names import LOOKUP
from tests.models import drafter_of, lossless, plain_greedy, tiny_target, traced, useful
from tests.properties import paths, trees

REPEATED = [5, 9, 33, 7, 21, 40, 11] * 4
FEW = trees(13, words=3)  # so that two of them share paths


@given(FEW, FEW)
def test_a_merged_tree_has_every_path_of_both_once(tree, other):
    both, places = merged(tree, other)
    found = paths(both)
    assert [found[place] for place in places] == paths(other)
    assert found[: len(tree)] == paths(tree)
    assert len(set(found)) == len(found)
    assert set(found) == {*paths(tree), *paths(other)}
    for node in range(1, len(both)):
        parent = both.parents[node]
        assert parent < node and both.depths[node] == both.depths[parent] + 1
        assert both.log_probs[node] <= both.log_probs[parent]
    assert both.log_probs[: len(tree)] == tree.log_probs


@pytest.mark.parametrize(
    "shape", [AUTO, TreeSettings(), TreeSettings(3, 4, 1), TreeSettings(1, 1, 2)]
)
@pytest.mark.parametrize("method", ["moa-n0", "moa-n1", "eagle2", "eagle3"])
def test_both_share_the_budget_and_the_text_is_the_target_s(method, shape):
    trace = lossless(tiny_target(), method + LOOKUP, REPEATED, 40, tree=shape)
    for tree in (event.tree for event in trace.of(Drafted)):
        assert len(tree) - 1 <= shape.budget and max(tree.depths) <= shape.depth


def test_a_lookup_adds_what_the_drafter_alone_misses():
    target = tiny_target()
    copied = plain_greedy(target, REPEATED, 30)
    prompt = [*REPEATED, *copied, *REPEATED]  # the answer may be found in the prompt
    drafter = drafter_of("eagle3", target)
    alone, both = (
        traced(target, one, prompt, max_new_tokens=30, tree=TreeSettings(5, 2, 8))
        for one in (drafter, WithLookup(drafter))
    )
    assert both.output_ids == alone.output_ids
    assert both.tau > alone.tau


def test_each_part_learns_from_its_own_nodes_and_both_from_whole_cycles():
    target = tiny_target()
    drafter = WithLookup(useful("moa-n0", target)).fork()
    drafter.fork = lambda: drafter  # the run's own, to be looked at
    trace = traced(target, drafter, REPEATED, max_new_tokens=40, tree=AUTO)
    cycles = len(trace.of(Drafted))
    known = [part.sizer.known for part in (drafter.drafter, drafter.lookup)]
    for one in known:
        assert one.cycles == cycles - 1  # the first reads the prompt
        assert one.rate == pytest.approx(known[0].rate)
    sizes = [len(event.tree) for event in trace.of(Drafted)]
    assert any(before != after for before, after in pairwise(sizes)), "sized by what they learnt"
