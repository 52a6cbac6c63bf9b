"""Processes that prepare text end quietly with the command that started them."""

import os
import signal
import time
from concurrent.futures.process import BrokenProcessPool

import pytest

from moa_core.train.workers import Workers


def test_an_interrupt_ends_a_worker_without_a_traceback(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with Workers(1) as pool:
        worker = pool.submit(os.getpid).result(timeout=60)
        asleep = pool.submit(time.sleep, 60)
        os.kill(worker, signal.SIGINT)
        with pytest.raises(BrokenProcessPool):
            asleep.result(timeout=30)
    assert capfd.readouterr().err == ""


def test_an_interrupt_while_a_worker_starts_is_not_lost(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), Workers(1) as pool:
        asleep = pool.submit(time.sleep, 60)
        for worker in pool._processes:
            os.kill(worker, signal.SIGINT)  # as a terminal does, to all at once
        os.kill(os.getpid(), signal.SIGINT)
        asleep.result(timeout=30)
    pool.shutdown()
    assert capfd.readouterr().err == ""
