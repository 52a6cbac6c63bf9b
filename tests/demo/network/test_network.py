"""The Network tab: what a check takes, fitted to a recorded run."""

import pytest

from demo.network.tab import _checks
from moa_core.decoding.trace import Trace
from tests.demo.compare.comparisons import trace_of


@pytest.mark.parametrize(
    ("checks", "line"),
    [
        ([(2, 0.1), (6, 0.2)], (0.035, 0.0175)),  # guesses, seconds of the cycle: 7/10 to check
        ([(2, 0.2), (6, 0.1)], (0.105, 0.0)),  # more guesses never take less time
        ([(4, 0.1), (4, 0.3)], (0.14, 0.0)),  # of one size
    ],
)
def test_a_check_takes_a_time_for_any_tree_and_more_for_each_guess(checks, line):
    runs = [trace_of([1], pace, drafted=guesses) for guesses, pace in checks]
    made = Trace({}, [event for run in runs for event in run.events])
    assert _checks(made) == pytest.approx(line)
