"""What the README tells the Hub: complete, within its limits, and what is really installed."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from huggingface_hub import SpaceHardware, metadata_load
from packaging.requirements import Requirement

from demo.ui import TITLE
from moa_core.loading.hub import REPOSITORY
from moa_core.loading.presets import PRESETS

ROOT = Path(__file__).parents[2]
COLOURS = ("red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray")
SHORT = 60  # letters of a short description: "length must be less than or equal to 60"


@pytest.fixture(scope="module")
def said():
    return metadata_load(ROOT / "README.md")


def pins(name="requirements.txt"):
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    return dict(re.match(r"([\w-]+)==([\w.]+)", line).groups() for line in lines if "==" in line)


def test_every_requirement_is_pinned_and_the_page_installs_no_test_tools(said):
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    wanted = [line for line in lines if line and not line.startswith("#")]
    assert said["sdk"] == "gradio" and said["sdk_version"] == pins()["gradio"]
    assert len(pins()) == len(wanted) and "spaces" not in pins()  # ZeroGPU brings it along
    dev = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8")
    assert "\n-r requirements.txt\n" in dev
    assert not pins().keys() & pins("requirements-dev.txt").keys()


def test_the_package_asks_for_what_was_tested():
    """The wheel's bounds hold for the pins."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    more = project["optional-dependencies"].values()
    pinned = pins() | pins("requirements-dev.txt")
    for line in [*project["dependencies"], *(one for each in more for one in each)]:
        one = Requirement(line)
        assert (pinned.get(one.name) or metadata.version(one.name)) in one.specifier, one


def test_what_the_hub_reads_is_there_and_within_its_limits(said):
    assert (ROOT / said["app_file"]).exists()
    assert said["python_version"] == "3.12"  # as a number, 3.10 would be 3.1
    assert 0 < len(said["short_description"]) <= SHORT and "\n" not in said["short_description"]
    assert said["title"] == TITLE and said["emoji"] and said["license"] == "apache-2.0"
    assert said["colorFrom"] in COLOURS and said["colorTo"] in COLOURS
    there = {one.value for one in SpaceHardware}
    page = (ROOT / "docs" / "space.md").read_text(encoding="utf-8")
    flavors = {said["suggested_hardware"], *re.findall(r"--flavor ([\w-]+)", page)}
    assert {"cpu-basic"} < flavors <= there


def test_the_models_are_those_that_it_may_load(said):
    ours = [one for each in PRESETS.values() for one in (each.target, *each.by_method.values())]
    ours.append(REPOSITORY)
    assert sorted(said["models"]) == sorted({one.partition("@")[0] for one in ours})
