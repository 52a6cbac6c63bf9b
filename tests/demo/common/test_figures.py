"""Figures of a run, counted event by event, and what becomes of tokens written offline."""

import pytest

from demo.common.figures import Figures, stats
from demo.common.offline import Healing
from moa_core.decoding.trace import (
    Drafted,
    Finished,
    LinkDown,
    OfflineToken,
    Prefilled,
    Trace,
    Verified,
)
from moa_core.decoding.tree import DraftTree
from tests.demo.network.lost_links import begun, gone, healed, kept, plain, trace, verified, written

TREE = DraftTree((9, 4, 5), (-1, 0, 1), (0, 1, 2), (0.0, -0.1, -0.2))


def events(*gained):
    yield Prefilled((1, 2), 9, 0.5, 0.25)
    for cycle, count in enumerate(gained):
        yield Drafted(cycle, 2, TREE, 0.1)
        yield Verified(cycle, (1, 2)[: count - 1], 7, (), (), (), (7,) * count, 0.3, 0.1)


def test_sums_over_cycles_agree_with_the_trace():
    found = Figures(events(3, 1)).as_dict()
    assert found.pop("shares") == pytest.approx({"draft": 0.2, "verify": 0.6, "other": 0.2})
    assert found == pytest.approx(
        {
            "tokens": 5, "rate": 4.0, "decode_rate": 4.0, "tau": 2.0, "acceptance": 0.5,
            "drafted": 4, "nodes": 2.0, "calls": 3, "cycles": 2, "prefill": 0.25,
        }
    )  # fmt: skip
    end = Finished("length", {"draft": 1, "verify": 2, "other": 1})
    made = Trace(events=[*events(3, 2, 1), end])
    found = stats(made)
    assert found["tau"] == made.tau and found["rate"] == made.tokens_per_second
    assert found["decode_rate"] == made.decode_tokens_per_second
    assert found["calls"] == made.target_calls and found["tokens"] == len(made.output_ids)
    assert found["prefill"] == 0 and found["shares"]["verify"] == 0.5  # the clock's last word


def test_what_did_not_happen_has_no_figure():
    found = Figures().as_dict()
    assert found["tokens"] == 0 and found["rate"] is found["tau"] is found["shares"] is None
    first = Figures([Prefilled((1,), 2, 1, 0.1)]).as_dict()
    assert first["rate"] == pytest.approx(10) and first["decode_rate"] is None
    bare = DraftTree.only_root(9)
    found = Figures([Drafted(0, 1, bare, 0), Verified(0, (), 1, (1,), (1,), (1,), (1,), 1, 0)])
    assert found.as_dict()["acceptance"] is None and found.as_dict()["tau"] == 1


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


@pytest.mark.parametrize("run", [healed, kept, gone])
def test_the_figures_of_a_link_agree_with_the_trace(run):
    made = trace(run)
    found = stats(made)
    assert found["tokens"] == len(made.output_ids) and found["calls"] == made.target_calls
    assert found["rate"] == made.tokens_per_second and found["tau"] == made.tau
    link = found["link"]
    count = sum(link[name] for name in ("confirmed", "changed", "kept", "unverified"))
    assert count == len(made.of(OfflineToken)) and link["lost"] == 1 and link["first"] == 0.2
    assert (link["prompt_up"], link["prompt_down"]) == (300, 5150)
    if run is healed:
        assert (link["up"], link["down"]) == (300, 6000)
    assert "link" not in stats(trace(plain))
