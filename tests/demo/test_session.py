"""A visitor's runs: the newest counts, Stop stops, who waits is told, who left is forgotten."""

from datetime import datetime, timedelta
from threading import Lock
from types import SimpleNamespace

from demo import session
from demo.common.status import say
from demo.engine import Engine
from demo.session import LINGER, Visit, Visits
from demo.ui import _forget


def test_stop_ends_the_newest_run_even_before_its_turn():
    visit = Visit()
    visit.begin()
    assert not visit.ended(1)
    visit.stop()
    assert visit.ended(1)
    visit.begin()
    assert not visit.ended(visit.number) and visit.ended(1)


def test_who_waits_is_told_how_many_are_before_until_the_turn_has_come(loads):
    engine, visit = Engine(), Visit()
    engine.target()
    said = [session.waiting(engine, before)["text"] for before in range(3)]
    assert said[0] == "" and "Another run" in said[1] and said[2].startswith("2 runs are ahead")
    assert "still loading" in session.waiting(Engine(), 0)["text"]
    visit.begin()
    status, clock = session.place(engine, visit, 2)
    assert visit.waits and status["text"].startswith("2 runs") and "active" not in clock
    visit.stop()
    status, clock = session.place(engine, visit, 2)
    assert "Your run will not begin" in status["text"] and clock.active is False
    visit.begin()
    visit.begun = visit.number
    status, clock = session.place(engine, visit, 0)
    assert "text" not in status and clock.active is False and not visit.waits


def test_what_a_line_is_told_keeps_its_date_until_it_is_told_something_else():
    visit = Visit()
    first, again, other = (session.keep(visit, 7, say(words)) for words in ("a", "a", "b"))
    assert first is again and other["at"] > first["at"] and visit.said == {7: other}
    assert session.keep(visit, 7, {"__type__": "update"}) == {"__type__": "update"}
    assert visit.said == {7: other}


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
