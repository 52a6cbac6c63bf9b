"""Names, folders and Hub ids become targets and drafters, or a sentence."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from moa_core.drafters.base import Vanilla
from moa_core.drafters.moa import MoADrafter
from moa_core.errors import UserError
from moa_core.loading.load import (
    first_eagle,
    load_drafter,
    load_target,
    pick_device,
    pick_dtype,
    wanted_drafts,
)
from tests.models import edit_config, save_target, speaking_target


def test_defaults_are_the_bundled_target_and_moa(bundle: Path) -> None:
    target = load_target()
    assert target.name == "tiny" and load_drafter(None, target).name == "moa-n0"
    for tli in (0, 1):
        drafter = load_drafter(None, target, tli)
        assert isinstance(drafter, MoADrafter) and drafter.tli == tli
    assert isinstance(load_drafter("none", target), Vanilla)
    assert load_target(bundle / "tiny").name == "tiny"
    assert load_drafter(bundle / "eagle2", target).name == "eagle2"
    for name in ("eagle2", "eagle", "ngram", "moa-auto"):
        assert load_drafter(name.upper(), target).name == name


@pytest.mark.parametrize(
    ("load", "words"),
    [
        (lambda t: load_drafter(None, t, 2), r"N = 2 \(trained: 0, 1\).* --methods moa-n2"),
        (lambda t: load_drafter("none", t, 1), "Without a drafter there is no TLI"),
        (lambda t: load_drafter("moa-auto", t, 1), "chooses N itself: leave out --tli"),
        (lambda t: first_eagle("moa-n0", t), "moa-n0 is not an EAGLE head"),
        (lambda t: pick_device("banana"), "no device 'banana'"),
        (lambda t: load_target("moa-n0"), "moa-n0 is a drafter"),
        (lambda t: load_target(dtype="int8"), "^Unknown dtype 'int8'"),
        (lambda t: load_target(bits=3), "in 4 or 8 bits, not in 3"),
        (lambda t: wanted_drafts("int3", "float32"), "Drafts are auto, int8, float32, not 'int3'"),
        (lambda t: load_target(dtype="bfloat16", drafts="int8"), "need a float32 target"),
    ],
)
def test_what_cannot_be_loaded_is_refused(
    bundle: Path, load: Callable[..., object], words: str
) -> None:
    with pytest.raises(UserError, match=words):
        load(load_target())


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("config.json gone", "has no config.json: it is not a model folder"),
        ("model.safetensors cut", "cannot be loaded"),
        ("model.safetensors gone", "cannot be loaded"),
        ("tokenizer.json empty", "The tokenizer of .* cannot be loaded"),
        ("generation_config.json odd", "generation config whose eos_token_id is 'end'"),
    ],
)
def test_a_damaged_target_is_refused_in_one_line(
    saved_bundle: Path, tmp_path: Path, damage: str, words: str
) -> None:
    folder = shutil.copytree(saved_bundle / "tiny", tmp_path / "mine")
    name, how = damage.split()
    data = (folder / name).read_bytes()
    (folder / name).unlink()
    if how != "gone":
        odd = {"cut": data[:5000], "empty": b"{}", "odd": b'{"eos_token_id": "end"}'}
        (folder / name).write_bytes(odd[how])
    with pytest.raises(UserError, match=words) as caught:
        load_target(str(folder))
    assert "\n" not in str(caught.value)


def test_dtypes(bundle: Path) -> None:
    assert pick_device("cpu") == torch.device("cpu")
    for dtype, device, wanted in (
        ("auto", "cpu", torch.float32), ("auto", "cuda", torch.bfloat16),
        ("bfloat16", "cpu", torch.bfloat16),
    ):  # fmt: skip
        assert pick_dtype(dtype, torch.device(device)) is wanted
    assert load_target(dtype="bfloat16").dtype is torch.bfloat16
    assert load_target().dtype is torch.float32


def test_a_config_without_an_end_of_text_leaves_it_to_the_tokenizer(tmp_path: Path) -> None:
    save_target(tmp_path, speaking_target())
    edit_config(tmp_path, eos_token_id=None)
    (tmp_path / "generation_config.json").unlink()
    found = load_target(str(tmp_path), device="cpu")
    assert found.name == tmp_path.name and found.eos_ids == (found.tokenizer.eos_token_id,)
    assert not any(p.requires_grad for p in found.model.parameters())
