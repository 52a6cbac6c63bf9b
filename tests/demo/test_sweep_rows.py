"""From runs to figures, and sentences that say what the figures say."""

import pytest

from demo.common.spread import Spread
from demo.tli.rows import Row, rows_of, sameness, sentences, settled
from moa_core.decoding.trace import Drafted, Finished, Prefilled, Trace, Verified
from moa_core.decoding.tree import DraftTree


def trace_of(gained, seconds, choices=None, token=9):
    """A run of cycles with these gains; seconds: in all, of drafting, verifying and the rest."""
    events = [Prefilled((1, 2), token, 0.5, 0.1)]
    for cycle, count in enumerate(gained):
        tli = choices[cycle] if choices else None
        events.append(Drafted(cycle, 1, DraftTree.only_root(9), 0.0, tli))
        path, emitted = tuple(range(1, count)), (token,) * count
        events.append(Verified(cycle, path, 9, (), (), (), emitted, 0.0, 0.0))
    spent = dict(zip(("draft", "verify", "other"), seconds, strict=True))
    return Trace(events=[*events, Finished("length", {"prefill": 0.1, **spent})])


def row(method, rate, tau=3.0, draft=5.0, choices=(), spread=0.0, runs=3):
    def around(value):
        return Spread(value, value * (1 - spread), value * (1 + spread))

    return Row(
        method,
        around(tau),
        around(draft),
        around(9.0),
        around(rate),
        around(rate + 9),
        runs,
        40,
        choices,
    )


def said(*rows):
    return "\n".join(lead + rest for lead, rest in sentences(rows))


PLAIN, N0, N1, N3 = (
    row("vanilla", 100, 1.0, 0.0),
    row("moa-n0", 150, 3.0, 4.0),
    row("moa-n1", 120, 3.5, 6.0),
    row("moa-n3", 90, 4.0, 9.0),
)


def test_figures_are_medians_and_spreads_of_the_runs():
    runs = [trace_of((3, 1, 4), (0.3, 0.6, 0.1)), trace_of((3, 1, 4), (0.6, 0.6, 0.4))]
    [found] = rows_of({"moa-n0": runs})
    assert (found.tau, found.runs, found.tokens) == (Spread(8 / 3, 8 / 3, 8 / 3), 2, 9)
    assert found.draft == Spread(*map(pytest.approx, (150, 100, 200)))
    assert found.verify.middle == pytest.approx(200)
    assert found.rate == Spread(*map(pytest.approx, ((9 / 1.1 + 9 / 1.7) / 2, 9 / 1.7, 9 / 1.1)))
    assert found.decoding == Spread(*map(pytest.approx, (6.5, 5, 8)))  # the prefill left out


def test_methods_without_a_cycle_have_no_row():
    assert rows_of({"vanilla": [], "moa-n0": [trace_of((), (0, 0, 0))]}) == []
    [found] = rows_of({"moa-auto": [trace_of((2, 3), (1, 1, 1), (0, 1))]})
    assert found.choices == (0, 1) and not found.fixed
    assert (found.name, found.short) == ("MoA, auto N", "Auto N")


def test_the_fastest_and_the_highest_are_named_with_how_far_they_are_ahead():
    text = said(PLAIN, N0, N1, N3)
    assert "Fastest here: N = 0 with 150.0 tokens per second, 25 % ahead of N = 1" in text
    assert "1.50 × plain decoding." in text
    assert "Highest τ: N = 3 with 4.00, against 3.00 at N = 0" in text
    assert "9.0 ms a cycle instead of 4.0 ms" in text and "overlap" not in text


def test_a_speed_below_plain_decodings_is_said():
    assert "every N is slower than plain decoding" in said(row("vanilla", 200), N0, N1)
    assert "plain" not in said(N0, N1)


def test_overlapping_repeats_are_said():
    unsure = [row("moa-n0", 150, spread=0.2), row("moa-n1", 140, spread=0.2)]
    text = said(*unsure)
    assert "not to be told apart by its repeats from N = 1" in text and "% ahead" not in text
    once = [row("moa-n0", 150, runs=1), row("moa-n1", 150, runs=1)]
    assert "overlap" not in said(*once) and "per second, level with N = " in said(*once)


def test_a_tau_that_does_not_rise_is_not_said_to_rise():
    text = said(row("moa-n0", 150, 4.0), row("moa-n1", 120, 3.5))
    assert "did not raise τ" in text and "N = 1 has 3.50" in text


def test_auto_n_is_compared_with_the_best_fixed_n():
    auto = row("moa-auto", 120, draft=5.5, choices=(0, 1) * 3 + (0,) * 6)
    assert "20 % slower than N = 0, the best fixed N" in said(PLAIN, N0, N1, auto)
    assert "1.5 ms a cycle more than that of N = 0: it tries other N too" in said(N0, N1, auto)
    assert "7 % faster than N = 0" in said(N0, N1, row("moa-auto", 160, choices=(0,)))
    assert "as fast as N = 0" in said(N0, N1, row("moa-auto", 149, choices=(0,)))
    assert "not to be told apart by its repeats from N = 0" in said(
        row("moa-n0", 150, spread=0.2), row("moa-auto", 120, spread=0.2, choices=(0,))
    )


def test_settling_is_read_from_the_later_half():
    assert settled((1, 1, 1, 1, 0, 0, 0, 0)) == "settled on N = 0 (4 of its last 4 cycles)"
    assert settled((0, 1, 0, 1)).startswith("did not settle on one N (most often N = ")
    assert settled((2,)) == "settled on N = 2 (1 of its last 1 cycle)"
    assert settled(()) == settled((None,)) == "had no cycle to choose for"


def test_one_text_for_all_or_not():
    same = [trace_of((2,), (1, 1, 1)), trace_of((1, 1), (1, 1, 1))]
    assert sameness({"a": same[:1]}) == ""
    assert sameness({"a": same[:1], "b": same[1:]}) == "All 2 runs wrote the same 3 tokens."
    odd = trace_of((2,), (1, 1, 1), token=8)
    assert sameness({"a": same, "b": [odd]}) == "1 of 3 runs wrote another text than the others."


def test_nothing_is_said_without_an_n():
    assert sentences([PLAIN]) == []
