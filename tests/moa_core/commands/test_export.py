"""What is exported loads as it was, in the formats of others."""

import pytest
import torch
from safetensors.torch import load_file

from moa_core.__main__ import main
from moa_core.loading.drafter_files import save_drafter
from moa_core.loading.load import load_drafter, load_target
from moa_core.train.drafters import fresh
from tests.models import draft_alike, save_target, speaking_target


@pytest.mark.parametrize(
    ("method", "words"), [("moa-n1", None), ("eagle2", None), ("eagle3", torch.arange(0, 280, 3))]
)
def test_an_export_loads_as_it_was(tmp_path, method, words):
    target = speaking_target()
    save_target(tmp_path / "tiny", target)
    drafter = fresh(method, target, 0)
    drafter.vocabulary = words
    save_drafter(tmp_path / "mine", drafter, target, {}, torch.int8)
    given = {"target": tmp_path / "tiny", "drafter": tmp_path / "mine", "to": tmp_path / "out"}
    assert main(["export", *(f"--{name}={place}" for name, place in given.items())]) == 0
    tensors = load_file(tmp_path / "out" / "drafter" / "model.safetensors")
    assert not any(name.endswith(".scale") for name in tensors)
    if words is not None:  # vLLM slices no head
        assert torch.equal(tensors["lm_head.weight"], target.head.weight[words])
    back = load_target(tmp_path / "out" / "target", "float32")
    assert all(map(torch.equal, target.model.parameters(), back.model.parameters()))
    names = ("mine", "out/drafter")
    assert draft_alike(target, *(load_drafter(str(tmp_path / name), target) for name in names))
