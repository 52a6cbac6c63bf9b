"""Two workers share the tests: one drives the browser, which waits a lot, the other computes."""

import os

import torch

if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)  # a worker a core; more threads would be in each other's way


def pytest_xdist_make_scheduler(config, log):
    """Browser tests stay together, with one browser and one app; so does every other file."""
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return "browser" if nodeid.startswith("tests/browser/") else nodeid.split("::")[0]

    return Together(config, log)
