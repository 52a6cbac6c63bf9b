"""Exports load as they were; transformers decodes with them, with its options or a refusal."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from moa_core.__main__ import main
from moa_core.decoding.tree import TreeSettings
from moa_core.export.write import ABOVE, export
from moa_core.loading.drafter_files import save_drafter
from moa_core.loading.load import load_drafter
from tests import released
from tests.models import draft_alike, edit_config, save_bundle, tiny_target, useful

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
    export(str(tmp_path / "mine"), target, tmp_path / "out")
    names = ("mine", "out")
    mine, out = (load_file(tmp_path / name / "model.safetensors") for name in names)
    assert out.keys() == mine.keys()
    assert all(torch.equal(value, mine[key]) for key, value in out.items())
    back = load_drafter(str(tmp_path / "out"), target)
    assert back.tree == TreeSettings(**TREE)
    assert draft_alike(target, back, load_drafter(str(tmp_path / "mine"), target))


def run(*arguments: Any) -> int:
    return main(["export", "--format", "custom-generate", *map(str, arguments)])


def card_of(drafter: Any, to: Path, *more: Any) -> str:
    assert run("--drafter", drafter, "--to", to, *more) == 0
    return (to / "README.md").read_text(encoding="utf-8")


def test_a_published_drafter_gets_files_and_a_card(tmp_path):
    named = ("--target", TARGET, "--target-name", "somebody/tiny")
    front, text = card_of(DRAFTER, tmp_path / "out", *named).split("---\n")[1:3]
    assert "license" not in front and "base_model: somebody/tiny" in front
    assert "custom_generate" in front
    assert "MoA N=0 ([arXiv 2410.03804]" in text and "$" not in text
    assert "see `config.json`, where it states them." in text


def test_a_drafter_keeps_the_card_and_the_credits_of_the_models_it_is_of(tmp_path, monkeypatch):
    models = tmp_path / "models"
    save_bundle(models)
    edit_config(models / "moa-n1", ours={"data": ABOVE})
    (models / "README.md").write_text("# Drafters")
    (models / "credits").mkdir()
    (models / "credits" / "texts.tsv").write_text("text\tauthor")
    monkeypatch.setenv("MOA_MODELS", str(models))
    assert "see `config.json` and `SOURCE.md`." in card_of("moa-n1", tmp_path / "out")
    assert (tmp_path / "out" / "SOURCE.md").exists()
    assert any((tmp_path / "out" / "credits").iterdir())
