"""One thread makes the events of a run, which ends when nobody listens."""

import threading

import pytest

from demo.worker import AHEAD, Worker
from moa_core.errors import UserError


class Run:
    """A run whose events are numbers: who made them, how far it came, and whether it was closed."""

    def __init__(self, count=100, fails=None):
        self.threads, self.made, self.closed = set(), 0, False
        self.count, self.fails = count, fails

    def events(self):
        try:
            for number in range(self.count):
                self.threads.add(threading.current_thread())
                self.made += 1
                yield number
            if self.fails:
                raise self.fails
        finally:
            self.threads.add(threading.current_thread())
            self.closed = True


def test_one_thread_of_its_own_makes_a_runs_events_in_order():
    worker, run = Worker(), Run()
    assert list(worker.run(run.events())) == list(range(100))
    [maker] = run.threads
    assert maker is not threading.current_thread() and maker.daemon
    maker.join(5)
    assert not maker.is_alive()  # and its team of threads is gone with it


@pytest.mark.parametrize("error", [UserError("No."), RuntimeError("broken")])
def test_what_goes_wrong_is_raised_after_the_events(error):
    worker, heard = Worker(), []
    with pytest.raises(type(error), match=str(error)):
        for number in worker.run(Run(3, error).events()):
            heard.append(number)
    assert heard == [0, 1, 2] and list(worker.run(Run(2).events())) == [0, 1]


def test_a_run_that_is_given_up_is_ended_and_the_next_has_its_turn():
    worker, run = Worker(), Run(10_000)
    events = worker.run(run.events())
    assert next(events) == 0 and worker.turn.locked()
    events.close()
    assert run.closed and run.made <= AHEAD + 3 and len(run.threads) == 1
    assert not worker.turn.locked() and list(worker.run(Run(2).events())) == [0, 1]
