"""Tandem (arXiv 2402.08644): a small model that reads the target's states in place of its own.

Its layers attend to projections of a hidden state of the target for verified tokens, and to their
own states for the newest token and the drafts below it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self, cast

import torch
from torch import Tensor, nn

from moa_core.drafters.base import OutputShapes, Reader, ServerOutputs
from moa_core.drafters.trained import Files, Trained, check_same, layer_keys, target_heads
from moa_core.model.cache import KVCache
from moa_core.model.layers import DecoderLayer, LayerSizes, RMSNorm, Rope, Rotation, tree_mask
from moa_core.model.target import Observation, Target
from moa_core.untrusted import Eps, Whole

SHARE = 0.6  # of the other methods' parameters, of a fresh drafter


@dataclass(frozen=True)
class TandemConfig(LayerSizes):
    """Sizes of a Tandem drafter. count: its layers."""

    count: int = 2


class TandemNet(nn.Module):
    """Decoder layers, for each a projection of the target's state, and a norm before the head."""

    def __init__(self, config: TandemConfig) -> None:
        super().__init__()
        self.config, width, count = config, config.width, config.count
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(count))
        self.projections = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(count))
        self.norm = RMSNorm(width, config.eps)

    def memorise(self, states: Tensor, rotation: Rotation) -> Tensor:
        """K and V of the target's states [B, n, E], for each layer: [layers, 2, B, G, n, d]."""
        found = []
        for layer, projection in zip(self.layers, self.projections, strict=True):
            pair = cast(DecoderLayer, layer).memorise(projection(states), rotation)
            found.append(torch.stack(pair))
        return torch.stack(found)

    def forward(
        self, hidden: Tensor, rotation: Rotation, mask: Tensor | None, cache: KVCache
    ) -> Tensor:
        """[B, n, E] embeddings of new tokens -> what `norm` reads.

        cache  holds the K and V of `memorise`, then those of the new tokens
        """
        for place, layer in enumerate(self.layers):
            hidden = layer(hidden, rotation, mask=mask, cache=cache, place=place)
        return hidden


class TandemDrafter(Trained, Reader):
    """Drafts with a Tandem net, which reads the target's last hidden state of each token."""

    method, label = "tandem", "Tandem"
    net: TandemNet
    net_class = TandemNet

    def __init__(self, net: TandemNet, target: Target, name: str = "") -> None:
        super().__init__(net, target, name)
        self.rope = Rope(net.config.head_dim, target.config.rope_parameters, target.context)

    def open(self, target: Target, capacity: int) -> None:
        self.open_server(target, capacity)
        self.target, self.head = target, self.head_for(target)
        self.ids = []
        sizes = self.net.config
        self.text = KVCache(
            target.device, sizes.kv_heads, sizes.head_dim, capacity, target.dtype, sizes.count
        )

    def open_server(self, target: Target, capacity: int) -> None:
        self.rope.reserve(capacity)

    def server_outputs(self, observation: Observation) -> ServerOutputs:
        """K and V of every layer, [layers, 2, G, n, d]."""
        start, count = observation.start, len(observation.ids)
        rotation = self.rope.span(start, start + count, observation.hidden)
        return {"memory": self.net.memorise(observation.hidden[None], rotation)[:, :, 0]}

    def output_shapes(self, target: Target, count: int) -> OutputShapes:
        sizes = self.net.config
        return {"memory": (sizes.count, 2, sizes.kv_heads, count, sizes.head_dim)}

    def observe(self, ids: Sequence[int], outputs: ServerOutputs) -> None:
        self.text.truncate(len(self.ids))  # the last root was read with states of its own
        self.ids.extend(ids)
        self.text.append(outputs["memory"])

    def read(self, tokens: Tensor, start: int, seen: Tensor | None) -> Tensor:
        count, past = len(tokens), self.text.length
        hidden = self.target.embed(tokens)[None]  # [1, n, E]
        rotation = self.rope.span(start, start + 1, hidden)  # the root, or nodes at one position
        mask = None if seen is None else tree_mask(seen, past + count - seen.shape[1])
        hidden = self.net(hidden, rotation, mask, self.text)
        self.text.advance(count)
        return self.head(self.net.norm(hidden))[0]

    @classmethod
    def sizes(cls, files: Files, target: Target) -> TandemConfig:
        """Its heads are the target's."""
        heads, groups, inner = files.layer_values()
        check_same(files.name, "number of heads", heads, target.config.num_attention_heads)
        eps = files.value("rms_norm_eps", Eps, target.config.rms_norm_eps)
        count = files.value("num_hidden_layers", Whole)
        files.check_count(count)
        width, size = target.config.hidden_size, target.head_dim
        return TandemConfig(width, heads, groups, size, inner, eps, count)

    def config_keys(self) -> tuple[dict[str, Any], dict[str, Any]]:
        sizes = self.net.config
        return {**layer_keys(sizes), "num_hidden_layers": sizes.count}, {}

    @classmethod
    def fresh_sizes(cls, target: Target, inner: int = 0) -> TandemConfig:
        return TandemConfig(*target_heads(target), inner, target.config.rms_norm_eps)

    @classmethod
    def fresh(cls, target: Target, budget: int, name: str) -> Self:
        """Smaller than `budget`: with it, the weights of all methods would weigh over 48 MB."""
        return super().fresh(target, round(SHARE * budget), name)
