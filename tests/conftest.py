"""Three workers share two cores: one drives the browser and mostly waits, two compute."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]
PACKAGES = ("moa_core", "demo")
CHROMIUM = Path("/usr/bin/chromium")
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]

if "PYTEST_XDIST_WORKER" in os.environ:
    # More threads would get in each other's way, also in the processes that tests start.
    torch.set_num_threads(1)
    os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_xdist_make_scheduler(config, log):
    """Browser tests stay together, with one browser and one app; so does every other file."""
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            return "browser" if nodeid.startswith("tests/browser/") else nodeid.split("::")[0]

    return Together(config, log)


@pytest.hookimpl(tryfirst=True)  # before `-m` chooses
def pytest_collection_modifyitems(items):
    skip = pytest.mark.skip(reason="MOA_TARGET_FILE names no file of the default target")
    for item in items:
        if "browser" in item.fixturenames:
            item.add_marker("browser")
        if item.get_closest_marker("real") and not os.environ.get("MOA_TARGET_FILE"):
            item.add_marker(skip)


def all_modules() -> list[str]:
    """The names of all modules of our packages."""
    paths = [path for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py"))]
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in paths]
    return [name.removesuffix(".__init__") for name in names]


@pytest.fixture(scope="session", autouse=True)
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """For us and the processes that tests start: nothing is fetched, and the cache is empty. There
    warnings are errors as by `filterwarnings` here; a filter is of one module, by its whole name.
    """
    with pytest.MonkeyPatch.context() as patch:
        modules = ["__main__", *all_modules()]
        patch.setenv("PYTHONWARNINGS", ",".join(f"error:::{name}" for name in modules))
        patch.setenv("MOA_CACHE", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("PIP_NO_INDEX", "1")
        yield


@pytest.fixture
def plain_torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is loaded is run by torch, whose modules a test looks into."""
    from tests import released

    released.target.cache_clear()
    loading = "moa_core.loading.load"
    monkeypatch.setattr(f"{loading}.accelerate", lambda target, int8: target)
    monkeypatch.setattr(f"{loading}.accelerate_drafter", lambda drafter, target, int8: drafter)
    yield
    released.target.cache_clear()


@pytest.fixture(scope="session")
def browser():
    if not CHROMIUM.exists():
        pytest.skip("there is no /usr/bin/chromium")
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield chromium
        chromium.close()
