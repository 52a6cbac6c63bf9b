"""The command: an export with its card, and one sentence for what cannot be done."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from moa_core.__main__ import main
from moa_core.commands.export import FORMATS
from moa_core.export import write
from moa_core.export.card import RECORDED
from tests import released

DRAFTER, TARGET = str(released.FOLDER / "moa_n0"), str(released.FOLDER / "target")


def run(*arguments: Any) -> int:
    return main(["export", *map(str, arguments)])


def exported(folder: Path, kind: str, *more: Any) -> None:
    done = run("--format", kind, "--drafter", DRAFTER, "--target", TARGET, "--to", folder, *more)
    assert done == 0


def said(capsys: pytest.CaptureFixture[str], *arguments: Any) -> str:
    """The sentence of a command that goes wrong."""
    assert run(*arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1
    return error


def test_the_formats_are_those_there_are() -> None:
    assert tuple(write.FORMATS) == FORMATS


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_has_files_and_a_card(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    exported(tmp_path / "out", kind, "--licence", "mit", "--target-name", "somebody/tiny")
    assert "is in" in capsys.readouterr().out
    assert load_file(tmp_path / "out" / "model.safetensors").keys() == (
        load_file(released.FOLDER / "moa_n0" / "model.safetensors").keys()
    )
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    front, text = card.split("---\n")[1:3]
    assert "license: mit" in front and "base_model: somebody/tiny" in front
    assert ("custom_generate" in front) == (kind == "custom-generate")
    assert "TLI N = 0" in text and "somebody/tiny" in text and "Licence: mit." in text
    assert "Training data: its config states none." in text and "$" not in text
    assert "τ" not in text  # nothing was measured


def test_a_card_says_what_the_config_says(tmp_path: Path, bundle: Path) -> None:
    path = bundle / "moa-n1" / "config.json"
    config = json.loads(path.read_text())
    config["drafter"] |= {
        "licence": "Apache-2.0",
        "data": "fables",
    }
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "config.json").write_text(json.dumps(config))
    (mine / "model.safetensors").write_bytes((path.parent / "model.safetensors").read_bytes())
    to = tmp_path / "out"
    assert run("--format", "custom-generate", "--drafter", mine, "--to", to) == 0
    card = (to / "README.md").read_text(encoding="utf-8")
    assert "license: apache-2.0" in card and "Training data: fables." in card
    assert "3 levels, 2 wide, 7 nodes" in card and "base_model" not in card


def test_a_bundled_drafters_card_has_its_licence_and_its_recorded_figure(tmp_path: Path) -> None:
    to = tmp_path / "out"
    named = ("--target-name", "somebody/tiny-8m")
    done = run("--format", "custom-generate", "--drafter", "moa-n1", "--to", to, *named)
    assert done == 0
    card = (to / "README.md").read_text(encoding="utf-8")
    front = card.split("---\n")[1]
    assert "license: apache-2.0" in front and "base_model: somebody/tiny-8m" in front
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    assert f"τ {recorded['methods']['moa-n1']['tau']:.2f} (tokens gained" in card
    assert f"`{recorded['command']}`" in card and "dtype=torch.float32" in card


def test_a_card_of_a_stranger_s_words_is_text(tmp_path: Path, bundle: Path) -> None:
    """No front matter, no HTML, no link and no heading comes of what a config says of itself."""
    path = bundle / "moa-n1" / "config.json"
    config = json.loads(path.read_text())
    evil = "mit\n---\ntags: [x]\n# Big\n<img src=x onerror=alert(1)> [x](javascript:y) "
    evil += "| `z` $tli ${a}"
    config["drafter"] |= {"licence": evil, "data": evil}
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "config.json").write_text(json.dumps(config))
    (mine / "model.safetensors").write_bytes((path.parent / "model.safetensors").read_bytes())
    assert run("--format", "custom-generate", "--drafter", mine, "--to", tmp_path / "out") == 0
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "<img" not in card and "&lt;img src=x" in card and "\\[x\\](javascript" in card
    assert "\n# Big" not in card and card.count("\n---\n") == 1 and "license: other" in card
    assert "\\| \\`z\\` $tli ${a}" in card


def test_a_card_that_points_beside_itself_takes_that_along(tmp_path: Path, bundle: Path) -> None:
    models = tmp_path / "models"
    (models / "credits").mkdir(parents=True)
    (models / "credits" / "books.tsv").write_text("a book\n")
    (models / "README.md").write_text("Licences of the texts.\n")
    (models / "moa").mkdir()
    config = json.loads((bundle / "moa-n0" / "config.json").read_text())
    config["drafter"] |= {"licence": "see ../README.md", "data": "see ../README.md"}
    (models / "moa" / "config.json").write_text(json.dumps(config))
    weights = (bundle / "moa-n0" / "model.safetensors").read_bytes()
    (models / "moa" / "model.safetensors").write_bytes(weights)
    to = tmp_path / "out"
    assert run("--format", "custom-generate", "--drafter", models / "moa", "--to", to) == 0
    card = (to / "README.md").read_text(encoding="utf-8")
    assert "Licence: see SOURCE.md." in card and "license: other" in card
    assert (to / "SOURCE.md").read_text() == "Licences of the texts.\n"
    assert (to / "credits" / "books.tsv").read_text() == "a book\n"


def test_a_folder_with_something_in_it_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    named = ("--format", "authors", "--drafter", DRAFTER, "--target", TARGET, "--to", tmp_path)
    assert "is not empty" in said(capsys, *named)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    assert run(*named, "--overwrite") == 0
    assert (tmp_path / "mine.txt").read_text() == "mine"
    assert (tmp_path / "config.json").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--format", "authors"), "Name what to export"),
        (("--format", "authors", "--drafter", "none", "--to", "OUT"), "has no files of its own"),
        (("--format", "authors", "--drafter", "/nowhere", "--to", "OUT"), "There is no folder"),
        (("--format", "authors", "--drafter", DRAFTER, "--to", __file__), "is a file"),
        (
            ("--format", "authors", "--drafter", DRAFTER, "--to", __file__ + "/out"),
            "cannot be written to",
        ),
    ],
)  # fmt: skip
def test_mistakes_are_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[Any, ...], words: str
) -> None:
    given = [tmp_path / "out" if word == "OUT" else word for word in arguments]
    given += ["--target", TARGET] if "--format" in given else []
    assert words in said(capsys, *given)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("sharded", [False, True])
def test_no_weights_of_the_target_are_needed_but_an_eagle_heads_embeddings(
    tmp_path: Path, bundle: Path, sharded: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = tmp_path / "bare"
    shutil.copytree(bundle / "tiny", bare)
    (bare / "model.safetensors").unlink()
    named = ("--target", bare, "--target-name", "tiny")
    bare_moa = ("--format", "custom-generate", "--drafter", "moa-n1", *named)
    assert run(*bare_moa, "--to", tmp_path / "moa") == 0
    head = ("--format", "authors", "--drafter", "eagle2", *named, "--to", tmp_path / "eagle")
    assert "embeddings of" in said(capsys, *head)
    wanted = load_file(bundle / "tiny" / "model.safetensors")["model.embed_tokens.weight"]
    if sharded:
        shards = {"model.embed_tokens.weight": "two.safetensors", "lm_head.weight": "one"}
        index = json.dumps({"weight_map": shards})
        (bare / "model.safetensors.index.json").write_text(index)
    path = bare / ("two.safetensors" if sharded else "model.safetensors")
    save_file({"model.embed_tokens.weight": wanted}, path)
    assert run(*head) == 0
    found = load_file(tmp_path / "eagle" / "model.safetensors")["embed_tokens.weight"]
    assert torch.equal(found, wanted)
