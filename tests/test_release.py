"""What is released: one version everywhere, and a wheel with what the program reads.

`.ci/run` builds the wheel, compares its files with the clone's, and opens the page from it.
"""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import moa_core
from demo.ui import ICON
from moa_core.__main__ import main
from moa_core.assets import ASSETS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WHEEL = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]


def test_the_version_is_the_newest_of_the_changelog(capsys):
    heads = re.findall(r"^## (\S+) - (\S+)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert heads[0] == (moa_core.__version__, str(cited["date-released"]))
    assert cited["version"] == moa_core.__version__
    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"moa-speculative {moa_core.__version__}\n"


def test_every_asset_that_is_read_is_in_the_wheel():
    packed = dict(WHEEL["force-include"])
    assert all((ROOT / source).exists() for source in packed)
    assert packed.pop("LICENSE") == "moa_core/_assets/LICENSE"
    assert packed == {one: one.replace("assets", "moa_core/_assets") for one in packed}
    code = [path for package in WHEEL["packages"] for path in (ROOT / package).rglob("*.py")]
    read = {
        name for path in code for name in re.findall(r'ASSETS / "([\w-]+)', path.read_text("utf-8"))
    }
    assert read == {source.split("/")[1] for source in packed} > {"models", "results"}
    assert f"assets/{ICON.relative_to(ASSETS).as_posix()}" in packed
    assert not {"assets", "assets/pictures"} & packed.keys()
