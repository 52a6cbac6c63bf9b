"""Figures of a run, counted event by event."""

from dataclasses import replace

import pytest

from demo.common.figures import Figures, many, stats, tree_of, tree_words, was_cut
from demo.live.run import summary
from moa_core.decoding.trace import Drafted, Finished, Prefilled, Trace, Verified
from moa_core.decoding.tree import AUTO, DraftTree, TreeSettings

TREE = DraftTree((9, 4, 5), (-1, 0, 1), (0, 1, 2), (0.0, -0.1, -0.2))


def events(*gained):
    yield Prefilled((1, 2), 9, 0.5, 0.25)
    for cycle, count in enumerate(gained):
        yield Drafted(cycle, 2, TREE, 0.1)
        yield Verified(cycle, (1, 2)[: count - 1], 7, (), (), (), (7,) * count, 0.3, 0.1)


def test_sums_over_cycles():
    found = Figures(events(3, 1)).as_dict()
    assert found.pop("shares") == pytest.approx({"draft": 0.2, "verify": 0.6, "other": 0.2})
    assert found == pytest.approx(
        {
            "tokens": 5, "rate": 4.0, "decode_rate": 4.0, "tau": 2.0, "acceptance": 0.5,
            "drafted": 4, "nodes": 2.0, "calls": 3, "cycles": 2, "prefill": 0.25,
        }
    )  # fmt: skip


def test_they_agree_with_the_trace():
    trace = Trace(
        events=[*events(3, 2, 1), Finished("length", {"draft": 1, "verify": 2, "other": 1})]
    )
    found = stats(trace)
    assert found["tau"] == trace.tau and found["rate"] == trace.tokens_per_second
    assert found["decode_rate"] == trace.decode_tokens_per_second
    assert found["calls"] == trace.target_calls and found["tokens"] == len(trace.output_ids)
    assert found["prefill"] == 0 and found["shares"]["verify"] == 0.5  # the clock's last word


def test_before_anything_happened_there_is_no_figure():
    found = Figures().as_dict()
    assert found["tokens"] == 0 and found["rate"] is found["tau"] is found["shares"] is None
    first = Figures([Prefilled((1,), 2, 1, 0.1)]).as_dict()
    assert first["rate"] == pytest.approx(10) and first["decode_rate"] is None


def test_a_run_that_drafts_nothing_has_no_acceptance_rate():
    bare = DraftTree.only_root(9)
    found = Figures([Drafted(0, 1, bare, 0), Verified(0, (), 1, (1,), (1,), (1,), (1,), 1, 0)])
    assert found.as_dict()["acceptance"] is None and found.as_dict()["tau"] == 1


def test_a_last_cycle_that_was_cut_is_told_from_a_whole_one():
    whole = [*events(3, 2)]
    cut = [*whole[:-1], replace(whole[-1], emitted=(7,))]
    assert not was_cut(Trace(events=whole)) and was_cut(Trace(events=cut))
    assert Trace(events=cut).tau == Trace(events=whole).tau == 2.5
    assert not was_cut(Trace())


def test_one_thing_is_told_as_one():
    assert [many(count, "token") for count in (0, 1, 2)] == ["0 tokens", "1 token", "2 tokens"]
    alone = Trace(events=[Prefilled((1,), 2, 1, 0.1), Finished("length", {})])
    assert summary(alone).startswith("1 token in 1 target call. ")


def test_a_sentence_has_the_numbers_that_its_tau_is_made_of():
    *rest, last = events(3, 2)
    cut = Trace(events=[*rest, replace(last, emitted=(7,)), Finished("length", {"prefill": 1})])
    said = "5 tokens in 3 target calls, τ 2.50 (5 gained in 2 calls after the prefill; "
    assert summary(cut).startswith(said)


def test_a_tree_is_named_where_one_was_drafted():
    tree = {"depth": 6, "breadth": 3, "budget": 12}
    about = {"method": "moa-n0", "settings": {"tree": tree}}
    assert tree_of(Trace(about)) == TreeSettings(6, 3, 12)
    assert tree_words(TreeSettings(6, 3, 12)) == "6-3-12" and tree_words(None) == "–"
    assert tree_of(Trace({**about, "settings": {"tree": AUTO.as_dict()}})) == AUTO
    assert tree_words(AUTO) == "auto"
    for other in (
        {**about, "method": "vanilla"}, {"drafter": "vanilla", "settings": {"tree": tree}}, {},
        {"settings": []}, {"settings": {"tree": [1]}}, {"settings": {"tree": {"depth": 99}}},
    ):  # fmt: skip
        assert tree_of(Trace(other)) is None
