"""Fixtures that several files of these tests share."""

from pathlib import Path

import pytest

from tests.models import save_bundle


@pytest.fixture(scope="session")
def saved_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of bundled models; not to be written to."""
    folder = tmp_path_factory.mktemp("bundle")
    save_bundle(folder)
    return folder


@pytest.fixture
def bundle(saved_bundle: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same, as the one that names without a path refer to."""
    monkeypatch.setenv("MOA_MODELS", str(saved_bundle))
    return saved_bundle
