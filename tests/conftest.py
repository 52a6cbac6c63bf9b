"""Two workers share the tests: one drives the browser, which waits a lot, the other computes."""

import os

import pytest
import torch

if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)  # a worker a core; more threads would be in each other's way


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Browser tests stay together, with one browser and one app; other files as they come."""
    for item in items:
        browser = item.get_closest_marker("browser")
        item.add_marker(pytest.mark.xdist_group("browser" if browser else str(item.path)))
