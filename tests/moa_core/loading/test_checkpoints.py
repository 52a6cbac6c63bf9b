"""Names, folders and Hub ids become models, or a sentence."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.base import Vanilla
from moa_core.drafters.moa import MoADrafter
from moa_core.errors import UserError
from moa_core.loading import checkpoints
from moa_core.loading.checkpoints import (
    bundled_drafters,
    bundled_target,
    drafter_name,
    first_eagle,
    layers_needed,
    load_drafter,
    load_target,
    locate,
    pick_device,
    pick_dtype,
)
from moa_core.loading.formats import save_drafter
from tests.models import useful


def test_the_bundle_is_listed_from_its_configs(bundle: Path) -> None:
    assert bundled_target() == "tiny"
    found = [(info.name, info.method, info.tli, info.tree) for info in bundled_drafters()]
    assert found == [
        ("eagle2", "eagle2", 0, TreeSettings(3, 2, 8)),
        ("moa-n0", "moa", 0, TreeSettings(3, 2, 6)),
        ("moa-n1", "moa", 1, TreeSettings(3, 2, 7)),
    ]


def test_defaults_are_the_bundled_target_and_moa(bundle: Path) -> None:
    target = load_target()
    assert target.name == "tiny"
    assert load_drafter(None, target).name == "moa-n0"
    for tli in (0, 1):
        drafter = load_drafter(None, target, tli)
        assert isinstance(drafter, MoADrafter) and drafter.tli == tli
    assert isinstance(load_drafter("none", target), Vanilla)
    assert load_drafter("eagle2", target).name == "eagle2"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("MoA-N1", "moa-n1"), ("MoA N=1", "moa-n1"), ("Eagle2", "eagle2"), ("EAGLE-2", "eagle2"),
        ("eagle-2", "eagle2"), ("none", "vanilla"), ("Vanilla", "vanilla"),
        ("N-gram lookup", "ngram"),        ("MoA, auto N", "moa-auto"), ("EAGLE", "eagle"),
    ],
)  # fmt: skip
def test_a_drafter_goes_by_its_label_and_in_any_case(bundle: Path, text: str, name: str) -> None:
    assert load_drafter(text, load_target()).name == drafter_name(text) == name


@pytest.mark.parametrize(
    ("text", "near"),
    [("moa-n9", "moa-n"), ("eagl2", "eagle2"), ("Eagle3", "eagle"), ("vanila", "vanilla")],
)
def test_a_misspelt_drafter_is_told_the_names(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, text: str, near: str
) -> None:
    monkeypatch.setattr("moa_core.loading.hub.fetch", lambda *_: pytest.fail("the Hub was asked"))
    target = load_target()
    names = "eagle2, moa-n0, moa-n1, eagle, moa-auto, ngram, vanilla"
    words = rf"no drafter '{text}': .*{names} \(did you mean {near}"
    for ask in (lambda: load_drafter(text, target), lambda: layers_needed(text)):
        with pytest.raises(UserError, match=words):
            ask()
    with pytest.raises(UserError, match=r"no model 'tiny2': choose from tiny \(did you mean tiny"):
        load_target("tiny2")


def test_an_n_nobody_trained_is_refused_with_those_there_are(bundle: Path) -> None:
    target = load_target()
    with pytest.raises(UserError, match=r"N = 2 \(trained: 0, 1\).* --methods moa-n2"):
        load_drafter(None, target, 2)
    with pytest.raises(UserError, match="Without a drafter there is no TLI"):
        load_drafter("none", target, 1)


def test_without_a_bundle_names_are_asked_for(
    tmp_path: Path, saved_bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOA_MODELS", str(tmp_path))
    assert bundled_drafters() == []
    with pytest.raises(UserError, match="no bundled target"):
        load_target()
    with pytest.raises(UserError, match="no bundled drafter"):
        load_drafter(None, load_target(str(saved_bundle / "tiny")))


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("/nowhere/at/all", "There is no folder /nowhere/at/all."),
        ("./nowhere", "There is no folder ./nowhere."),
        ("../nowhere", "There is no folder ../nowhere."),
        ("a/b/c", "There is no folder a/b/c."),
        ("my model", "There is no model 'my model'"),
        ("my model/x", "neither a bundled model, a folder, nor a Hub id"),
        ("a//b", "There is no folder"),
        ("name/", "neither"),
    ],
)
def test_what_can_be_nothing_is_refused(spec: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        locate(spec)


def test_a_hub_id_stays_a_hub_id_and_a_folder_wins(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert locate("somebody/something") == "somebody/something"
    assert locate("tiny") == bundle / "tiny"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    assert locate("mine") == Path("mine")


def test_a_hub_that_gives_nothing_is_said_in_a_sentence(
    bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def offline(*args: object, **kwargs: object) -> None:
        raise OSError("no network\nand a second line")

    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setattr("huggingface_hub.snapshot_download", offline)
    with pytest.raises(
        UserError, match=r"^somebody/something could not be downloaded \(no network\)"
    ):
        load_drafter("somebody/something", load_target())


@pytest.mark.parametrize("damage", ["config gone", "weights cut", "weights gone", "tokenizer"])
def test_a_damaged_target_is_refused_in_one_line(
    saved_bundle: Path, tmp_path: Path, damage: str
) -> None:
    folder = shutil.copytree(saved_bundle / "tiny", tmp_path / "mine")
    weights = folder / "model.safetensors"
    match damage:
        case "config gone":
            (folder / "config.json").unlink()
        case "weights cut":
            weights.write_bytes(weights.read_bytes()[:5000])
        case "weights gone":
            weights.unlink()
        case "tokenizer":
            (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(UserError) as caught:
        load_target(str(folder))
    assert "\n" not in str(caught.value)


def test_devices_and_dtypes() -> None:
    assert pick_device("cpu") == torch.device("cpu")
    assert pick_dtype("auto", torch.device("cpu")) is torch.float32
    assert pick_dtype("auto", torch.device("cuda")) is torch.bfloat16
    assert pick_dtype("bfloat16", torch.device("cpu")) is torch.bfloat16
    for device in ("banana", "cuda:99", "mps:7"):
        with pytest.raises(UserError, match=f"no device '{device}'"):
            pick_device(device)
    with pytest.raises(UserError, match="Unknown dtype 'int8'"):
        pick_dtype("int8", torch.device("cpu"))


def test_a_target_is_loaded_in_the_dtype_asked_for(bundle: Path) -> None:
    assert load_target(dtype="bfloat16").dtype is torch.bfloat16
    with pytest.raises(UserError, match=r"^Unknown dtype 'int8'"):
        load_target(dtype="int8")
    assert checkpoints.load_target().dtype is torch.float32


def test_how_many_layers_a_drafter_needs_is_known_before_its_target(
    bundle: Path, tmp_path: Path
) -> None:
    target = load_target(device="cpu")
    save_drafter(tmp_path, useful("moa-n2", target), target, {}, torch.float32)
    found = {spec: layers_needed(spec) for spec in (None, "moa-n1", "eagle2", "ngram", "eagle")}
    assert found == {None: 0, "moa-n1": 1, "eagle2": 0, "ngram": 0, "eagle": 0}
    assert layers_needed(str(tmp_path)) == 2 and layers_needed("moa-n1", 3) == 3


def test_only_an_eagle_head_drafts_as_the_first_eagle(bundle: Path) -> None:
    with pytest.raises(UserError, match="moa-n0 is no EAGLE head"):
        first_eagle("moa-n0", load_target(device="cpu"))


def test_a_config_without_an_end_of_text_leaves_it_to_the_tokenizer(
    bundle: Path, tmp_path: Path
) -> None:
    shutil.copytree(bundle / "tiny", tmp_path / "tiny")
    for name in ("config.json", "generation_config.json"):
        path = tmp_path / "tiny" / name
        keys = json.loads(path.read_text())
        path.write_text(json.dumps({**keys, "eos_token_id": None}))
    found = load_target(str(tmp_path / "tiny"), device="cpu")
    assert found.eos_ids == (found.tokenizer.eos_token_id,)
