"""A visitor's runs: the newest counts, Stop stops, who waits is told."""

from demo import session
from demo.engine import Engine
from demo.session import Visit


def test_stop_ends_the_newest_run_even_before_its_turn():
    visit = Visit()
    visit.begin()
    assert not visit.ended(1)
    visit.stop()
    assert visit.ended(1)
    visit.begin()
    assert not visit.ended(visit.number) and visit.ended(1)


def test_who_waits_is_told_what_for(loads):
    engine = Engine()
    assert "still loading" in session.waiting(engine)
    engine.target()
    assert session.waiting(engine) == ""
    engine.worker.join("somebody")
    assert "Another run" in session.waiting(engine)
    engine.worker.leave("somebody")
    assert session.waiting(engine) == ""
