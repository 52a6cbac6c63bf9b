"""GGUF files: read as the model that was written, and refused in a sentence."""

import json
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind

from moa_core.bench.programs import interleaved
from moa_core.errors import UserError
from moa_core.loading import gguf as reading
from moa_core.loading.load import load_target
from moa_core.model.target import Target
from tests.models import SHAPES, plain_greedy, speaking_target, tiny_target

pytestmark = pytest.mark.usefixtures("cache")
PROMPT = [5, 9, 3, 17]


def write(
    path: Path, target: Target, kind: Kind = Kind.F32, changes: dict[str, Any] | None = None,
    lacking: str = "", name: str = "",
) -> Path:  # fmt: skip
    """A target as a GGUF file. changes: of its sizes, by transformers' names; lacking: a tensor."""
    config = target.config
    name = name or config.model_type
    writer = gguf.GGUFWriter(path, name)
    for ours, theirs in reading.SIZES.items():
        value = (changes or {}).get(ours, getattr(config, ours))
        add = writer.add_float32 if isinstance(value, float) else writer.add_uint32
        add(f"{name}.{theirs}", value)
    writer.add_float32(f"{name}.rope.freq_base", config.rope_parameters["rope_theta"])
    writer.add_uint32(f"{name}.attention.key_length", target.head_dim)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[config.model_type.upper()], len(target.layers))
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}
    for key, weight in target.model.state_dict().items():
        if key == lacking or (key == "lm_head.weight" and config.tie_word_embeddings):
            continue
        values, (*_, part, _) = weight.numpy(), key.split(".")
        if part in heads and config.model_type == "llama":
            values = interleaved(values, heads[part])
        whole = values.ndim == 1 or kind == Kind.F32
        values = values if whole else gguf.quantize(values, kind)
        place = names.get_name(key, (".weight", ".bias"))
        writer.add_tensor(place, values, raw_dtype=None if whole else kind)
    if target.tokenizer is not None:
        vocabulary = target.tokenizer.get_vocab()
        tokens = sorted(vocabulary, key=vocabulary.__getitem__)
        special = set(target.tokenizer.all_special_ids)
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("smollm")
        writer.add_token_list(tokens)
        writer.add_token_types([3 if n in special else 1 for n in range(len(tokens))])
        merges = target.tokenizer.backend_tokenizer.model.__getstate__()
        writer.add_token_merges([" ".join(pair) for pair in json.loads(merges)["merges"]])
        writer.add_eos_token_id(target.tokenizer.eos_token_id)
        writer.add_pad_token_id(target.tokenizer.pad_token_id)
        writer.add_chat_template(target.tokenizer.chat_template)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


TIED = "llama, tied embeddings and a vocabulary of 40"


@pytest.mark.parametrize("shape", ["llama", TIED, "qwen2", "qwen3"])
def test_a_file_is_the_model_that_was_written(tmp_path, shape):
    made = tiny_target(**SHAPES[shape])
    found = load_target(write(tmp_path / "tiny.gguf", made), "float32")
    assert found.name == "tiny" and found.tokenizer is None
    assert plain_greedy(found, PROMPT, 12) == plain_greedy(made, PROMPT, 12)
    mine, theirs = found.model.state_dict(), made.model.state_dict()
    assert mine.keys() == theirs.keys()
    assert all(torch.equal(mine[key], theirs[key]) for key in mine)


@pytest.mark.parametrize("kind", [Kind.F16, Kind.Q8_0, Kind.Q4_1])
def test_quantised_weights_are_the_librarys_numbers(tmp_path, kind):
    made = tiny_target(intermediate_size=64)
    found = load_target(write(tmp_path / "tiny.gguf", made, kind), "float32")
    weight = made.model.model.layers[1].mlp.gate_proj.weight.numpy()
    expected = gguf.dequantize(gguf.quantize(weight, kind), kind)
    assert np.array_equal(found.model.model.layers[1].mlp.gate_proj.weight.numpy(), expected)


def test_text_goes_through_the_files_own_tokenizer_and_template(tmp_path, cache):
    made = speaking_target()
    path = write(tmp_path / "tiny.gguf", made)
    found = load_target(path, "float32")
    ids = made.tokenizer("The fox sat 3 times.")["input_ids"]
    assert found.tokenizer("The fox sat 3 times.")["input_ids"] == ids
    assert found.tokenizer.chat_template == made.tokenizer.chat_template
    assert found.eos_ids == made.eos_ids
    (kept,) = (cache / "gguf").iterdir()
    stamp = (kept / "model.safetensors").stat()
    load_target(path, "float32")  # from the cache
    assert (kept / "model.safetensors").stat() == stamp


HOSTILE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "empty": (lambda data: b"", "empty file"),
    "of something else": (lambda data: b"PK\x03\x04" + data[4:], "GGUF magic invalid"),
    "of another version": (lambda data: data[:4] + struct.pack("<I", 99) + data[8:], "version 99"),
    "of endless fields": (lambda data: data[:16] + struct.pack("<Q", 2**62) + data[24:], ""),
    "of endless tensors": (lambda data: data[:8] + struct.pack("<Q", 2**62) + data[16:], ""),
    "with an endless list": (
        lambda data: data[:16] + struct.pack("<Q", 1) + field("a", 9, struct.pack("<IQ", 4, 2**62)),
        "cut short, or claims more",
    ),
    "with an endless text": (
        lambda data: data[:16] + struct.pack("<Q", 1) + field("a", 8, struct.pack("<Q", 2**62)),
        "cut short, or claims more",
    ),
    **{
        f"cut at {part}": (lambda data, part=part: data[: int(len(data) * part)], "")
        for part in (0.001, 0.01, 0.05, 0.3, 0.6, 0.99)
    },
}


def field(key: str, kind: int, value: bytes) -> bytes:
    return struct.pack("<Q", len(key)) + key.encode() + struct.pack("<I", kind) + value


@pytest.mark.parametrize("what", HOSTILE)
def test_a_hostile_file_is_refused_in_a_sentence(tmp_path, cache, what):
    change, words = HOSTILE[what]
    path = write(tmp_path / "bad.gguf", tiny_target())
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(UserError, match=f"bad.gguf is no GGUF file that can be read: .*{words}"):
        load_target(path)
    assert not any((cache / "gguf").iterdir())


def test_a_file_that_another_process_has_read_meanwhile_is_there(tmp_path, cache, monkeypatch):
    replace = os.replace

    def late(part: str, folder: Path) -> None:
        shutil.copytree(part, folder)
        replace(part, folder)

    monkeypatch.setattr("moa_core.cache.os.replace", late)
    made = tiny_target()
    found = load_target(write(tmp_path / "tiny.gguf", made), "float32")
    assert plain_greedy(found, PROMPT, 4) == plain_greedy(made, PROMPT, 4)
    assert len([*(cache / "gguf").iterdir()]) == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"hidden_size": 2**31}, "no model is so large"),
        ({"num_hidden_layers": 2**31}, "no model is so large"),
        ({"intermediate_size": 2**30}, r"down_proj.* is \(32, 48\), not \(32, 1073741824\)"),
        ({"num_hidden_layers": 2}, r"blk\.2\..* not part of such a model"),
        ({"num_attention_heads": 8}, r"o_proj.weight is \(32, 32\), not \(32, 64\)"),
    ],
)
def test_sizes_that_its_tensors_do_not_have_allocate_nothing(tmp_path, changes, words):
    path = write(tmp_path / "odd.gguf", tiny_target(), changes=changes)
    with pytest.raises(UserError, match=words):
        load_target(path)


def test_what_is_not_known_is_named(tmp_path):
    made = tiny_target()
    with pytest.raises(UserError, match=r"architecture 'gptneox' is not supported.*llama, qwen2"):
        load_target(write(tmp_path / "a.gguf", made, name="gptneox"))
    with pytest.raises(UserError, match=r"up_proj\.weight is missing"):
        load_target(write(tmp_path / "b.gguf", made, lacking="model.layers.1.mlp.up_proj.weight"))
    with pytest.raises(UserError, match=r"There is no file .*none\.gguf"):
        load_target(tmp_path / "none.gguf")
    path = write(tmp_path / "c.gguf", tiny_target(intermediate_size=64), Kind.Q8_0)
    known = struct.pack("<I", Kind.Q8_0)
    name = b"blk.0.ffn_up.weight"
    data = path.read_bytes()
    at = data.index(known, data.index(name) + len(name) + 20)
    path.write_bytes(data[:at] + struct.pack("<I", 200) + data[at + 4 :])
    with pytest.raises(UserError, match=r"\(200\) is not a valid GGMLQuantizationType"):
        load_target(path)
