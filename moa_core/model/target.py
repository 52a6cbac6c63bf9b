"""The target: a Hugging Face decoder model built like Llama, driven token by token."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self, cast

import torch
from torch import Tensor, nn
from transformers import PretrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from moa_core.errors import UserError
from moa_core.model.cache import KVCache
from moa_core.model.families import check_config, check_logits, check_parts
from moa_core.model.layers import DecoderLayer, Rope, as_ours, tree_mask


class Tree(Protocol):
    """What a target reads of a draft tree; node 0 is its root.

    depths     levels below the root
    ancestors  [n, n] bool: the nodes that each one sees
    """

    @property
    def tokens(self) -> tuple[int, ...]: ...
    @property
    def depths(self) -> tuple[int, ...]: ...
    def ancestors(self) -> Tensor: ...


# The parts of transformers' modules that are used here; transformers' own types are less precise.
class Passing(Protocol):
    """The cache interface of transformers' layers: takes new K and V, returns all K and V."""

    def update(
        self, keys: Tensor, values: Tensor, layer: int, /, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]: ...


class Matrix(nn.Module):
    """Embeddings, ids [..] -> [.., E]; a head, [.., E] -> [.., V]; a norm, [.., E] -> [.., E]."""

    weight: Tensor
    out_features: int  # V, of a head

    if TYPE_CHECKING:

        def __call__(self, x: Tensor) -> Tensor: ...


class Backbone(nn.Module):
    """A language model of transformers without its head."""

    layers: nn.ModuleList
    norm: Matrix
    rotary_emb: nn.Module  # (hidden, position_ids=[B, n]) -> cos and sin


@dataclass(frozen=True)
class Observation:
    """Results of one target forward for the tokens it verified.

    ids     [n] the tokens, from position `start` on
    hidden  [n, E] the target's last hidden state, after its final norm; for a drafter that taps
            layers, [n, (taps + 1) E], with each tapped layer's input before it
    cache   holds K and V of these tokens in slots start..start + n
    """

    ids: tuple[int, ...]
    start: int
    hidden: Tensor
    cache: KVCache

    def keys_values(self, last: int | None = None) -> Tensor:
        """K (after RoPE) and V of every layer, or the last few: [layers, 2, G, n, d]."""
        return self.cache.read(self.start, self.start + len(self.ids), last)

    def part(self, start: int, stop: int) -> Observation:
        """The results for some of these tokens, counted from the first of them."""
        return Observation(
            self.ids[start:stop], self.start + start, self.hidden[start:stop], self.cache
        )


class Target:
    """A large model with its cache: reads a prompt, verifies draft trees, keeps accepted paths.

    Weights are shared between forks; the cache belongs to one decoding run. UserError for a model
    that cannot be run layer by layer.
    """

    # A context for what torch computes of its results; engines with threads of their own have one.
    torch_threads: Callable[[], AbstractContextManager[None]] = nullcontext

    def __init__(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase | None = None,
        name: str = "", need: Any = None,
    ) -> None:  # fmt: skip
        check_config(model.config)
        check_parts(model)
        self.model = model.eval()
        # The tree mask is boolean: sdpa masks with it, but eager attention would add it as 0 and 1.
        model.set_attn_implementation("sdpa")
        self.tokenizer = tokenizer
        self.eos_ids: tuple[int, ...] = ()  # tokens that end a reply
        self.name = name
        self.need = need  # the estimate of `loading.memory`, if there is one
        self.config = model.config
        self.decoder = cast(Backbone, model.base_model)
        self.head = cast(Matrix, model.get_output_embeddings())
        self.layers = self.decoder.layers
        self.embed = cast(Matrix, model.get_input_embeddings())
        # RoPE and layers in our form, with the model's weights; None if layers have another form
        self.own = _in_our_form(self)
        self.drafts = "auto"  # requested precision of drafts: auto, int8, float32
        self._heads: dict[Any, Matrix] = {}  # of draft vocabularies, shared by all drafters
        self._cache: KVCache | None = None
        self.taps: tuple[int, ...] = ()  # layers whose inputs this run's drafter also reads
        self._pending: Tensor | None = None  # [n, E] hidden states of the tree being verified
        self._tree: Tree | None = None
        check_logits(self)

    @property
    def device(self) -> torch.device:
        return self.head.weight.device

    @property
    def dtype(self) -> torch.dtype:
        dtype: torch.dtype = self.model.dtype
        return dtype

    @property
    def precision(self) -> str:
        """The number format of its weights, for people."""
        return str(self.dtype).removeprefix("torch.")

    @property
    def head_dim(self) -> int:
        return head_size(self.config)

    @property
    def kv_heads(self) -> int:
        return kv_heads(self.config)

    @property
    def kv_width(self) -> int:
        """W = 2 * G * d: how many numbers one layer caches per token."""
        return 2 * self.kv_heads * self.head_dim

    @property
    def context(self) -> int:
        """Most positions that this target can use: its limit, or a shorter sliding window."""
        longest = int(self.config.max_position_embeddings)
        window = getattr(self.config, "sliding_window", None)
        kinds = getattr(self.config, "layer_types", None) or ["sliding_attention"]
        # Qwen's configs have a window's size also where no layer uses it.
        slides = getattr(self.config, "use_sliding_window", True) and "sliding_attention" in kinds
        return min(longest, window) if window and slides else longest

    def head_of(self, words: Tensor | None) -> Matrix:
        """The head's rows for these token ids [D], in a copy that all who ask share; None: all."""
        if words is None:
            return self.head
        weight = self.head.weight
        key = words.cpu().numpy().tobytes(), weight.data_ptr(), weight.dtype
        if key not in self._heads:
            self._heads[key] = _rows(self.head, words)
        return self._heads[key]

    def fork(self) -> Self:
        """The same weights, for another run."""
        twin = copy.copy(self)
        twin._cache = twin._pending = twin._tree = None
        return twin

    def prefill(self, ids: Sequence[int], capacity: int) -> tuple[Tensor, Observation]:
        """Read the prompt. Returns the logits [V] after its last token, and the observation.

        capacity  slots to allocate: every token that this run may verify, and one draft tree
        """
        self._cache = self.tail_cache(len(self.layers), capacity)
        hidden, logits = self._forward(ids, range(len(ids)), None)
        self._cache.advance(len(ids))
        return logits[0], Observation(tuple(ids), 0, hidden, self._cache)

    def verify(self, tree: Tree) -> Tensor:
        """One forward over the whole tree: logits [n, V] after each node, given its own path."""
        assert self._cache is not None, "prefill first"
        past = self._cache.length
        places = [past + depth for depth in tree.depths]
        self._pending, logits = self._forward(tree.tokens, places, tree.ancestors())
        self._tree = tree
        return logits

    def keep(self, path: Sequence[int]) -> Observation:
        """Accept the root and these nodes of the last tree; forget the rest."""
        assert self._cache is not None and self._tree is not None and self._pending is not None
        kept = [0, *path]
        start = self._cache.length
        self._cache.keep(kept)
        ids = tuple(self._tree.tokens[node] for node in kept)
        hidden = self._pending[torch.tensor(kept, device=self._pending.device)]
        self._tree = self._pending = None
        return Observation(ids, start, hidden, self._cache)

    def rewind(self, length: int) -> None:
        """Forget every verified token from `length` on."""
        assert self._cache is not None, "prefill first"
        self._cache.truncate(length)

    def tail_cache(self, last: int, capacity: int) -> KVCache:
        """An empty cache for the last few layers."""
        sizes = self.kv_heads, self.head_dim, capacity, self.dtype
        return KVCache(self.device, *sizes, last, len(self.layers) - last)

    def run_layers(
        self, hidden: Tensor, positions: Tensor, mask: Tensor | None, cache: Passing | None,
        last: int | None = None,
    ) -> Tensor:  # fmt: skip
        """Run all decoder layers, or the last few (TLI), then the final norm.

        For all layers it returns `Observation.hidden`, with the tapped layers' inputs.

        hidden     [B, n, E] input of the first of these layers
        positions  [B, n]
        mask       [B, 1, n, past + n] bool, True where a row may attend; None: causal, no past
        """
        # The model's own forward would build masks at each call; its layers do not.
        rope = self.decoder.rotary_emb(hidden, position_ids=positions)

        def run(place: int, x: Tensor) -> Any:
            return self.layers[place](
                x, attention_mask=mask, position_ids=positions, past_key_values=cache,
                use_cache=cache is not None, position_embeddings=rope,
            )  # fmt: skip

        return self._through(run, hidden, last)

    def read_layers(
        self, hidden: Tensor, positions: Tensor, mask: Tensor | None, cache: KVCache,
        last: int | None = None,
    ) -> Tensor:  # fmt: skip
        """`run_layers` for one text through a cache; faster if the layers are in our form.

        hidden     [1, n, E] input of the first of these layers; returns the same shape
        positions  [1, n]
        mask       [1, 1, n, past + n] bool; None: causal without past, or a single new row
        """
        if self.own is None:
            return self.run_layers(hidden, positions, mask, cache, last)
        rope, layers = self.own
        rope.reserve(cache.capacity)
        rotation, causal = rope(positions, hidden), mask is None and hidden.shape[1] > 1
        if mask is not None:  # once, not in each layer
            mask = torch.zeros_like(mask, dtype=hidden.dtype).masked_fill_(~mask, -torch.inf)

        def run(place: int, x: Tensor) -> Any:
            return layers[place](x, rotation, mask=mask, causal=causal, cache=cache, place=place)

        return self._through(run, hidden, last)

    def _through(
        self, run: Callable[[int, Tensor], Tensor], hidden: Tensor, last: int | None
    ) -> Tensor:
        """Through the layers and the final norm: [.., (taps + 1) E], the tapped inputs first.

        run  the layer at a place, given hidden states
        """
        taps, kept = self.taps if last is None else (), dict[int, Tensor]()
        for place in range(len(self.layers) - (last or len(self.layers)), len(self.layers)):
            if place in taps:
                kept[place] = hidden
            hidden = run(place, hidden)
        hidden = self.decoder.norm(hidden)
        return torch.cat([*(kept[layer] for layer in taps), hidden], -1) if taps else hidden

    def _forward(
        self, ids: Sequence[int], positions: Sequence[int], seen: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Hidden states [n, E] of new tokens after the cached ones, and logits [n, V] after them.

        seen  [n, n] bool: which of these tokens each one sees; None: they are a prompt, and logits
              are [1, V], after the last token only
        """
        assert self._cache is not None, "prefill first"
        hidden = self.embed(torch.tensor([ids], device=self.device))  # [1, n, E]
        places = torch.tensor([positions], device=self.device)
        mask = None
        if seen is not None and len(ids) > 1:
            mask = tree_mask(seen.to(self.device), self._cache.length)
        hidden = self.read_layers(hidden, places, mask, self._cache)[0]
        last = hidden[..., -self.config.hidden_size :]
        return hidden, self.head(last[-1:] if seen is None else last)


def _rows(head: Matrix, words: Tensor) -> Matrix:
    with torch.no_grad(), torch.device("meta"):
        few: Any = nn.Linear(head.weight.shape[1], len(words), bias=False)
    few.weight = nn.Parameter(head.weight.detach()[words], requires_grad=False)
    if (bias := getattr(head, "bias", None)) is not None:
        few.bias = nn.Parameter(bias.detach()[words], requires_grad=False)
    return cast(Matrix, few)


def head_size(config: PretrainedConfig) -> int:
    """d: the config's value if it has one, else E / H."""
    own = getattr(config, "head_dim", None)
    return int(own or config.hidden_size // config.num_attention_heads)


def kv_heads(config: PretrainedConfig) -> int:
    """G: the heads whose K and V are cached."""
    return int(getattr(config, "num_key_value_heads", None) or config.num_attention_heads)


def parameters(net: nn.Module) -> int:
    """Numbers in a model; in 4 bits, two share a byte."""
    return sum(
        weight.numel() * (2 if type(weight).__name__ == "Params4bit" else 1)
        for weight in net.parameters()
    )


def check_prompt(prompt_ids: Sequence[int], target: Target) -> None:
    """UserError if a prompt is empty, has ids the target does not know, or leaves no room."""
    if len(prompt_ids) == 0:  # an array has no truth value
        raise UserError("The prompt is empty: give the model something to go on from.")
    size = target.embed.weight.shape[0]
    if min(prompt_ids) < 0 or max(prompt_ids) >= size:
        raise UserError(
            f"The prompt has token ids outside the target's vocabulary (0 to {size - 1})."
        )
    if len(prompt_ids) >= target.context:
        raise UserError(
            f"The prompt has {len(prompt_ids):,} tokens; this target reads at most "
            f"{target.context - 1:,} and needs room to answer. Shorten it."
        )


def draft_precision(target: Target, drafter: Any) -> str | None:
    """The number format of a drafter for a target: int8, or the target's format. None for a method
    without a network."""
    precision: str | None = drafter.precision
    return str(target.dtype).removeprefix("torch.") if precision == "float32" else precision


def _in_our_form(target: Target) -> tuple[Rope, list[DecoderLayer]] | None:
    """A target's RoPE and layers in our form; None if any layer has another form."""
    layers = [as_ours(layer, target.config) for layer in target.layers]
    plain = [layer for layer in layers if layer is not None]
    if len(plain) < len(layers):
        return None
    return Rope(target.head_dim, target.config.rope_parameters, target.context), plain
