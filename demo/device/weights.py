"""A drafter for the browser in one file: its weights, and the target's weights that it uses.

The file has the header's length (4 bytes, little-endian), the header (JSON), then the tensors, each
at a multiple of 4 bytes. Matrices are int8 with a float32 scale per row; vectors are float32.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from transformers import PreTrainedTokenizerBase
from transformers.convert_slow_tokenizer import bytes_to_unicode

from moa_core.drafters.base import Drafter
from moa_core.drafters.eagle import EagleDrafter
from moa_core.drafters.moa import MoADrafter
from moa_core.errors import UserError
from moa_core.link.client_weights import target_mark
from moa_core.link.session import drafter_mark
from moa_core.model.layers import DecoderLayer, Rope, as_ours
from moa_core.model.target import Target

FORMAT = 2
MOST = 20_000_000  # numbers; the download has about as many bytes
BYTES = {char: byte for byte, char in bytes_to_unicode().items()}
Arrays = dict[str, NDArray[Any]]


def pack(target: Target, drafter: Drafter) -> bytes:
    """The file for one drafter of one target. UserError for one that a browser cannot run."""
    layers, ropes, tensors = _parts(target, drafter)
    tree = asdict(drafter.tree)
    header = {
        "format": FORMAT,
        "method": "moa" if isinstance(drafter, MoADrafter) else "eagle",
        "name": drafter.name,
        "tli": drafter.tli or 0,
        "tree": {name: tree[name] for name in ("depth", "breadth", "budget")},
        "target": target.name,
        "marks": {"drafter": drafter_mark(drafter), "target": target_mark(target)},
        "context": target.context,
        "eps": target.config.rms_norm_eps,
        "eos_ids": list(target.eos_ids),
        "layers": layers,
        "ropes": {name: _angles(rope) for name, rope in ropes.items()},
        **_words(target.tokenizer, target.embed.weight.shape[0]),
    }
    return _file(header, tensors)


def usable(target: Target, drafter: Drafter) -> bool:
    """Whether a browser can run the drafter."""
    try:
        return bool(_parts(target, drafter))
    except UserError:
        return False


def _parts(
    target: Target, drafter: Drafter
) -> tuple[dict[str, dict[str, Any]], dict[str, Rope], dict[str, Tensor]]:
    """Sizes of the decoder layers by name, their ropes, and all tensors."""
    if drafter.vocabulary is not None:
        raise UserError(
            "This drafter cannot run in a browser yet. The switch on the Live tab cuts its link on "
            "the server."
        )
    if isinstance(drafter, MoADrafter):
        found = {"sa": drafter.net.self_attention, "ca": drafter.net.cross_attention}
        for place, layer in enumerate(target.layers[len(target.layers) - drafter.tli :]):
            ours = as_ours(layer, target.config)
            if ours is None:
                raise UserError(f"A browser cannot run the layers of {target.name}: choose N = 0.")
            found[f"tail.{place}"] = ours
        tail = Rope(target.head_dim, target.config.rope_parameters, target.context)
        ropes = {"sa": drafter.sa_rope, "ca": drafter.ca_rope, "tail": tail}
        tensors = {}
    elif isinstance(drafter, EagleDrafter) and not drafter.static:
        found, ropes = {"eagle": drafter.net.layers[0]}, {"eagle": drafter.rope}
        tensors = {f"fc.{name}": weight for name, weight in drafter.net.fc.named_parameters()}
    else:
        raise UserError(f"{drafter.name} cannot draft in a browser: MoA and EAGLE-2 can.")
    for name, layer in found.items():
        tensors |= {f"{name}.{key}": one for key, one in layer.state_dict().items()}
    for unused in ("ca.self_attn.k_proj.", "ca.self_attn.v_proj."):  # they are used on the server
        tensors = {key: one for key, one in tensors.items() if not key.startswith(unused)}
    tensors["embed"] = target.embed.weight
    if not target.config.tie_word_embeddings:
        tensors["head"] = target.model.get_output_embeddings().weight
    tensors["norm"] = target.decoder.norm.weight
    numbers = sum(tensor.numel() for tensor in tensors.values())
    if numbers > MOST:
        raise UserError(f"This drafter is too large for a browser: {numbers / 1e6:,.0f} MB.")
    return {name: _sizes(layer) for name, layer in found.items()}, ropes, tensors


def _sizes(layer: DecoderLayer) -> dict[str, Any]:
    attention, norm = layer.self_attn, layer.post_attention_layernorm
    sizes = {"heads": attention.heads, "kv_heads": attention.kv_heads}
    return {**sizes, "head_dim": attention.head_dim, "eps": norm.eps}


def _angles(rope: Rope) -> dict[str, Any]:
    """The angles per position, and the scale of cosine and sine."""
    source = rope._source
    return {"angles": source.inv_freq.tolist(), "scale": float(source.attention_scaling)}


def _words(tokenizer: PreTrainedTokenizerBase | None, count: int) -> dict[str, Any]:
    """The bytes of each token, one character per byte, and the special tokens."""
    if tokenizer is None:
        return {"words": [], "special": []}
    decoder = json.loads(tokenizer.backend_tokenizer.to_str())["decoder"] or {}
    if decoder.get("type") != "ByteLevel":
        raise UserError("A browser can only write the text of a byte-level BPE tokenizer.")
    names = [str(name or "") for name in tokenizer.convert_ids_to_tokens(list(range(count)))]
    return {"words": [_bytes(name) for name in names], "special": tokenizer.all_special_ids}


def _bytes(name: str) -> str:
    if all(char in BYTES for char in name):
        return "".join(chr(BYTES[char]) for char in name)
    return name.encode().decode("latin-1")  # an added token stands for itself


def _file(header: dict[str, Any], tensors: dict[str, Tensor]) -> bytes:
    places: dict[str, dict[str, Any]] = {}
    body = bytearray()
    for name, tensor in sorted(tensors.items()):
        place: dict[str, Any] = {"shape": list(tensor.shape)}
        for key, array in _arrays(tensor.detach().float().cpu()).items():
            place[key] = len(body)
            body += array.tobytes()
            body += bytes(-len(body) % 4)
        places[name] = place
    text = json.dumps({**header, "tensors": places}, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 4)
    return len(text).to_bytes(4, "little") + text + bytes(body)


def _arrays(tensor: Tensor) -> Arrays:
    if tensor.ndim == 1:
        return {"data": tensor.numpy()}
    scales = (tensor.abs().amax(1) / 127).clamp(min=1e-30)
    whole = (tensor / scales[:, None]).round().numpy().astype(np.int8)
    return {"data": whole, "scales": scales.numpy()}
