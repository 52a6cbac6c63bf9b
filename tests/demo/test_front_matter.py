"""What the README tells the Hub: complete, within its limits, and what is really installed."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from huggingface_hub import SpaceHardware, metadata_load
from packaging.requirements import Requirement

from demo.ui import TITLE
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


def test_gradio_is_the_one_that_is_pinned(said):
    assert said["sdk"] == "gradio" and said["sdk_version"] == pins()["gradio"]


def test_every_requirement_is_pinned():
    lines = (ROOT / "requirements.txt").read_text(encoding="utf-8").splitlines()
    wanted = [line for line in lines if line and not line.startswith("#")]
    assert len(pins()) == len(wanted) and "spaces" not in pins()  # ZeroGPU brings it along


def test_the_package_asks_for_what_was_tested():
    """The wheel's bounds hold for the pins; what decoding needs, the page has too."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [Requirement(line) for line in project["dependencies"]]
    named += [
        Requirement(one) for more in project["optional-dependencies"].values() for one in more
    ]
    pinned = pins() | pins("requirements-dev.txt")
    for one in named:
        version = pinned.get(one.name) or metadata.version(one.name)
        assert version in one.specifier, one
    assert {"torch", "transformers", "onnxruntime", "accelerate"} <= {one.name for one in named}


def test_the_page_installs_no_test_tools():
    dev = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8")
    assert (
        "\n-r requirements.txt\n" in dev and not pins().keys() & pins("requirements-dev.txt").keys()
    )
    assert not [
        name for name in pins() if name.startswith(("pytest", "hypothesis", "ruff", "mypy"))
    ]


def test_python_is_a_string_and_one_that_zerogpu_has(said):
    assert said["python_version"] == "3.12"  # as a number, 3.10 would be 3.1
    ruff = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["ruff"]
    assert ruff["target-version"] == "py311"


def test_the_app_is_there_and_short(said):
    lines = (ROOT / said["app_file"]).read_text(encoding="utf-8").splitlines()
    assert len(lines) < 50


def test_what_people_see_is_within_the_limits(said):
    assert 0 < len(said["short_description"]) <= SHORT and "\n" not in said["short_description"]
    assert said["title"] == TITLE and said["emoji"]
    assert said["colorFrom"] in COLOURS and said["colorTo"] in COLOURS
    assert said["license"] == "apache-2.0" and "Apache" in (ROOT / "LICENSE").read_text()
    assert all(re.fullmatch(r"[a-z0-9-]+", tag) for tag in said["tags"]) and len(said["tags"]) > 2


def test_the_hardware_is_one_that_the_hub_has(said):
    there = {one.value for one in SpaceHardware}
    assert said["suggested_hardware"] in there
    page = (ROOT / "docs" / "space.md").read_text(encoding="utf-8")
    assert {"cpu-basic"} < set(re.findall(r"--flavor ([\w-]+)", page)) <= there


def test_the_models_are_those_that_it_may_load(said):
    ours = [one for each in PRESETS.values() for one in (each.target, *each.by_method.values())]
    assert sorted(said["models"]) == sorted({one.partition("@")[0] for one in ours})
