"""How much memory a target and its drafters will take, before any weights are read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import nn
from transformers import PretrainedConfig

from moa_core.drafters.moa import LSA_CHUNK
from moa_core.engine.session import LARGEST
from moa_core.loading.shapes import bare_net, bare_target, head_size, kv_heads
from moa_core.loading.strangers import PICKLE, pickles_allowed

GB = 1e9
COUNTED_CONTEXT = 8192  # tokens, of a target that reads more
NF4_BLOCK = 64  # numbers that share a scale, of four bytes
CONTAINER = Path("/sys/fs/cgroup")  # where Linux says what a container may take
BORROWED = ("embed_tokens.", "lm_head.")  # in EAGLE's files, and the target's own all the same


@dataclass(frozen=True)
class Need:
    """Bytes that a run will take at most.

    weights   of the target
    drafters  their weights
    cache     K and V of `context` tokens, the drafters' too
    working   what a forward over a prompt of `context` tokens holds besides
    form      the number format in words
    packed    copies of small matrices that a processor packs for decoding
    """

    weights: int
    drafters: int
    cache: int
    working: int
    context: int
    form: str
    packed: int = 0

    @property
    def total(self) -> int:
        """All of it at once."""
        return self.weights + self.drafters + self.cache + self.working + self.packed

    def __str__(self) -> str:
        parts = {
            f"weights in {self.form}": self.weights,
            "drafters": self.drafters,
            f"K and V of {self.context:,} tokens": self.cache,
            "working memory": self.working,
            "packed copies": self.packed,
        }
        listed = ", ".join(f"{name} {size(value)}" for name, value in parts.items() if value)
        return f"{size(self.total)} ({listed})"


def size(count: float) -> str:
    """Bytes for people."""
    return f"{count / GB:.1f} GB" if count >= 0.95e8 else f"{count / 1e6:.1f} MB"


def form_name(dtype: torch.dtype, bits: int | None) -> str:
    """float32, bfloat16, 8-bit integers ..."""
    return {4: "4-bit NF4", 8: "8-bit integers"}.get(bits or 0, str(dtype).removeprefix("torch."))


def estimate(
    config: PretrainedConfig,
    dtype: torch.dtype,
    bits: int | None = None,
    drafters: Sequence[Drafting] = (),
    context: int | None = None,
    on_processor: bool = False,
) -> Need:
    """What a target of this config needs.

    bits      4 or 8: of its linear layers, by bitsandbytes
    drafters  that are loaded beside it; one of them is at work at a time
    context   tokens of the longest run; None: the target's own limit, at most COUNTED_CONTEXT
    on_processor  there small float32 models are held once more, as graphs
    """
    limit = context or min(config.max_position_embeddings, COUNTED_CONTEXT)
    itemsize = dtype.itemsize
    token = 2 * kv_heads(config) * head_size(config) * itemsize  # K and V of one layer
    own = max((one.cached for one in drafters), default=0) * itemsize
    weights = {name: tuple(one.shape) for name, one in bare_target(config).named_parameters()}
    packed = sum(one.packable for one in drafters) + (0 if bits else _packable(weights))
    return Need(
        weights=target_bytes(config, dtype, bits),
        drafters=sum(one.numbers for one in drafters) * itemsize,
        cache=limit * (config.num_hidden_layers * token + own),
        working=max(
            _prefill(config, limit),
            max((one.working(config, limit) for one in drafters), default=0),
        )
        * itemsize,
        context=limit,
        form=form_name(dtype, bits),
        packed=packed * itemsize if on_processor and dtype == torch.float32 else 0,
    )


def _packable(shapes: Mapping[str, tuple[int, ...]]) -> int:
    """Numbers of the matrices that onnxruntime holds once more, at most; see `engine.session`."""
    tied = "lm_head.weight" not in shapes
    numbers = sum(
        math.prod(shape)
        for name, shape in shapes.items()
        if len(shape) == 2 and (tied or "embed_tokens" not in name)
    )
    return numbers if numbers <= LARGEST else 0


def target_bytes(config: PretrainedConfig, dtype: torch.dtype, bits: int | None = None) -> int:
    """Bytes of a target's parameters, as they lie in memory once loaded."""
    model = bare_target(config)
    head = model.get_output_embeddings()
    packed = {
        id(module.weight)
        for module in model.modules()
        if bits and isinstance(module, nn.Linear) and module is not head
    }
    return sum(
        _packed(weight, bits or 0) if id(weight) in packed else weight.numel() * dtype.itemsize
        for weight in model.parameters()
    )


def _packed(weight: torch.Tensor, bits: int) -> int:
    """Bytes of a quantised matrix, its scales included."""
    rows, columns = weight.shape
    if bits == 8:
        return rows * columns + 4 * rows  # a scale a row
    return math.ceil(rows * columns / 2) + 4 * math.ceil(rows * columns / NF4_BLOCK)


def _prefill(config: PretrainedConfig, tokens: int) -> int:
    """Numbers held at once by a decoder layer that reads a prompt, and joins its matrices first."""
    wide = max(config.intermediate_size, config.num_attention_heads * head_size(config))
    joined = 2 * config.intermediate_size * config.hidden_size
    return int(tokens * (3 * wide + 7 * config.hidden_size) + joined)


@dataclass(frozen=True)
class Drafting:
    """A drafter's part in the need, in numbers of the target's format.

    numbers  trainable ones
    cached   for each token, in caches of its own
    lsa      width and feed-forward width of LSA; None where there is none
    packable numbers of matrices small enough to be packed for decoding, at most
    """

    numbers: int
    cached: int = 0
    lsa: tuple[int, int] | None = None
    packable: int = 0

    def working(self, config: PretrainedConfig, tokens: int) -> int:
        """Numbers held while it takes in a prompt: a copy of all K and V, and LSA over a part."""
        if self.lsa is None:
            return 0
        width, inner = self.lsa
        rows = config.num_hidden_layers * min(tokens, LSA_CHUNK)
        return int(tokens * config.num_hidden_layers * width + rows * (8 * width + 3 * inner))


def planned(published: Mapping[str, Any], target: PretrainedConfig) -> Drafting:
    """A drafter by its published config alone."""
    net = bare_net(published, target)
    return _drafting({name: tuple(value.shape) for name, value in net.state_dict().items()})


def stored(folder: Path, pickles: bool = False) -> Drafting:
    """A drafter by the shapes in its file, of which no weights are read."""
    return _drafting(shapes_in(folder, pickles))


def shapes_in(folder: Path, pickles: bool = False) -> dict[str, tuple[int, ...]]:
    """The shapes of the tensors in a model's folder; empty where there is no readable file."""
    found: dict[str, tuple[int, ...]] = {}
    for path in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(path, framework="pt") as file:
                names = list(file.keys())
                found |= {name: tuple(file.get_slice(name).get_shape()) for name in names}
        except Exception:  # whoever loads it says what is wrong
            return {}
    legacy = folder / PICKLE
    if not found and legacy.exists() and pickles_allowed(pickles):
        try:
            read = torch.load(legacy, map_location="meta", weights_only=True, mmap=True)
            found = {name: tuple(tensor.shape) for name, tensor in read.items()}
        except Exception:
            return {}
    return found


def _drafting(shapes: Mapping[str, tuple[int, ...]]) -> Drafting:
    own = {name: shape for name, shape in shapes.items() if not name.startswith(BORROWED)}
    gate = own.get("layer_self_attention.mlp.gate_proj.weight")
    cached = sum(
        shape[0]
        for name, shape in own.items()
        if name.endswith(("self_attn.k_proj.weight", "self_attn.v_proj.weight"))
        and not name.startswith("layer_self_attention")
    )
    return Drafting(
        sum(math.prod(shape) for shape in own.values()),
        cached,
        (gate[1], gate[0]) if gate else None,
        _packable(own),
    )


def free_bytes(device: torch.device, spread: bool = False, offload: bool = True) -> int:
    """Bytes that can still be taken on a device.

    spread   on all GPUs
    offload  then in main memory, too
    """
    if spread:
        cards = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
        on_cards = sum(torch.cuda.mem_get_info(card)[0] for card in cards)
        return on_cards + (_main_memory() if offload or not cards else 0)
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    if device.type == "mps":
        return torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory()
    return _main_memory()


def _main_memory() -> int:
    """Free main memory, within a container's limit where there is one."""
    import psutil  # accelerate brings it

    free: int = psutil.virtual_memory().available
    try:
        limit = int((CONTAINER / "memory.max").read_text())
        used = int((CONTAINER / "memory.current").read_text())
        lines = (CONTAINER / "memory.stat").read_text().splitlines()
        files = int(dict(line.split() for line in lines).get("inactive_file", "0"))
        return min(free, limit - used + files)  # pages of files give way
    except (OSError, ValueError):  # no such limit, or "max"
        return free
