"""Fixtures that several files of these tests share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hub import Hub, lead_to, serving
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


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """A stand-in for the Hub, in the place of the real one, and an empty cache."""
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    standing = Hub()
    with serving(standing) as url:
        lead_to(url, monkeypatch)
        yield standing
