"""What becomes of tokens that were written offline."""

import pytest

from demo.common.offline import Healing
from moa_core.decoding.trace import Finished, LinkDown
from tests.demo.network.lost_links import begun, gone, healed, kept, verified, written


@pytest.mark.parametrize(
    ("course", "counts", "waiting"),
    [
        (healed, (2, 3, 0), []),
        (kept, (0, 0, 3), []),
        (gone, (0, 0, 0), [20, 21]),
        # An answer that differs at once; text that ends before the answer.
        (lambda: [*begun(), *written(6, [20, 21]), verified(1, [40, 41, 42])], (0, 2, 0), []),
        (lambda: [*begun(), *written(6, [20, 21]), verified(1, [20, 21, 22])], (2, 0, 0), []),
        # After a second loss the drafter may go on or begin anew.
        (lambda: [*written(6, [20, 21]), LinkDown(1), *written(8, [22])], (0, 0, 0), [20, 21, 22]),
        (lambda: [*written(6, [20, 21, 22]), verified(1, [20]), *written(7, [21])], (1, 0, 0),
         [21]),
        # What was not verified before Stop goes.
        (lambda: [*begun(), *written(6, [20, 21, 22]), verified(1, [20]), Finished("stopped")],
         (1, 0, 0), []),
    ],
)  # fmt: skip
def test_what_becomes_of_offline_tokens(course, counts, waiting):
    healing, found = Healing(), []
    for event in course():
        found.append(healing.add(event))
    assert (healing.confirmed, healing.changed, healing.kept) == counts
    assert [one.token for one in healing.waiting] == waiting
    dropped = sum(one.dropped for one in found)
    assert dropped == (2 if isinstance(event, Finished) and event.reason == "stopped" else 0)
    if course is healed:
        assert [one.token for each in found for one in each.changed] == [22, 23, 24]
