"""Two workers share the tests: one drives the browser and mostly waits, the other computes."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]
PACKAGES = ("moa_core", "demo")
CHROMIUM = Path("/usr/bin/chromium")

if "PYTEST_XDIST_WORKER" in os.environ:
    # One core for each worker and the processes that it starts.
    torch.set_num_threads(1)
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_xdist_make_scheduler(config, log):
    """Browser tests stay together, with one browser and one app; so does every other file."""
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return "browser" if nodeid.startswith("tests/browser/") else nodeid.split("::")[0]

    return Together(config, log)


@pytest.fixture(scope="session", autouse=True)
def warnings_are_errors_in_commands() -> Iterator[None]:
    """As `filterwarnings` does here, in the processes that tests start. A filter there needs the
    whole name of one module."""
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths]
    modules = ["__main__", *(name.removesuffix(".__init__") for name in names)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONWARNINGS", ",".join(f"error:::{name}" for name in modules))
        yield


@pytest.fixture
def plain_torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Loaded models run in torch, so that a test can look into their modules."""
    from tests import released

    released.target.cache_clear()
    loading = "moa_core.loading.load"
    monkeypatch.setattr(f"{loading}.accelerate", lambda target: target)
    monkeypatch.setattr(f"{loading}.accelerate_drafter", lambda drafter, target, int8: drafter)
    yield
    released.target.cache_clear()


@pytest.fixture(scope="session")
def browser():
    if not CHROMIUM.exists():
        pytest.skip("there is no /usr/bin/chromium")
    playwright = pytest.importorskip("playwright.sync_api")
    flags = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=str(CHROMIUM), args=flags)
        yield chromium
        chromium.close()
