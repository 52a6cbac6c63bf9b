"""The layouts of others: what is written is what their own code wrote, and loads as it was."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.base import Drafter
from moa_core.drafters.eagle import EagleDrafter, EagleNet
from moa_core.drafters.moa import MoADrafter, MoANet
from moa_core.errors import UserError
from moa_core.export.source import Source, read_source
from moa_core.export.write import export
from moa_core.loading.checkpoints import load_drafter
from moa_core.model.target import Target
from moa_core.train.init import fresh
from tests import released
from tests.moa_core.export.shared import TREE, drafts, saved
from tests.models import tiny_target, useful

PARITY = released.FOLDER


def written(source: Source, kind: str, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Config and tensors of an export."""
    export(source, kind, folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return config, load_file(folder / "model.safetensors")


def stored(folder: Path, name: str = "config.json") -> dict[str, Any]:
    return json.loads((folder / name).read_text(encoding="utf-8"))


def same(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> bool:
    return found.keys() == wanted.keys() and all(
        value.dtype == wanted[key].dtype and torch.equal(value, wanted[key])
        for key, value in found.items()
    )


def paper_like(method: str, target: Target) -> Drafter:
    """An untrained drafter with the mean of LSA's rows, as the authors' code takes it."""
    drafter = useful(method, target)
    if isinstance(drafter, MoADrafter):
        drafter.net.config = replace(drafter.net.config, pool="mean")
    return drafter


def refused(source: Source, kind: str, folder: Path) -> str:
    """The sentence, and nothing written."""
    with pytest.raises(UserError) as caught:
        export(source, kind, folder)
    sentence = str(caught.value)
    assert "\n" not in sentence and sentence.endswith(".") and not folder.exists()
    return sentence


def test_the_released_layout_comes_out_to_the_key(tmp_path: Path) -> None:
    source = read_source(str(PARITY / "moa_n0"), released.target())
    config, tensors = written(source, "authors", tmp_path / "authors")
    assert config == stored(PARITY / "moa_n0")
    assert same(tensors, load_file(PARITY / "moa_n0" / "model.safetensors"))


@pytest.mark.parametrize("family", ["llama", "qwen2"])
@pytest.mark.parametrize("method", ["moa-n0", "moa-n2", "eagle2"])
def test_what_is_exported_to_the_authors_loads_as_it_was(
    tmp_path: Path, method: str, family: str
) -> None:
    target = tiny_target(family=family)
    folder = saved(tmp_path / "mine", paper_like(method, target), target)
    source = read_source(folder, target)
    config, tensors = written(source, "authors", tmp_path / "authors")
    tensors.pop("embed_tokens.weight", None)  # SafeAILab's heads bring it along
    assert same(tensors, load_file(tmp_path / "mine" / "model.safetensors"))
    assert {value.dtype for value in tensors.values()} == {torch.bfloat16}
    assert config["torch_dtype"] == "bfloat16" and config["rope_theta"] == 10000.0
    back = load_drafter(str(tmp_path / "authors"), target)
    assert back.tree == TreeSettings(**TREE)
    assert drafts(target, back, [5, 9, 3]) == drafts(target, source.drafter, [5, 9, 3])


def test_an_eagle_head_of_safeailab_comes_out_as_it_went_in(tmp_path: Path) -> None:
    source = read_source(str(PARITY / "eagle2_head"), released.target())
    config, tensors = written(source, "authors", tmp_path / "out")
    assert same(tensors, load_file(PARITY / "eagle2_head" / "model.safetensors"))
    theirs = stored(PARITY / "eagle2_head")
    # Its own eos and pad ids are those of another program; all that shapes the head is there.
    free = {"architectures", "eos_token_id", "pad_token_id", "transformers_version"}
    for key in theirs.keys() - free:
        assert config[key] == theirs[key], key


@pytest.mark.parametrize(
    ("bias", "architecture", "command"),
    [
        (True, "LlamaForCausalLMEagle", "sglang.launch_server --model-path somebody/tiny"),
        (False, "EagleLlamaForCausalLM", "vllm serve somebody/tiny --speculative-config"),
    ],
)
def test_an_eagle_head_names_the_class_of_the_engine_that_can_hold_it(
    tmp_path: Path, bias: bool, architecture: str, command: str
) -> None:
    target = tiny_target()
    drafter = useful("eagle2", target)
    assert isinstance(drafter, EagleDrafter)
    if not bias:
        net = EagleNet(replace(drafter.net.config, fc_bias=False), 32).requires_grad_(False)
        drafter = EagleDrafter(net, target)
    folder = saved(tmp_path / "mine", drafter, target)
    source = read_source(folder, target, verifier="somebody/tiny")
    config, tensors = written(source, "authors", tmp_path / "out")
    assert config["architectures"] == [architecture] and ("fc.bias" in tensors) == bias
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert command in card and "$" not in card
    assert isinstance(load_drafter(str(tmp_path / "out"), target), EagleDrafter)


def test_what_the_authors_code_would_draft_otherwise_is_refused(tmp_path: Path) -> None:
    target = tiny_target()
    source = read_source(saved(tmp_path / "a", useful("moa-n0", target), target), target)
    assert source.drafter.net.config.pool == "last"  # type: ignore[attr-defined]
    assert "train moa-mean-lsa" in refused(source, "authors", tmp_path / "out")


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({"family": "qwen3", "head_dim": 8}, "is a qwen3."),
        ({"head_dim": 12}, "heads of size 12"),
    ],
)
def test_targets_that_the_authors_code_does_not_know_are_refused(
    tmp_path: Path, sizes: dict[str, Any], words: str
) -> None:
    target = tiny_target(**sizes)
    source = read_source(saved(tmp_path / "a", paper_like("moa-n0", target), target), target)
    assert words in refused(source, "authors", tmp_path / "out")


def test_a_methods_without_files_cannot_be_exported() -> None:
    for name in ("none", "ngram", "moa-auto"):
        with pytest.raises(UserError, match="has no files of its own"):
            read_source(name, released.target())


def test_n_that_no_file_records_is_written_down(tmp_path: Path) -> None:
    source = read_source(str(PARITY / "moa_n1"), released.target(), tli=1)
    config, _ = written(source, "authors", tmp_path / "out")
    assert config["drafter"] == {"method": "moa", "tli": 1}
    back = load_drafter(str(tmp_path / "out"), released.target())
    assert isinstance(back, MoADrafter) and back.tli == 1


def test_scaled_rope_is_written_in_the_old_keys(tmp_path: Path) -> None:
    rope = {
        "rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 64,
    }  # fmt: skip
    target = tiny_target(rope_parameters=rope)
    source = read_source(saved(tmp_path / "a", paper_like("moa-n0", target), target), target)
    config, _ = written(source, "authors", tmp_path / "out")
    theta = rope.pop("rope_theta")
    assert config["rope_theta"] == theta and config["rope_scaling"] == rope


def test_a_drafter_of_the_hub_is_named_without_its_revision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def given(name: str, **options: Any) -> str:
        asked.append((name, options["revision"]))
        return str(PARITY / "moa_n0")

    monkeypatch.setattr("moa_core.export.generate.snapshot_download", given)
    source = read_source("somebody/moa@0123abcd", released.target())
    assert source.name == "somebody/moa" and asked == [("somebody/moa", "0123abcd")]
    written(source, "custom-generate", tmp_path / "out")
    assert (tmp_path / "out" / "README.md").read_text().count("# moa, for target") == 1


def test_what_a_layout_cannot_hold_is_refused_with_what_it_is(tmp_path: Path) -> None:
    target = tiny_target()
    glide = read_source(saved(tmp_path / "a", fresh("glide", target, 0), target), target)
    words = "is a drafter of the method glide: no layout of its authors"
    assert words in refused(glide, "authors", tmp_path / "out")
    bare = read_source(saved(tmp_path / "b", fresh("moa-no-sa", target, 0), target), target)
    assert "lacks SA or LSA" in refused(bare, "authors", tmp_path / "out")


def test_lsa_of_other_heads_than_the_target_s_is_refused(tmp_path: Path) -> None:
    target = tiny_target()
    drafter = paper_like("moa-n0", target)
    assert isinstance(drafter, MoADrafter) and drafter.net.config.lsa
    lsa = drafter.net.config.lsa
    halved = replace(lsa, heads=lsa.heads // 2, kv_heads=1, head_dim=2 * lsa.head_dim)
    net = MoANet(replace(drafter.net.config, lsa=halved)).requires_grad_(False)
    source = read_source(saved(tmp_path / "a", MoADrafter(net, target), target), target)
    assert f"has {halved.heads} LSA heads" in refused(source, "authors", tmp_path / "out")
