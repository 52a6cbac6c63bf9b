"""Exports: what is written is what the authors' own code wrote, loads as it was, and has a card."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from moa_core.__main__ import main
from moa_core.commands.export import FORMATS
from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Drafted, Trace
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.base import Drafter
from moa_core.drafters.eagle import EagleDrafter, EagleNet
from moa_core.drafters.moa import MoADrafter, MoANet
from moa_core.errors import UserError
from moa_core.export import write
from moa_core.export.card import RECORDED
from moa_core.export.source import Source, read_source
from moa_core.export.write import export
from moa_core.loading.drafter_files import save_drafter
from moa_core.loading.load import load_drafter
from moa_core.model.target import Target
from moa_core.train.init import fresh
from tests import released
from tests.models import tiny_target, useful

PARITY = released.FOLDER
DRAFTER, TARGET = str(PARITY / "moa_n0"), str(PARITY / "target")
TREE = {"depth": 4, "breadth": 2, "budget": 7}


def source_of(folder: Path, drafter: Drafter, target: Target, **more: Any) -> Source:
    save_drafter(folder, drafter, target, {"tree": TREE}, torch.bfloat16)
    return read_source(str(folder), target, **more)


def written(source: Source, kind: str, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Config and tensors of an export."""
    export(source, kind, folder)
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return config, load_file(folder / "model.safetensors")


def same(found: dict[str, torch.Tensor], wanted: dict[str, torch.Tensor]) -> bool:
    return found.keys() == wanted.keys() and all(
        value.dtype == wanted[key].dtype and torch.equal(value, wanted[key])
        for key, value in found.items()
    )


def drafts(target: Target, drafter: Drafter) -> list[Any]:
    run = decode(target, drafter, [5, 9, 3], Settings(12, TreeSettings(3, 3, 9)))
    return [event.tree for event in Trace(events=list(run)).of(Drafted)]


def paper_like(method: str, target: Target) -> Drafter:
    """An untrained drafter with the mean of LSA's rows, as the authors' code takes it."""
    drafter = useful(method, target)
    if isinstance(drafter, MoADrafter):
        drafter.net.config = replace(drafter.net.config, pool="mean")
    return drafter


# ---- layouts ----


@pytest.mark.parametrize("name", ["moa_n0", "eagle2_head"])
def test_the_released_layout_comes_out_to_the_key(tmp_path: Path, name: str) -> None:
    source = read_source(str(PARITY / name), released.target())
    config, tensors = written(source, "authors", tmp_path / "authors")
    assert same(tensors, load_file(PARITY / name / "model.safetensors"))
    theirs = json.loads((PARITY / name / "config.json").read_text())
    # The head's own eos and pad ids are those of another program; all that shapes it is there.
    free = {"architectures", "eos_token_id", "pad_token_id", "transformers_version"}
    for key in theirs.keys() - (free if name == "eagle2_head" else set()):
        assert config[key] == theirs[key], key
    assert name == "eagle2_head" or config == theirs


@pytest.mark.usefixtures("plain_torch")
@pytest.mark.parametrize("family", ["llama", "qwen2"])
@pytest.mark.parametrize("method", ["moa-n0", "moa-n2", "eagle2"])
@pytest.mark.parametrize("kind", FORMATS)
def test_an_export_loads_as_it_was(tmp_path: Path, kind: str, method: str, family: str) -> None:
    target = tiny_target(family=family)
    source = source_of(tmp_path / "mine", paper_like(method, target), target)
    config, tensors = written(source, kind, tmp_path / "out")
    tensors.pop("embed_tokens.weight", None)  # SafeAILab's heads bring it along
    assert same(tensors, load_file(tmp_path / "mine" / "model.safetensors"))
    if kind == "authors":
        assert config["torch_dtype"] == "bfloat16" and config["rope_theta"] == 10000.0
    back = load_drafter(str(tmp_path / "out"), target)
    assert back.tree == TreeSettings(**TREE)
    assert drafts(target, back) == drafts(target, source.drafter)


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
    net = EagleNet(replace(drafter.net.config, fc_bias=bias), 32).requires_grad_(False)
    drafter = EagleDrafter(net, target)
    source = source_of(tmp_path / "mine", drafter, target, verifier="somebody/tiny")
    config, tensors = written(source, "authors", tmp_path / "out")
    assert config["architectures"] == [architecture] and ("fc.bias" in tensors) == bias
    card = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert command in card and "$" not in card


def halved_lsa(target: Target) -> Drafter:
    sizes = paper_like("moa-n0", target).net.config
    heads = sizes.lsa.heads // 2
    lsa = replace(sizes.lsa, heads=heads, kv_heads=1, head_dim=2 * sizes.lsa.head_dim)
    return MoADrafter(MoANet(replace(sizes, lsa=lsa)).requires_grad_(False), target)


@pytest.mark.parametrize(
    ("sizes", "make", "words"),
    [
        ({}, lambda t: useful("moa-n0", t), "train moa-mean-lsa"),
        ({}, lambda t: fresh("moa-no-sa", t, 0), "lacks SA or LSA"),
        ({}, lambda t: fresh("glide", t, 0), "of the method glide: no layout of its authors"),
        ({}, halved_lsa, "has 2 LSA heads; the authors' code takes the target's 4"),
        ({"family": "qwen3", "head_dim": 8}, lambda t: paper_like("moa-n0", t), "is a qwen3."),
        ({"head_dim": 12}, lambda t: paper_like("moa-n0", t), "heads of size 12"),
    ],
)
def test_what_the_authors_code_cannot_hold_is_refused_unwritten(
    tmp_path: Path, sizes: dict[str, Any], make: Any, words: str
) -> None:
    target = tiny_target(**sizes)
    source = source_of(tmp_path / "a", make(target), target)
    with pytest.raises(UserError) as caught:
        export(source, "authors", tmp_path / "out")
    sentence = str(caught.value)
    assert words in sentence and "\n" not in sentence and not (tmp_path / "out").exists()


def test_n_and_scaled_rope_are_written_in_the_old_keys(tmp_path: Path) -> None:
    source = read_source(str(PARITY / "moa_n1"), released.target(), tli=1)
    config, _ = written(source, "authors", tmp_path / "one")
    assert config["drafter"] == {"method": "moa", "tli": 1}
    rope = {
        "rope_type": "llama3", "rope_theta": 5e5, "factor": 8.0, "low_freq_factor": 1.0,
        "high_freq_factor": 4.0, "original_max_position_embeddings": 64,
    }  # fmt: skip
    target = tiny_target(rope_parameters=rope)
    source = source_of(tmp_path / "a", paper_like("moa-n0", target), target)
    config, _ = written(source, "authors", tmp_path / "out")
    assert config["rope_theta"] == rope.pop("rope_theta") and config["rope_scaling"] == rope


# ---- the command, and its card ----


def run(*arguments: Any) -> int:
    return main(["export", *map(str, arguments)])


def with_ours(folder: Path, bundle: Path, **keys: str) -> Path:
    """A copy of the bundle's moa-n1 that says more about itself."""
    shutil.copytree(bundle / "moa-n1", folder)
    config = json.loads((folder / "config.json").read_text())
    config["drafter"] |= keys
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def card_of(drafter: Any, to: Path, *more: Any) -> str:
    assert run("--format", "custom-generate", "--drafter", drafter, "--to", to, *more) == 0
    return (to / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_has_files_and_a_card(tmp_path: Path, kind: str) -> None:
    named = ("--drafter", DRAFTER, "--target", TARGET, "--to", tmp_path / "out")
    more = ("--licence", "mit", "--target-name", "somebody/tiny")
    assert run("--format", kind, *named, *more) == 0
    front, text = (tmp_path / "out" / "README.md").read_text(encoding="utf-8").split("---\n")[1:3]
    assert "license: mit" in front and "base_model: somebody/tiny" in front
    assert ("custom_generate" in front) == (kind == "custom-generate")
    assert "TLI N = 0" in text and "somebody/tiny" in text and "Licence: mit." in text
    assert "Training data: its config states none." in text and "$" not in text
    assert tuple(write.FORMATS) == FORMATS


def test_a_card_says_what_the_config_says_as_text(tmp_path: Path, bundle: Path) -> None:
    """No front matter, no HTML, no link and no heading comes of what a config says of itself."""
    mine = with_ours(tmp_path / "mine", bundle, licence="Apache-2.0", data="fables")
    card = card_of(mine, tmp_path / "out")
    assert "license: apache-2.0" in card and "Training data: fables." in card
    assert "3 levels, 2 wide, 7 nodes" in card and "base_model" not in card
    evil = "mit\n---\ntags: [x]\n# Big\n<img src=x onerror=alert(1)> [x](javascript:y) `z` ${a}"
    card = card_of(with_ours(tmp_path / "evil", bundle, licence=evil, data=evil), tmp_path / "two")
    assert "<img" not in card and "&lt;img src=x" in card and "\\[x\\](javascript" in card
    assert "\n# Big" not in card and card.count("\n---\n") == 1 and "license: other" in card
    assert "\\`z\\` ${a}" in card


def test_a_card_that_points_beside_itself_takes_that_along(tmp_path: Path, bundle: Path) -> None:
    (tmp_path / "models" / "credits").mkdir(parents=True)
    (tmp_path / "models" / "credits" / "books.tsv").write_text("a book\n")
    (tmp_path / "models" / "README.md").write_text("Licences of the texts.\n")
    above = {"licence": "see ../README.md", "data": "see ../README.md"}
    to = tmp_path / "out"
    card = card_of(with_ours(tmp_path / "models" / "moa", bundle, **above), to)
    assert "Licence: see SOURCE.md." in card and "license: other" in card
    assert (to / "SOURCE.md").read_text() == "Licences of the texts.\n"
    assert (to / "credits" / "books.tsv").read_text() == "a book\n"


def test_a_bundled_drafters_card_has_its_licence_and_recorded_figures(tmp_path: Path) -> None:
    card = card_of("moa-n1", tmp_path / "out")
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    assert "license: apache-2.0" in card and recorded["command"] in card
    assert f"τ {recorded['methods']['moa-n1']['tau']:.2f} (tokens gained" in card


def test_a_folder_with_something_in_it_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    named = ("--format", "authors", "--drafter", DRAFTER, "--target", TARGET, "--to", tmp_path)
    assert run(*named) == 2 and "is not empty" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    assert run(*named, "--overwrite") == 0
    assert (tmp_path / "mine.txt").read_text() == "mine" and (tmp_path / "config.json").exists()


@pytest.mark.parametrize(
    ("drafter", "to", "words"),
    [
        (None, None, "Name what to export"),
        ("none", "OUT", "none has no files of its own"),
        ("moa-auto", "OUT", "moa-auto has no files of its own"),
        ("/nowhere", "OUT", "There is no folder"),
        (DRAFTER, __file__, "is a file"),
        (DRAFTER, f"{__file__}/out", "cannot be written to"),
    ],
)
def test_mistakes_are_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], drafter: Any, to: Any, words: str
) -> None:
    to = tmp_path / "out" if to == "OUT" else to
    named = ("--drafter", drafter, "--to", to) if drafter else ()
    assert run("--format", "authors", "--target", TARGET, *named) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ") and error.count("\n") == 1
    assert words.replace("none", "vanilla", drafter == "none") in error
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("sharded", [False, True])
def test_no_weights_of_the_target_are_needed_but_an_eagle_heads_embeddings(
    tmp_path: Path, bundle: Path, sharded: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = shutil.copytree(bundle / "tiny", tmp_path / "bare")
    (bare / "model.safetensors").unlink()
    card_of("moa-n1", tmp_path / "moa", "--target", bare)
    head = ("--format", "authors", "--drafter", "eagle2", "--target", bare)
    assert run(*head, "--to", tmp_path / "eagle") == 2
    assert "embeddings of" in capsys.readouterr().err
    wanted = load_file(bundle / "tiny" / "model.safetensors")["model.embed_tokens.weight"]
    if sharded:
        shards = {"model.embed_tokens.weight": "two.safetensors", "lm_head.weight": "one"}
        index = json.dumps({"weight_map": shards})
        (bare / "model.safetensors.index.json").write_text(index)
    path = bare / ("two.safetensors" if sharded else "model.safetensors")
    save_file({"model.embed_tokens.weight": wanted}, path)
    assert run(*head, "--to", tmp_path / "eagle") == 0
    found = load_file(tmp_path / "eagle" / "model.safetensors")["embed_tokens.weight"]
    assert torch.equal(found, wanted)
