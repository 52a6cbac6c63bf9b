"""The target: a Hugging Face decoder model built like Llama, driven token by token."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from moa_core.decoding.tree import DraftTree, TreeSettings
from moa_core.decoding.verifier import LocalVerifier, Verifier
from moa_core.errors import UserError
from moa_core.model.cache import KVCache
from moa_core.model.families import check_config, check_logits, check_parts
from moa_core.model.joined import Packed
from moa_core.model.layers import DecoderLayer, Rope, as_ours
from moa_core.model.modules import Backbone, Matrix, Passing
from moa_core.native.blocks import serves, suit
from moa_core.native.chains import Chain, Layer, Norm, Product, ready
from moa_core.native.switch import kernels

if TYPE_CHECKING:
    from moa_core.drafters.base import Drafter
    from moa_core.loading.memory import Need


@dataclass(frozen=True)
class Observation:
    """What one target forward taught about the tokens it verified.

    ids     [n] the tokens, from position `start` on
    hidden  [n, E] the target's last hidden state, after its final norm
    cache   where the K and V of these tokens lie, slots start..start + n
    """

    ids: tuple[int, ...]
    start: int
    hidden: Tensor
    cache: KVCache

    def keys_values(self, last: int | None = None) -> Tensor:
        """K (after RoPE) and V of every layer, or of the last few: [layers, 2, G, n, d]."""
        read = self.cache.read(self.start, self.start + len(self.ids), last)
        return read.to(self.hidden.device)  # of a split target the last layer may be elsewhere

    def part(self, start: int, stop: int) -> Observation:
        """What was learnt about some of these tokens, counted from the first of them."""
        return Observation(
            self.ids[start:stop], self.start + start, self.hidden[start:stop], self.cache
        )


class Target:
    """A large model with its cache: reads a prompt, verifies draft trees, keeps accepted paths.

    Weights are shared between forks; the cache belongs to one decoding run. UserError for a model
    that cannot be run layer by layer.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase | None = None,
        name: str = "",
        need: Need | None = None,
    ) -> None:
        check_config(model.config)
        check_parts(model)
        self.model = model.eval()
        # The tree mask is boolean: sdpa takes it as meant, eager attention adds it as 0 and 1.
        model.set_attn_implementation("sdpa")
        self.tokenizer = tokenizer
        self.eos_ids: tuple[int, ...] = ()  # tokens that end a reply
        self.name = name
        self.need = need  # the memory that it was expected to take, where somebody asked
        self.config = model.config
        self.decoder = cast(Backbone, model.base_model)
        head: nn.Module = model.get_output_embeddings()
        plain = type(head) is nn.Linear and not is_split(model)
        self.head = cast(Matrix, Packed(cast(nn.Linear, head)) if plain else head)
        self.layers = self.decoder.layers
        self.embed = _embeddings(model, self.device)
        self._own = None if is_split(model) else _in_our_form(self)
        self._quick: dict[int, Layer] = {}  # layers packed for drafts, by place; the forks' too
        self._packed_head = Product(cast(nn.Linear, head)) if plain else None
        self._quick_head: Chain | None = None  # of a fork: it may be given other weights
        self._table: NDArray[np.float32] | None = None  # its embeddings, of a fork, too
        self.drafts = "auto"  # int8, float32, or auto: as the drafter of a run says
        self._cache: KVCache | None = None
        self._pending: Tensor | None = None  # [n, E] hidden states of the tree being verified
        self._tree: DraftTree | None = None
        check_logits(self)

    @property
    def device(self) -> torch.device:
        """Where drafting goes on: where the head is, the last of a split model's devices."""
        return computes_on(self.head)

    @property
    def dtype(self) -> torch.dtype:
        dtype: torch.dtype = self.model.dtype
        return dtype

    @property
    def head_dim(self) -> int:
        """d: the config's own where it has one, else E / H."""
        config = self.config
        size: int | None = getattr(config, "head_dim", None)
        return size or int(config.hidden_size // config.num_attention_heads)

    @property
    def kv_heads(self) -> int:
        heads: int | None = getattr(self.config, "num_key_value_heads", None)
        return heads or int(self.config.num_attention_heads)

    @property
    def kv_width(self) -> int:
        """W = 2 * G * d: the numbers that one layer caches for one token."""
        return 2 * self.kv_heads * self.head_dim

    @property
    def context(self) -> int:
        """Most positions this target can serve: its own limit, or its sliding window if shorter."""
        windows: list[int] = [
            self.config.sliding_window
            for kind in (getattr(self.config, "layer_types", None) or ["sliding_attention"])
            if kind == "sliding_attention" and _slides(self.config)
        ]
        return min([int(self.config.max_position_embeddings), *windows])

    def fork(self, drafts: str | None = None) -> Target:
        """The same weights, for a run of its own. drafts: the precision of its drafter."""
        twin = copy.copy(self)
        twin.drafts = drafts or self.drafts
        twin._cache = twin._pending = twin._tree = twin._table = twin._quick_head = None
        if self._packed_head is not None and serves(twin):
            twin._quick_head = Chain("head", self._packed_head.links())
        return twin

    def pair(self, drafter: Drafter, shape: TreeSettings) -> tuple[Drafter, Verifier]:
        """The drafter and the verifier of a run. A wrapper that runs a target otherwise has others.

        shape  the largest trees of the run
        """
        return drafter, LocalVerifier(self, drafter)

    def draft_precision(self, asked: str) -> str:
        """The numbers that a drafter of this precision drafts in: int8, or the target's format."""
        if asked == "int8" and suit(self) and kernels() is not None:
            return "int8"
        return str(self.dtype).removeprefix("torch.")

    def prefill(self, ids: Sequence[int], capacity: int) -> tuple[Tensor, Observation]:
        """Read the prompt. Returns the logits [V] after its last token, and what was learnt.

        capacity  slots to allocate: every token this run may verify, and one draft tree
        """
        if not ids:
            raise UserError("The prompt is empty: there is nothing to go on from.")
        self._cache = self.tail_cache(len(self.layers), capacity)
        hidden = self._forward(list(ids), list(range(len(ids))), None)  # [n, E]
        self._cache.advance(len(ids))
        return self.head(hidden[-1:])[0], Observation(tuple(ids), 0, hidden, self._cache)

    def verify(self, tree: DraftTree) -> Tensor:
        """One forward over the whole tree: logits [n, V] after each node, on its own path."""
        assert self._cache is not None, "prefill first"
        past = self._cache.length
        mask = None
        if len(tree) > 1:
            known = torch.ones(len(tree), past, dtype=torch.bool)
            mask = torch.cat([known, tree.ancestors()], 1)[None, None]  # [1, 1, n, past + n]
        self._pending = self._forward(tree.tokens, [past + depth for depth in tree.depths], mask)
        self._tree = tree
        return self.head(self._pending)

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
        first = len(self.layers) - last
        devices = [computes_on(layer) for layer in self.layers[first:]]
        return KVCache(devices, self.kv_heads, self.head_dim, capacity, self.dtype, first)

    def run_layers(
        self,
        hidden: Tensor,
        positions: Tensor,
        mask: Tensor | None,
        cache: Passing | None,
        last: int | None = None,
    ) -> Tensor:
        """Run all decoder layers, or the last few (TLI), then the final norm.

        hidden     [B, n, E] what enters the first of them
        positions  [B, n]
        mask       [B, 1, n, past + n] bool, True where a row may attend; None: causal, no past
        """
        # The model's own forward would build masks of its own for each call; its layers do not.
        rope = self.decoder.rotary_emb(hidden, position_ids=positions)
        for layer in self.layers if last is None else self.layers[len(self.layers) - last :]:
            hidden = layer(
                hidden,
                attention_mask=mask,
                position_ids=positions,
                past_key_values=cache,
                use_cache=cache is not None,
                position_embeddings=rope,
            )
        return self.decoder.norm(hidden).to(self.device)

    def read_layers(
        self,
        hidden: Tensor,
        positions: Tensor,
        mask: Tensor | None,
        cache: KVCache,
        last: int | None = None,
    ) -> Tensor:
        """`run_layers` for one text through a cache: quicker where the layers are of Llama's form.

        hidden     [1, n, E] what enters the first of them; returns the same
        positions  [1, n]
        mask       [1, 1, n, past + n] bool; None: causal, no past, or one new row alone
        """
        if self._own is None:
            return self.run_layers(hidden, positions, mask, cache, last)
        rope, layers = self._own
        rope.reserve(cache.capacity)
        rotation, causal = rope(positions, hidden), mask is None and hidden.shape[1] > 1
        if mask is not None:  # once, not in each layer
            mask = torch.zeros_like(mask, dtype=hidden.dtype).masked_fill_(~mask, -torch.inf)
        for place in range(len(layers) - (last or len(layers)), len(layers)):
            hidden = layers[place](
                hidden, rotation, mask=mask, causal=causal, cache=cache, place=place
            )
        return self.decoder.norm(hidden)

    def draft_chain(self, name: str, cache: KVCache, last: int) -> Chain | None:
        """The last few layers and the final norm for drafts, compiled: they may differ a little
        from `read_layers`. None where kernels are not for this target.

        cache  theirs alone
        """
        if self._own is None or not serves(self):
            return None
        rope, own = self._own
        rope.reserve(cache.capacity)
        if not self._quick:
            self._quick.update(dict(enumerate(map(Layer, own))))
        places = range(len(own) - last, len(own))
        layers = [self._quick[place].links(rope, cache, place) for place in places]
        return Chain(name, *layers, Norm(self.decoder.norm).links())

    def rows(self, tokens: Tensor) -> Tensor:
        """Embeddings [1, n, E] of tokens [n] on a processor, in a fifth of the module's time."""
        if self._table is None:
            if is_split(self.model):  # they may wait on disk
                return self.embed(tokens)[None]
            self._table = self.embed.weight.detach().numpy()
        return torch.from_numpy(self._table[tokens.numpy()]).unsqueeze(0)

    def draft_logits(self, hidden: Tensor) -> Tensor:
        """What the head says of drafts: [1, n, E] -> [1, n, V]."""
        if ready(self._quick_head, hidden.shape[1]):
            return self._quick_head(hidden)
        return self.head(hidden)

    def _forward(self, ids: Sequence[int], positions: Sequence[int], mask: Tensor | None) -> Tensor:
        assert self._cache is not None, "prefill first"
        device = self.device
        hidden = self.embed(torch.tensor([ids], device=device))  # [1, n, E]
        places = torch.tensor([positions], device=device)
        mask = None if mask is None else mask.to(device)
        return self.read_layers(hidden, places, mask, self._cache)[0]


class _Brought(nn.Module):
    """A split model's embeddings, whose rows are brought to where drafting goes on."""

    def __init__(self, inner: Matrix, device: torch.device) -> None:
        super().__init__()
        self.inner = inner
        self.device = device

    @property
    def weight(self) -> Tensor:
        return self.inner.weight

    def forward(self, ids: Tensor) -> Tensor:
        return self.inner(ids).to(self.device)


def is_split(model: PreTrainedModel) -> bool:
    """Whether accelerate moves weights or activations between devices for this model."""
    return hasattr(model, "_hf_hook")


def computes_on(module: nn.Module) -> torch.device:
    """Where a module computes: with accelerate's hooks its weights may wait elsewhere."""
    hook = getattr(module, "_hf_hook", None)
    device = getattr(hook, "execution_device", None)
    return next(module.parameters()).device if device is None else torch.device(device)


def _embeddings(model: PreTrainedModel, device: torch.device) -> Matrix:
    embed = cast(Matrix, model.get_input_embeddings())
    return embed if computes_on(embed) == device else cast(Matrix, _Brought(embed, device))


def _in_our_form(target: Target) -> tuple[Rope, list[DecoderLayer]] | None:
    """A target's positions and layers as decoding wants them; None where they are not plain."""
    layers = [as_ours(layer, target.config) for layer in target.layers]
    plain = [layer for layer in layers if layer is not None]
    if len(plain) < len(layers):
        return None
    return Rope(target.head_dim, target.config.rope_parameters, target.context), plain


def _slides(config: Any) -> bool:
    """Whether any layer really attends to a window only; Qwen carries an unused window size."""
    return bool(getattr(config, "sliding_window", None)) and getattr(
        config, "use_sliding_window", True
    )
