"""One thread makes the events of a run, which ends when nobody listens."""

import threading

from demo.worker import AHEAD, Worker


class Run:
    """A run whose events are numbers: who made them, how far it came, and whether it was closed."""

    def __init__(self):
        self.threads, self.made, self.closed = set(), 0, False

    def events(self, count):
        try:
            for number in range(count):
                self.threads.add(threading.current_thread())
                self.made += 1
                yield number
        finally:
            self.threads.add(threading.current_thread())
            self.closed = True


def test_one_thread_of_its_own_makes_a_runs_events_in_order():
    worker, run = Worker(), Run()
    assert list(worker.run(run.events(100))) == list(range(100))
    [maker] = run.threads
    assert maker is not threading.current_thread() and maker.daemon
    maker.join(5)
    assert not maker.is_alive()  # and its team of threads is gone with it


def test_a_run_that_is_given_up_is_ended_and_the_next_has_its_turn():
    worker, run = Worker(), Run()
    events = worker.run(run.events(10_000))
    assert next(events) == 0 and worker.turn.locked()
    events.close()
    assert run.closed and run.made <= AHEAD + 3 and len(run.threads) == 1
    assert not worker.turn.locked() and list(worker.run(Run().events(2))) == [0, 1]
