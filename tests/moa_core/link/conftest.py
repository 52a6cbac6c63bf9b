"""A server process that the tests of this folder share, and a server in a thread."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from moa_core.link.process import ServerProcess
from moa_core.link.session import Limits
from moa_core.model.target import Target
from tests.moa_core.link.scene import TARGET, TOKEN, Gated, Served, drafter_for
from tests.serving import serving


@pytest.fixture
def models(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return bundle


@pytest.fixture(scope="session")
def shared_process(saved_bundle: Path) -> Iterator[ServerProcess]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOA_MODELS", str(saved_bundle))
        patch.setenv("OMP_NUM_THREADS", "1")
        one = ServerProcess()
    with one:
        yield one


@pytest.fixture
def process(shared_process: ServerProcess, models: Path) -> ServerProcess:
    return shared_process


@pytest.fixture
def served() -> Iterator[Served]:
    with serving(TARGET, drafter_for, TOKEN, Limits(sessions=4)) as both:
        yield both


@pytest.fixture
def gated() -> Iterator[type[Gated]]:
    """The target's forwards wait where its gate is closed."""
    TARGET.__class__ = Gated
    Gated.gate.set()
    Gated.forwards = 0
    yield Gated
    Gated.gate.set()
    TARGET.__class__ = Target
