"""Untrusted files are refused before anything of their size is made, and their code never runs."""

import json
import pickle
import re
import shutil
import struct
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from hypothesis import given
from safetensors.torch import load_file, save_file
from transformers import AutoConfig

from moa_core.arguments import add_pickle
from moa_core.drafters.eagle import EagleDrafter
from moa_core.errors import UserError
from moa_core.link.client_weights import open_target, write
from moa_core.loading.drafter_files import build_drafter, save_drafter
from moa_core.loading.load import load_drafter, load_target
from moa_core.loading.memory import estimate
from moa_core.model.target import Target
from moa_core.untrusted import MOST_PARTS, PICKLES, check_sizes, read_config, read_tensors
from tests.models import edit_config, lossless, save_target, speaking_target, tiny_target, useful
from tests.mutations import mutated
from tests.properties import SEEDS, few

MIB = 2**20
METHODS = ("moa-n1", "eagle2", "medusa", "tandem", "independent")


@pytest.fixture(scope="module")
def target() -> Target:
    return tiny_target()


@pytest.fixture(scope="module")
def good(target: Target, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A folder of each kind of drafter; not to be written to."""
    places = {method: tmp_path_factory.mktemp(method) for method in METHODS}
    for method, folder in places.items():
        save_drafter(folder, useful(method, target), target, {"tree": {"depth": 3}}, torch.float32)
    return places


def changed(folder: Path, of: Path, **changes: Any) -> None:
    """A copy of a model's folder, with other values in its config."""
    shutil.copytree(of, folder, dirs_exist_ok=True)
    edit_config(folder, **changes)


def refused(folder: Path, target: Target) -> str:
    """The sentence in which a drafter is refused; hardly any memory is taken for it."""
    with frugal(), pytest.raises(UserError) as caught:
        load_drafter(str(folder), target)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@contextmanager
def frugal() -> Iterator[None]:
    """Nothing in here may take more address space: an allocation counts before it is used."""
    before = psutil.Process().memory_info().vms
    yield
    assert psutil.Process().memory_info().vms - before < 1024 * MIB


LAYER = ("num_attention_heads", "num_key_value_heads", "intermediate_size")
KEYS = {
    "medusa": ("heads", "blocks"), "tandem": LAYER, "independent": ("num_hidden_layers", *LAYER),
    "moa-n1": ("num_attention_heads", "vocab_size"), "eagle2": ("num_attention_heads",),
}  # fmt: skip
SIZES = (10**4, 2**31, 10**30, -1)


@pytest.mark.parametrize(("method", "key"), [(m, key) for m, keys in KEYS.items() for key in keys])
def test_a_size_unlike_the_file_s_is_refused_before_it_is_made(tmp_path, good, target, method, key):
    # 3 heads divide no width here: transformers has an error of its own for them.
    for size in (*SIZES, *([3] if key == "num_attention_heads" else [])):
        changed(tmp_path, good[method], **{key: size})
        refused(tmp_path, target)


@few(30)
@given(SEEDS)
def test_a_drafter_s_config_with_other_values_loads_or_is_refused(target, good, seed):
    method = METHODS[seed % len(METHODS)]
    config = mutated(read_config(good[method]), seed)
    try:
        if isinstance(config, dict):
            check_sizes(config, "it")
            build_drafter(config, read_tensors(good[method]), target, None, "mine")
    except UserError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize(
    "sizes",
    [
        {"num_hidden_layers": 10**9}, {"vocab_size": 2**50}, {"num_attention_heads": 0},
        {"head_dim": 2**40}, {"num_labels": 10**9}, {"num_hidden_layers": "3"},
        {"hidden_size": float("nan")}, {"model_type": "gpt9"}, {"rope_parameters": [[]]},
    ],
    ids=str,
)  # fmt: skip
def test_a_target_of_impossible_sizes_is_refused_before_it_is_made(tmp_path, target, sizes):
    save_target(tmp_path, target)
    edit_config(tmp_path, **sizes)
    with frugal(), pytest.raises(UserError) as caught:
        load_target(str(tmp_path))
    assert "\n" not in str(caught.value)


def test_the_largest_models_there_are_pass():
    config = AutoConfig.for_model("llama").to_dict()
    sizes = {"hidden_size": 16384, "num_hidden_layers": 126, "num_attention_heads": 128,
             "vocab_size": 128256, "max_position_embeddings": 2**21, "head_dim": 128}  # fmt: skip
    check_sizes({**config, **sizes, "num_experts": 512, "n_embd": 12288, "n_positions": 2048}, "it")
    assert estimate(AutoConfig.for_model("llama", **sizes), torch.bfloat16).weights > 4e11
    with pytest.raises(UserError, match=r"^it says that num_hidden_layers is 1,025"):
        check_sizes({"text_config": {"num_hidden_layers": MOST_PARTS + 1}}, "it")
    with pytest.raises(UserError, match="a number of more than 20 digits"):
        check_sizes({"a": [[10**40]]}, "it")


def safetensors(header: Any, data: bytes = b"", size: int | None = None) -> bytes:
    """A file with any header. size: what it says of the header's length."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if size is None else size) + text + data


def entry(shape: list[int], dtype: str = "F32", offsets: tuple[int, int] = (0, 0)) -> Any:
    return {"fc.weight": {"dtype": dtype, "shape": shape, "data_offsets": list(offsets)}}


TRAPS = {
    "deep": "[" * 100_000,
    "deep within": '{"drafter": ' * 50_000 + "1" + "}" * 50_000,
    "digits": '{"hidden_size": ' + "9" * 5000 + "}",
    "no number": '{"num_hidden_layers": 1e999}',
    "large": '{"a": "' + "x" * (17 * MIB) + '"}',
    # safetensors refuses these; what it raises must become a sentence.
    "an endless header": safetensors(b"{}", size=2**63),
    "a huge shape": safetensors(entry([2**40, 2**20])),
    "offsets beyond the file": safetensors(entry([4], offsets=(0, 16))),
    "a rare type": safetensors(entry([16], "F8_E8M0", (0, 16)), bytes(16)),
}


@pytest.mark.parametrize("trap", TRAPS.values(), ids=TRAPS.keys())
def test_a_file_that_is_a_trap_for_parsers_is_refused(tmp_path, good, target, trap):
    changed(tmp_path, good["medusa"])
    if isinstance(trap, str):
        (tmp_path / "config.json").write_text(trap)
    else:
        (tmp_path / "model.safetensors").write_bytes(trap)
    refused(tmp_path, target)


@pytest.mark.parametrize("method", ["moa-n1", "eagle2", "tandem"])
def test_a_shape_of_no_bytes_is_not_made_of_many(tmp_path, good, target, method):
    """safetensors takes [2^40, 0] for a tensor of no bytes; its first size is a layer's width."""
    changed(tmp_path, good[method])
    tensors = load_file(tmp_path / "model.safetensors")
    name = next(name for name in tensors if name.endswith("mlp.gate_proj.weight"))
    save_file({**tensors, name: torch.empty(2**40, 0)}, tmp_path / "model.safetensors")
    refused(tmp_path, target)


def test_weights_of_nan_draft_badly_and_the_text_stays_the_targets(tmp_path, good, target):
    changed(tmp_path, good["moa-n1"])
    tensors = load_file(tmp_path / "model.safetensors")
    spoilt = {key: one * torch.nan for key, one in tensors.items()}
    save_file(spoilt, tmp_path / "model.safetensors")
    lossless(target, load_drafter(str(tmp_path), target), [5, 9, 33], 20)


class Bomb:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("form", ["torch", "pickle", "junk", "empty", "no weights"])
def test_a_pickle_of_more_than_weights_is_refused_unopened(tmp_path, target, form, monkeypatch):
    monkeypatch.setenv(PICKLES, "1")
    folder, went_off = tmp_path / "mine", tmp_path / "went off"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    weights = folder / "pytorch_model.bin"
    if form in ("torch", "no weights"):
        torch.save({"fc.weight": Bomb(went_off) if form == "torch" else [1, 2]}, weights)
    else:
        content = {"pickle": pickle.dumps(Bomb(went_off)), "junk": b"\x80\x04junk", "empty": b""}
        weights.write_bytes(content[form])
    refused(folder, target)
    assert not went_off.exists()


def test_a_pickle_is_opened_on_request_alone(tmp_path, good, target, monkeypatch):
    changed(tmp_path, good["eagle2"])
    torch.save(load_file(tmp_path / "model.safetensors"), tmp_path / "pytorch_model.bin")
    (tmp_path / "model.safetensors").unlink()
    opened: list[Any] = []
    load = torch.load
    monkeypatch.setattr(torch, "load", lambda *a, **k: opened.append(k) or load(*a, **k))
    assert "only with --allow-pickle or MOA_ALLOW_PICKLE=1" in refused(tmp_path, target)
    assert not opened
    monkeypatch.setenv(PICKLES, "0")  # set back when this ends
    add_pickle(parser := ArgumentParser())
    parser.parse_args(["--allow-pickle"])
    assert isinstance(load_drafter(str(tmp_path), target), EagleDrafter)
    assert opened and all(one["weights_only"] is True for one in opened)


def with_code(folder: Path, went_off: Path) -> None:
    """Let a repository name its own classes, which write a file when they are imported."""
    classes = {"AutoConfig": "mine.Mine", "AutoModelForCausalLM": "mine.Model"}
    edit_config(folder, model_type="mine", auto_map=classes)
    (folder / "mine.py").write_text(f"open({str(went_off)!r}, 'w').close()\n")
    tokenizer = folder / "tokenizer_config.json"
    told = json.loads(tokenizer.read_text())
    told |= {"auto_map": {"AutoTokenizer": ["mine.Slow", "mine.Fast"]}}
    tokenizer.write_text(json.dumps(told))


@pytest.mark.parametrize("what", ["target", "drafter", "client"])
def test_no_code_of_a_repository_is_run_and_nobody_is_asked(tmp_path, what, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda *_: "y")  # transformers would ask, and do it
    ours, folder, went_off = speaking_target(), tmp_path / "theirs", tmp_path / "went off"
    folder.mkdir()
    write(ours, 1, folder) if what == "client" else save_target(folder, ours)
    with_code(folder, went_off)
    read = {
        "target": lambda: load_target(str(folder)),
        "drafter": lambda: load_drafter(str(folder), ours),
        "client": lambda: open_target(folder),
    }
    with pytest.raises(UserError, match=re.compile("cannot be|no config", re.IGNORECASE)):
        read[what]()
    assert not went_off.exists()
