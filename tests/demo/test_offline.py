"""What becomes of offline tokens, and the figures that count them."""

import pytest

from demo.common.figures import stats
from demo.common.offline import Healing
from moa_core.decoding.trace import Finished, LinkDown, OfflineToken
from tests.demo.lost_links import begun, gone, healed, kept, plain, trace, verified, written


def followed(events):
    healing = Healing()
    return healing, [healing.add(event) for event in events]


def test_the_target_confirms_what_agrees_and_changes_the_rest():
    healing, found = followed(healed())
    assert (healing.confirmed, healing.changed, healing.kept) == (2, 3, 0)
    assert healing.waiting == []
    first, second = (one for one in found if one.confirmed)
    assert first.confirmed == 1 and first.changed == ()
    assert [one.token for one in second.changed] == [22, 23, 24]


def test_an_answer_that_differs_at_once_changes_all_of_it():
    healing, _ = followed([*begun(), *written(6, [20, 21]), verified(1, [40, 41, 42])])
    assert (healing.confirmed, healing.changed) == (0, 2)


def test_text_that_ends_before_the_answer_is_confirmed_whole():
    healing, _ = followed([*begun(), *written(6, [20, 21]), verified(1, [20, 21, 22])])
    assert (healing.confirmed, healing.changed, healing.waiting) == (2, 0, [])


def test_what_is_kept_is_neither_confirmed_nor_changed():
    healing, _ = followed(kept())
    assert (healing.confirmed, healing.changed, healing.kept) == (0, 0, 3)


def test_a_link_that_stays_lost_leaves_them_waiting():
    healing, _ = followed(gone())
    assert [one.token for one in healing.waiting] == [20, 21]
    assert trace(gone).offline_ids == [20, 21]


def test_after_a_second_loss_the_drafter_may_go_on_or_begin_anew():
    healing, _ = followed([*written(6, [20, 21]), LinkDown(1), *written(8, [22])])
    assert [one.token for one in healing.waiting] == [20, 21, 22]
    healing, _ = followed([*written(6, [20, 21, 22]), verified(1, [20]), *written(7, [21])])
    assert [one.token for one in healing.waiting] == [21] and healing.confirmed == 1


def test_what_was_not_verified_before_stop_goes_as_the_trace_says():
    events = [*begun(), *written(6, [20, 21, 22]), verified(1, [20]), Finished("stopped")]
    healing, found = followed(events)
    assert found[-1].dropped == 2 and healing.waiting == []
    assert trace(lambda: events).offline_ids == []


@pytest.mark.parametrize("run", [healed, kept, gone])
def test_the_figures_agree_with_the_trace(run):
    made = trace(run)
    found = stats(made)
    assert found["tokens"] == len(made.output_ids) and found["calls"] == made.target_calls
    assert found["rate"] == made.tokens_per_second and found["tau"] == made.tau
    link = found["link"]
    count = len(made.of(OfflineToken))
    assert link["confirmed"] + link["changed"] + link["kept"] + link["unverified"] == count
    assert link["lost"] == 1 and link["first"] == 0.2


def test_bytes_of_the_prompt_and_of_the_cycles_are_apart():
    link = stats(trace(healed))["link"]
    assert (link["prompt_up"], link["prompt_down"]) == (300, 5150)
    assert (link["up"], link["down"]) == (300, 6000)


def test_without_a_link_nothing_is_said_of_one():
    found = stats(trace(plain))
    assert "link" not in found and set(found["shares"]) == {"draft", "verify", "other"}
