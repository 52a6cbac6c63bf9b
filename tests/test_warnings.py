"""A warning that our own packages cause fails the test, or the command, in which it comes up."""

import os
import subprocess
import sys
import warnings

import pytest

from tests.conftest import PACKAGES, ROOT, all_modules


@pytest.mark.parametrize("package", PACKAGES)
def test_a_warning_of_ours_is_an_error(package):
    for category in (UserWarning, DeprecationWarning):
        with pytest.raises(category):
            warnings.warn_explicit("old", category, "x.py", 1, f"{package}.parts.old")
    with pytest.warns(DeprecationWarning):
        warnings.warn_explicit("old", DeprecationWarning, "x.py", 1, "gradio")


@pytest.mark.parametrize(("module", "code"), [("moa_core.link.server", 1), ("gradio", 0)])
def test_so_it_is_in_a_command_that_a_test_starts(module, code):
    warning = f"warnings.warn_explicit('old', DeprecationWarning, 'x.py', 1, {module!r})"
    command = [sys.executable, "-c", f"import warnings; {warning}"]
    assert subprocess.run(command, cwd=ROOT, capture_output=True).returncode == code
    assert all(f"error:::{name}" in os.environ["PYTHONWARNINGS"] for name in all_modules())
