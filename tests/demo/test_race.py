"""The race: recorded times and tokens, as the page replays them."""

import json

import pytest

from demo.common.methods import colour
from demo.compare.charts import clock
from demo.compare.race import race
from demo.compare.rows import middle, rows
from tests.demo.comparisons import comparison_of, trace_of, usual_comparison


def lanes_of(comparison):
    found = race(comparison, rows(comparison))
    assert json.loads(json.dumps(found)) == found
    return found["lanes"]


def test_a_lane_for_each_method_with_the_times_of_its_middle_run(tokenizer):
    comparison = usual_comparison(tokenizer)
    lanes = lanes_of(comparison)
    assert [lane["label"] for lane in lanes] == ["MoA N=1", "EAGLE-2", "Vanilla"]
    for lane, (name, traces) in zip(lanes, comparison.traces.items(), strict=True):
        times = [lane["prefill"]]
        for draft, verify, other, _ in lane["cycles"]:
            times.append(times[-1] + draft + verify + other)
        assert times == pytest.approx(clock(middle(traces))[1])
        assert lane["colour"] == colour(name)
    assert (lanes[0]["tau"], lanes[0]["rate"]) == ("3.00", "25.9")


def test_tokens_are_marked_and_add_up_to_the_text(tokenizer):
    ids = tokenizer.encode("once upon a tïme")
    end = tokenizer.eos_token_id
    text = [*ids, end]
    gained = [2] * (len(ids) // 2) + [1] * (len(ids) % 2)
    [lane, _] = lanes_of(
        comparison_of(tokenizer, vanilla=[trace_of([1], ids=[1, 2])],
                      moa_n1=[trace_of(gained, ids=text)])
    )[::-1]  # fmt: skip
    tokens = [lane["first"], *(token for cycle in lane["cycles"] for token in cycle[3])]
    assert "".join(piece for piece, _, special in tokens if not special) == "once upon a tïme"
    assert tokens[-1][0] == "<|end|>" and tokens[-1][2] == 1
    kinds = [kind for _, kind, _ in tokens]
    assert kinds[0] == "first" and kinds[1:3] == ["accepted", "bonus"]
    assert kinds.count("bonus") == len(gained)


def test_a_cycle_that_was_cut_has_no_bonus(tokenizer):
    trace = trace_of([3])
    *start, verified, end = trace.events
    cut = verified.__class__(**{**verified.__dict__, "emitted": verified.emitted[:2]})
    trace.events[:] = [*start, cut, end]
    [lane, _] = lanes_of(comparison_of(tokenizer, moa_n1=[trace], vanilla=[trace_of([1])]))
    assert [kind for _, kind, _ in lane["cycles"][0][3]] == ["accepted", "accepted"]


def test_a_text_that_differs_says_where(tokenizer):
    other = trace_of([3, 3], ids=[1, 2, 3, 99, 5, 6, 7])
    lanes = lanes_of(
        comparison_of(tokenizer, moa_n1=[other], vanilla=[trace_of([1] * 6, drafted=0)])
    )
    assert [lane["differs"] for lane in lanes] == [4, None]


def test_text_is_passed_on_as_it_is(tokenizer):
    hostile = "${6*7} <b>x</b> {{x}} `y`"
    ids = tokenizer.encode(hostile)
    [lane, _] = lanes_of(
        comparison_of(tokenizer, moa_n1=[trace_of([len(ids) - 1], ids=ids)],
                      vanilla=[trace_of([1])])
    )  # fmt: skip
    tokens = [lane["first"], *lane["cycles"][0][3]]
    assert "".join(token[0] for token in tokens) == hostile
