"""Servers over real sockets, in a hurry."""

from collections.abc import Iterator

import pytest

from moa_core.link import server
from moa_core.link.session import Limits
from moa_core.model.target import Target
from tests.moa_core.link.server.scene import TARGET, TOKEN, Gated, Served, drafter_for
from tests.serving import serving


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bare sockets answer no goodbye, and tests guess many tokens."""
    monkeypatch.setattr(server, "CLOSE_WITHIN", 0.2)
    monkeypatch.setattr(server, "WRONG_TOKEN", 0.01)


@pytest.fixture
def served() -> Iterator[Served]:
    """One that forgets lost clients soon."""
    with serving(TARGET, drafter_for, TOKEN, Limits(sessions=4, keep=0.3)) as both:
        yield both


@pytest.fixture
def gated() -> Iterator[type[Gated]]:
    TARGET.__class__ = Gated
    Gated.gate.set()
    Gated.forwards = 0
    yield Gated
    Gated.gate.set()
    TARGET.__class__ = Target
