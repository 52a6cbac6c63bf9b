"""Exports load as they were, and have a card."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from moa_core.__main__ import main
from moa_core.decoding.tree import TreeSettings
from moa_core.export.write import export, read_source
from moa_core.loading.drafter_files import save_drafter
from moa_core.loading.load import load_drafter
from tests import released
from tests.models import draft_alike, edit_config, tiny_target, useful

PARITY = released.FOLDER
DRAFTER, TARGET = str(PARITY / "moa_n0"), str(PARITY / "target")
TREE = {"depth": 4, "breadth": 2, "budget": 7}


@pytest.mark.usefixtures("plain_torch")
@pytest.mark.parametrize("family", ["llama", "qwen2"])
@pytest.mark.parametrize("method", ["moa-n0", "moa-n2", "eagle2"])
def test_an_export_loads_as_it_was(tmp_path, method, family):
    target = tiny_target(family=family)
    drafter = useful(method, target)
    save_drafter(tmp_path / "mine", drafter, target, {"tree": TREE}, torch.bfloat16)
    export(read_source(str(tmp_path / "mine"), target), tmp_path / "out")
    names = ("mine", "out")
    mine, out = (load_file(tmp_path / name / "model.safetensors") for name in names)
    assert out.keys() == mine.keys()
    assert all(torch.equal(value, mine[key]) for key, value in out.items())
    back = load_drafter(str(tmp_path / "out"), target)
    assert back.tree == TreeSettings(**TREE)
    assert draft_alike(target, back, load_drafter(str(tmp_path / "mine"), target))


def run(*arguments: Any) -> int:
    return main(["export", "--format", "custom-generate", *map(str, arguments)])


def with_ours(folder: Path, bundle: Path, **keys: str) -> Path:
    """A copy of the bundle's moa-n1 that says more about itself."""
    shutil.copytree(bundle / "moa-n1", folder)
    edit_config(folder, ours=keys)
    return folder


def card_of(drafter: Any, to: Path, *more: Any) -> str:
    assert run("--drafter", drafter, "--to", to, *more) == 0
    return (to / "README.md").read_text(encoding="utf-8")


def test_a_published_drafter_gets_files_and_a_card(tmp_path):
    named = ("--target", TARGET, "--target-name", "somebody/tiny")
    front, text = card_of(DRAFTER, tmp_path / "out", *named).split("---\n")[1:3]
    assert "license" not in front and "base_model: somebody/tiny" in front
    assert "custom_generate" in front
    assert "TLI N = 0" in text and "Licence: its config states none." in text
    assert "Training data: its config states none." in text and "$" not in text


def test_a_card_says_what_the_config_says_as_text(tmp_path, bundle):
    """No front matter, no HTML, no link and no heading comes of what a config says of itself."""
    mine = with_ours(tmp_path / "mine", bundle, licence="Apache-2.0", data="fables")
    card = card_of(mine, tmp_path / "out")
    assert "license: apache-2.0" in card and "Training data: fables." in card
    assert "base_model" not in card
    evil = "mit\n---\ntags: [x]\n# Big\n<img src=x onerror=alert(1)> [x](javascript:y) `z` ${a}"
    card = card_of(with_ours(tmp_path / "evil", bundle, licence=evil, data=evil), tmp_path / "two")
    assert "<img" not in card and "&lt;img src=x" in card and "\\[x\\](javascript" in card
    assert "\n# Big" not in card and card.count("\n---\n") == 1 and "license: other" in card
    assert "\\`z\\` ${a}" in card
