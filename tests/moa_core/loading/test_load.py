"""Names, labels, folders, presets and Hub ids become targets and drafters, or a sentence."""

import shutil
from pathlib import Path

import pytest

from moa_core.drafters.base import Vanilla
from moa_core.drafters.moa import MoADrafter
from moa_core.errors import UserError
from moa_core.loading.catalog import bundle as bundled
from moa_core.loading.load import load_drafter, load_method, load_target
from tests.models import edit_config, save_target, speaking_target


def test_defaults_are_the_bundled_target_and_moa(bundle):
    target = load_target()
    assert target.name == "tiny" and load_drafter(None, target).name == "moa-n0"
    for tli in (0, 1):
        drafter = load_drafter(f"moa-n{tli}", target)
        assert isinstance(drafter, MoADrafter) and drafter.tli == tli
    assert isinstance(load_drafter("none", target), Vanilla)
    assert load_target(bundle / "tiny").name == "tiny"
    for spec in (bundle / "eagle2", "EAGLE2", "NGRAM", "MOA-N1+NGRAM"):
        assert load_drafter(spec, target).name == Path(spec).name.lower()
    shared = load_method(bundled(), "moa-n1+ngram", target, {"moa-n1": drafter})
    assert shared.net is drafter.net


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
def test_a_damaged_target_is_refused_in_one_line(saved_bundle, tmp_path, damage, words):
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


def test_a_config_without_an_end_of_text_leaves_it_to_the_tokenizer(tmp_path):
    save_target(tmp_path, speaking_target())
    edit_config(tmp_path, eos_token_id=None)
    (tmp_path / "generation_config.json").unlink()
    found = load_target(str(tmp_path), device="cpu")
    assert found.name == tmp_path.name and found.eos_ids == (found.tokenizer.eos_token_id,)
    assert not any(p.requires_grad for p in found.model.parameters())
