"""How much memory a target and its drafters will take, before any weights are read."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import safe_open
from torch import nn
from transformers import AutoModelForCausalLM, PretrainedConfig, PreTrainedModel

from moa_core.drafters.moa import LSA_CHUNK
from moa_core.errors import UserError, saying
from moa_core.loading.hub import size
from moa_core.model.target import head_size, kv_heads
from moa_core.runtime import free_bytes
from moa_core.untrusted import PICKLE, pickles_allowed

COUNTED_CONTEXT = 8192  # most tokens counted for a target with a longer context
NF4_BLOCK = 64  # numbers that share a scale of four bytes
BORROWED = ("embed_tokens.", "lm_head.")  # in EAGLE's files, copies of the target's own
ADVICE = (
    "Try --dtype bfloat16, --load-in-8bit or --load-in-4bit (python -m moa_core memory lists their "
    "needs), or a smaller target."
)


@dataclass(frozen=True)
class Need:
    """Most bytes that a run needs.

    weights   of the target
    drafters  their weights
    cache     K and V of `context` tokens, including the drafters'
    working   other memory of a forward over a prompt of `context` tokens
    form      the number format in words
    """

    weights: int
    drafters: int
    cache: int
    working: int
    context: int
    form: str

    @property
    def total(self) -> int:
        return self.weights + self.drafters + self.cache + self.working

    def __str__(self) -> str:
        parts = {
            f"weights in {self.form}": self.weights,
            "drafters": self.drafters,
            f"K and V of {self.context:,} tokens": self.cache,
            "working memory": self.working,
        }
        listed = ", ".join(f"{name} {size(value)}" for name, value in parts.items() if value)
        return f"{size(self.total)} ({listed})"


@dataclass(frozen=True)
class Drafting:
    """A drafter's memory, in numbers of the target's format.

    numbers  of its weights
    cached   per token, in its own caches
    lsa      width and feed-forward width of LSA; None without LSA
    """

    numbers: int
    cached: int = 0
    lsa: tuple[int, int] | None = None

    def working(self, config: PretrainedConfig, tokens: int) -> int:
        """Numbers held while it observes a prompt: a copy of all K and V, and LSA for one part."""
        if self.lsa is None:
            return 0
        width, inner = self.lsa
        rows = config.num_hidden_layers * min(tokens, LSA_CHUNK)
        return int(tokens * config.num_hidden_layers * width + rows * (8 * width + 3 * inner))


def form_name(dtype: torch.dtype, bits: int | None) -> str:
    return {4: "4-bit NF4", 8: "8-bit integers"}.get(bits or 0, str(dtype).removeprefix("torch."))


def estimate(
    config: PretrainedConfig, dtype: torch.dtype, bits: int | None = None,
    drafters: Sequence[Drafting] = (),
) -> Need:  # fmt: skip
    """The memory that a target with this config needs for a run of at most COUNTED_CONTEXT tokens.

    bits      4 or 8: of its linear layers, by bitsandbytes
    drafters  loaded with it; one of them runs at a time
    """
    limit = min(config.max_position_embeddings, COUNTED_CONTEXT)
    per_token = config.num_hidden_layers * 2 * kv_heads(config) * head_size(config)
    per_token += max((one.cached for one in drafters), default=0)
    working = max([_prefill(config, limit), *(one.working(config, limit) for one in drafters)])
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    return Need(
        weights=_weights(model, dtype, bits),
        drafters=sum(one.numbers for one in drafters) * dtype.itemsize,
        cache=limit * per_token * dtype.itemsize,
        working=working * dtype.itemsize,
        context=limit,
        form=form_name(dtype, bits),
    )


def _weights(model: PreTrainedModel, dtype: torch.dtype, bits: int | None) -> int:
    """Bytes of a model's loaded parameters; quantised matrices include their scales."""
    total = sum(weight.numel() for weight in model.parameters()) * dtype.itemsize
    if not bits:
        return total
    for module in model.modules():
        if isinstance(module, nn.Linear) and module is not model.get_output_embeddings():
            rows, numbers = module.out_features, module.weight.numel()
            scales = rows if bits == 8 else math.ceil(numbers / NF4_BLOCK)
            total += math.ceil(numbers * bits / 8) + 4 * scales - numbers * dtype.itemsize
    return total


def _prefill(config: PretrainedConfig, tokens: int) -> int:
    """Numbers held at once by a decoder layer that joins its matrices and reads a prompt."""
    wide = max(config.intermediate_size, config.num_attention_heads * head_size(config))
    joined = 2 * config.intermediate_size * config.hidden_size
    return int(tokens * (3 * wide + 7 * config.hidden_size) + joined)


def stored(folder: Path, pickles: bool = False) -> Drafting:
    """A drafter's memory from its file's shapes; zero if it cannot be read. Reads no weights."""
    found: dict[str, tuple[int, ...]] = {}
    pickle = folder / PICKLE
    try:
        for path in sorted(folder.glob("*.safetensors")):
            with safe_open(path, framework="pt") as file:
                names = list(file.keys())
                found |= {name: tuple(file.get_slice(name).get_shape()) for name in names}
        if not found and pickle.exists() and pickles_allowed(pickles):
            read = torch.load(pickle, map_location="meta", weights_only=True, mmap=True)
            found = {name: tuple(tensor.shape) for name, tensor in read.items()}
        return of_shapes(found)
    except Exception:  # loading it will say what is wrong
        return Drafting(0)


def of_shapes(shapes: Mapping[str, tuple[int, ...]]) -> Drafting:
    own = {name: shape for name, shape in shapes.items() if not name.startswith(BORROWED)}
    gate = own.get("layer_self_attention.mlp.gate_proj.weight")
    cached = sum(
        shape[0]
        for name, shape in own.items()
        if name.endswith(("self_attn.k_proj.weight", "self_attn.v_proj.weight"))
        and not name.startswith("layer_self_attention")
    )
    numbers = sum(math.prod(shape) for shape in own.values())
    return Drafting(numbers, cached, (gate[1], gate[0]) if gate else None)


def check_room(
    name: str, config: PretrainedConfig, dtype: torch.dtype, device: torch.device,
    bits: int | None, drafters: Sequence[Drafting] = (),
) -> Need:  # fmt: skip
    """What will be needed. UserError, naming the shortfall, if the device has less than that."""
    with saying(f"{name} has a config.json that makes no model"):
        need = estimate(config, dtype, bits, drafters)
    free = free_bytes(device)
    if need.total <= free:
        return need
    where = "this machine" if device.type == "cpu" else f"the device {device}"
    raise UserError(
        f"{name} does not fit: it needs {need}, and {where} has {size(free)} free, "
        f"{size(need.total - free)} too little. {ADVICE}"
    )
