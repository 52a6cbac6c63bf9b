"""A warning that our own packages cause fails the test, or the command, in which it comes up."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.conftest import PACKAGES, ROOT, all_modules

OURS = """
import threading, warnings
import other

def warns():
    warnings.warn("of ours")

def says_it_of_the_caller():
    warnings.warn("of ours", DeprecationWarning, stacklevel=2)

def calls_what_is_old():
    other.old()

def warns_in_a_thread():
    thread = threading.Thread(target=warns)
    thread.start()
    thread.join()

def leaves_a_file_open():
    open(__file__)

def calls_what_warns_of_itself():
    other.at_odds_with_itself()
"""
OTHER = """
import warnings

def old():
    warnings.warn("old", DeprecationWarning, stacklevel=2)

def at_odds_with_itself():
    warnings.warn("old", DeprecationWarning)
"""
FAIL = (
    "warns", "says_it_of_the_caller", "calls_what_is_old", "warns_in_a_thread",
    "leaves_a_file_open",
)  # fmt: skip


@pytest.fixture(scope="module", params=PACKAGES)
def outcome(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """What pytest says of tests that call such a package, by this project's own settings."""
    tree = tmp_path_factory.mktemp("tree")
    shutil.copy(ROOT / "pyproject.toml", tree)
    for name, text in ((f"{request.param}/parts/old.py", OURS), ("other.py", OTHER)):
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    (tree / "tests").mkdir()
    lines = [f"import {request.param}.parts.old as old"]
    for name in (*FAIL, "calls_what_warns_of_itself"):
        lines.append(f"def test_{name}(): old.{name}()")
    (tree / "tests/test_old.py").write_text("\n".join(lines))
    command = ["-m", "pytest", "-o", "addopts=--import-mode=importlib", "-rA", "tests"]
    return run([*command, "-p", "no:cacheprovider"], tree, PYTHONWARNINGS="").stdout


def run(arguments: Sequence[str], folder: Path, **env: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env={**os.environ, **env}, timeout=60,
        capture_output=True, text=True,
    )  # fmt: skip


@pytest.mark.parametrize("name", FAIL)
def test_a_test_fails_on_a_warning_of_ours(outcome: str, name: str) -> None:
    assert f"FAILED tests/test_old.py::test_{name}" in outcome


def test_what_others_say_of_themselves_is_shown_and_passes(outcome: str) -> None:
    assert "PASSED tests/test_old.py::test_calls_what_warns_of_itself" in outcome
    assert "1 passed" in outcome and "1 warning" in outcome


@pytest.mark.parametrize(
    ("module", "code"),
    [("moa_core.link.server", 1), ("demo.live.tab", 1), ("__main__", 1), ("gradio", 0)],
)
def test_so_does_a_command_that_a_test_starts(module: str, code: int) -> None:
    warning = f"warnings.warn_explicit('old', DeprecationWarning, 'x.py', 1, {module!r})"
    assert run(["-c", f"import warnings; {warning}"], ROOT).returncode == code


def test_every_module_is_known_to_commands() -> None:
    assert "moa_core.link.server" in all_modules() and "demo" in all_modules()
    assert all(f"error:::{name}" in os.environ["PYTHONWARNINGS"] for name in all_modules())
