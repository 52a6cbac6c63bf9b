"""One thread makes the events of every run, and gives up a run that nobody listens to."""

import threading
from collections.abc import Iterator

import pytest

from demo.worker import AHEAD, Hand
from moa_core.errors import UserError


class Run:
    """A run whose events are numbers: who made them, how far it came, and whether it was closed."""

    def __init__(self, count: int = 100, fails: Exception | None = None) -> None:
        self.threads: set[threading.Thread] = set()
        self.made, self.closed = 0, False
        self._count, self._fails = count, fails

    def events(self) -> Iterator[int]:
        try:
            for number in range(self._count):
                self.threads.add(threading.current_thread())
                self.made += 1
                yield number
            if self._fails:
                raise self._fails
        finally:
            self.threads.add(threading.current_thread())
            self.closed = True


def test_whoever_asks_one_thread_makes_the_events_in_order() -> None:
    hand, runs = Hand(), [Run(), Run()]
    heard: list[list[int]] = []
    for run in runs:
        asker = threading.Thread(target=lambda run=run: heard.append(list(hand.run(run.events()))))
        asker.start()
        asker.join()
    assert heard == [list(range(100))] * 2
    [maker] = runs[0].threads | runs[1].threads
    assert maker is not threading.current_thread() and maker.daemon


@pytest.mark.parametrize("error", [UserError("No."), RuntimeError("broken")])
def test_what_goes_wrong_there_is_raised_here_after_the_events(error: Exception) -> None:
    hand, heard = Hand(), []
    with pytest.raises(type(error), match=str(error)):
        for number in hand.run(Run(3, error).events()):
            heard.append(number)
    assert heard == [0, 1, 2]
    assert list(hand.run(Run(2).events())) == [0, 1], "it goes on with the next run"


def test_a_run_that_is_given_up_is_ended_there() -> None:
    hand, run = Hand(), Run(10_000)
    events = hand.run(run.events())
    assert next(events) == 0
    events.close()
    assert run.closed and run.made <= AHEAD + 3 and len(run.threads) == 1
    assert list(hand.run(Run(2).events())) == [0, 1]


def test_a_run_that_is_not_asked_for_never_begins() -> None:
    hand, run = Hand(), Run()
    hand.run(run.events()).close()
    assert run.made == 0
