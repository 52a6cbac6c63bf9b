"""Models in GGUF files, llama.cpp's format: read once, kept as a transformers folder in the cache.

Reading takes seconds, most of them for the vocabulary. The folder is mapped into memory instead.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moa_core.cache import cache_folder, making
from moa_core.errors import UserError, saying
from moa_core.untrusted import check_sizes

if TYPE_CHECKING:
    import gguf
    from torch import Tensor

SUFFIX = ".gguf"
KEPT = "2"  # of the folder's form: another number makes new ones
# GGUF's architectures, which transformers calls the same, and their models
ARCHITECTURES = {
    "llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM",
}  # fmt: skip
SIZES = {
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "num_hidden_layers": "block_count",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "max_position_embeddings": "context_length",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
}
ENDS = {"bos": "bos", "eos": "eos", "pad": "padding"}  # of a config's token ids


def opened(path: Path) -> Path:
    """The folder of a GGUF file's model in float32, made at the first call.

    UserError for a file that is damaged, cut short, or of a form not known here.
    """
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None
    folder = cache_folder() / "gguf" / f"{digest[:16]}-{KEPT}"
    if not folder.exists():
        with saying(f"{path.name} cannot be kept in {folder.parent}"), making(folder) as part:
            convert(path, part)
    return folder


def convert(path: Path, folder: Path) -> None:
    """Write config, weights in float32, tokenizer and chat template of a GGUF file into a folder.

    Needs memory for the weights in float32. UserError as in `opened`.
    """
    reader = _read(path)
    try:
        config = _config(reader)
    except KeyError as error:
        raise UserError(f"{path.name} does not say its {error}: its shape is unknown.") from None
    check_sizes(config, path.name)
    names = _names(reader, config, path.name)
    from safetensors.torch import save_file

    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    ends = {key: config[key] for key in config if key.endswith("token_id")}
    (folder / "generation_config.json").write_text(json.dumps(ends) + "\n", encoding="utf-8")
    save_file(dict(_weights(reader, config, names)), folder / "model.safetensors", {"format": "pt"})
    if "tokenizer.ggml.tokens" in reader.fields:
        _tokenizer(path, reader).save_pretrained(folder)


def _read(path: Path) -> gguf.GGUFReader:
    """The file's fields and tensors; weights are not read yet. UserError if it is no such file."""
    import gguf

    class Reader(gguf.GGUFReader):
        def _get(self, offset: int, dtype: Any, count: int = 1, *more: Any, **rest: Any) -> Any:
            # The library slices: beyond the end it would find nothing and go on for ever.
            if int(offset) + int(count) * dtype(0).itemsize > len(self.data):
                raise ValueError("it is cut short, or claims more than it has")
            return super()._get(offset, dtype, count, *more, **rest)

    # The error may also be of a quantisation that it does not know.
    with saying(f"{path.name} is no GGUF file that can be read"):
        return Reader(path)


def _field(reader: gguf.GGUFReader, key: str) -> Any:
    return reader.fields[key].contents()


def _config(reader: gguf.GGUFReader) -> dict[str, Any]:
    """The keys of transformers' config. KeyError for a size that the file does not name."""
    kind = str(_field(reader, "general.architecture"))
    if kind not in ARCHITECTURES:
        raise UserError(
            f"A GGUF file of the architecture {kind[:40]!r} is not supported: choose one of "
            f"{', '.join(ARCHITECTURES)}."
        )
    shapes = {tensor.name: _shape(tensor) for tensor in reader.tensors}
    if "rope_freqs.weight" in shapes or f"{kind}.rope.scaling.type" in reader.fields:
        raise UserError("A GGUF file with scaled RoPE is not supported: name the model's Hub id.")
    sizes = {ours: _field(reader, f"{kind}.{theirs}") for ours, theirs in SIZES.items()}
    sizes["rms_norm_eps"] = float(f"{sizes['rms_norm_eps']:.6g}")  # written in single precision
    heads, width = sizes["num_attention_heads"], sizes["hidden_size"]
    if not isinstance(heads, int) or heads < 1:
        raise UserError(f"A GGUF file whose number of heads is {heads!r:.40} is not supported.")
    length, theta = (reader.fields.get(f"{kind}.{key}") for key in (
        "attention.key_length", "rope.freq_base",
    ))  # fmt: skip
    return {
        "model_type": kind,
        "architectures": [ARCHITECTURES[kind]],
        **sizes,
        "head_dim": length.contents() if length else width // heads,
        "vocab_size": next(iter(shapes.get("token_embd.weight", ())), 0),
        "rope_parameters": {
            "rope_type": "default", "rope_theta": theta.contents() if theta else 10_000.0,
        },
        "attention_bias": "blk.0.attn_q.bias" in shapes,
        "hidden_act": "silu",
        "tie_word_embeddings": "output.weight" not in shapes,
        **{
            f"{ours}_token_id": _field(reader, f"tokenizer.ggml.{theirs}_token_id")
            for ours, theirs in ENDS.items()
            if f"tokenizer.ggml.{theirs}_token_id" in reader.fields
        },
    }  # fmt: skip


def _names(reader: gguf.GGUFReader, config: Mapping[str, Any], name: str) -> dict[str, str]:
    """Each tensor's name in transformers, by the file's. Nothing is allocated.

    UserError unless the file has exactly the model's tensors.
    """
    import gguf
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    with saying(f"{name} describes no model"), torch.device("meta"):
        model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**config))
    shapes = {key: tuple(one.shape) for key, one in model.state_dict().items()}
    if config["tie_word_embeddings"]:
        shapes.pop("lm_head.weight", None)
    kind = gguf.MODEL_ARCH[config["model_type"].upper()]
    table = gguf.get_tensor_name_map(kind, config["num_hidden_layers"])
    names = {str(table.get_name(key, (".weight", ".bias"))): key for key in shapes}
    wanted = {theirs: shapes[ours] for theirs, ours in names.items()}
    found = {one.name: _shape(one) for one in reader.tensors}
    for key in sorted(wanted.keys() | found.keys()):
        if wanted.get(key) != found.get(key):
            raise UserError(
                f"{name} does not fit its own description: {names.get(key, key)[:60]} is "
                f"{found.get(key, 'missing')}, not {wanted.get(key, 'part of such a model')}."
            )
    return names


def _shape(tensor: Any) -> tuple[int, ...]:
    return tuple(int(size) for size in reversed(tensor.shape))


def _weights(
    reader: gguf.GGUFReader, config: Mapping[str, Any], names: Mapping[str, str]
) -> Iterator[tuple[str, Tensor]]:
    import gguf
    import torch

    heads = {"attn_q": config["num_attention_heads"], "attn_k": config["num_key_value_heads"]}
    for tensor in reader.tensors:
        try:
            values = gguf.dequantize(tensor.data, tensor.tensor_type)
        except NotImplementedError:
            raise UserError(
                f"Weights in {tensor.tensor_type.name} cannot be read: choose another file of the "
                "model, such as Q8_0 or Q4_K_M."
            ) from None
        found = torch.tensor(values).reshape(_shape(tensor)).float()
        part = tensor.name.split(".")[-2]
        if config["model_type"] == "llama" and part in heads:
            found = _halves(found, heads[part])
        yield names[tensor.name], found.contiguous()


def _halves(rows: Tensor, heads: int) -> Tensor:
    """Undo llama.cpp's order of a Llama's Q and K: it rotates neighbours, transformers halves."""
    paired = rows.reshape(heads, -1, 2, *rows.shape[1:])  # [heads, d / 2, 2, ..]
    return paired.transpose(1, 2).reshape(rows.shape)


def _tokenizer(path: Path, reader: gguf.GGUFReader) -> Any:
    """The file's tokenizer, by transformers. UserError for a kind that it does not know."""
    from tokenizers import pre_tokenizers
    from transformers import AutoTokenizer

    with saying(f"The tokenizer in {path.name} cannot be read"):
        found: Any = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    split = reader.fields.get("tokenizer.ggml.pre")
    if split is not None and split.contents() == "smollm":  # transformers takes it for GPT-2's
        found.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False),
            ]
        )
    return found
