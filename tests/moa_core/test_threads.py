"""How many threads decode: as asked, as the environment says, or the quickest."""

from types import SimpleNamespace

import pytest
import torch

from moa_core import threads
from tests.models import tiny_target


@pytest.fixture
def several(monkeypatch):
    """A processor of eight threads, of which no more than these are asked for."""
    now = SimpleNamespace(number=8, tried=[])

    def take(number):
        now.number = number
        now.tried.append(number)

    monkeypatch.setattr(torch, "get_num_threads", lambda: now.number)
    monkeypatch.setattr(torch, "set_num_threads", take)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    return now


@pytest.fixture
def costs(monkeypatch, several):
    """Seconds of a step by number of threads."""
    table = {1: 3.0, 2: 2.0, 4: 1.95, 8: 4.0}
    monkeypatch.setattr(threads, "_seconds", lambda target: table[several.number])
    return table


@pytest.fixture(scope="module")
def target():
    return tiny_target()


def test_the_quickest_number_is_taken_unless_a_smaller_one_is_nearly_as_quick(
    several, costs, target
):
    assert threads.quickest(target) == 2
    assert several.number == 8  # it only tells
    costs[4] = 1.0
    assert threads.settle(target) == several.number == 4


def test_a_number_between_two_powers_is_tried_too(several, costs, target):
    several.number = 6
    costs[6] = 0.5
    assert threads.settle(target) == 6


def test_asked_and_environment_go_before(several, costs, target, monkeypatch):
    assert threads.settle(target, 3) == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    costs[1] = 0.1
    assert threads.settle(target) == 3 and several.tried == [3]


def test_for_a_large_model_nothing_is_measured(several, costs, target, monkeypatch):
    monkeypatch.setattr(threads, "LARGE", 10)
    assert threads.settle(target) == 8 and set(several.tried) <= {8}


def test_a_real_measurement_leaves_the_target_as_it_was(target, monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 2)
    tried = []
    monkeypatch.setattr(torch, "set_num_threads", tried.append)
    assert threads.quickest(target) in (1, 2)
    assert tried == [1, 2, 2]
    assert target._cache is None  # it decoded in a fork
