"""A visitor's runs: the newest counts, Stop stops, who waits is told, who left is forgotten."""

from datetime import datetime, timedelta
from threading import Lock
from types import SimpleNamespace

from demo.session import LINGER, Visits
from demo.ui import _forget


def test_sessions_without_a_page_are_dropped_when_they_were_not_used_for_a_while():
    """A page that lost its network for a moment goes on; programs never had one."""
    ages = {"here": 9 * LINGER, "left": 2 * LINGER, "back": 1, "program": 2 * LINGER}
    used = {who: datetime.now() - timedelta(seconds=age) for who, age in ages.items()}
    holder = SimpleNamespace(lock=Lock(), session_data=dict(used), time_last_used=dict(used))
    visits = Visits()
    for who in ("here", "left", "back"):
        visits.arrive(SimpleNamespace(session_hash=who))
    visits.leave("left")
    visits.leave("back")
    _forget(SimpleNamespace(state_holder=holder), visits)
    assert set(holder.session_data) == set(holder.time_last_used) == {"here", "back"}
