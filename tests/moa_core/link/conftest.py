"""A server process that the tests of this folder share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from moa_core.link.process import ServerProcess


@pytest.fixture
def models(saved_bundle: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The tiny bundle, for this process and those it starts."""
    monkeypatch.setenv("MOA_MODELS", str(saved_bundle))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return saved_bundle


@pytest.fixture(scope="session")
def shared_process(saved_bundle: Path) -> Iterator[ServerProcess]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOA_MODELS", str(saved_bundle))
        patch.setenv("OMP_NUM_THREADS", "1")
        one = ServerProcess("--keep", "0.5")
    with one:
        yield one


@pytest.fixture
def process(shared_process: ServerProcess, models: Path) -> ServerProcess:
    """A server of the tiny bundle. Lost clients' sessions are kept for half a second."""
    return shared_process
