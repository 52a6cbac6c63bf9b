"""EAGLE-2 (arXiv 2406.16858): one decoder layer that extrapolates the target's last feature."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

from moa_core.decoding.tree import Frontier
from moa_core.drafters.base import OutputShapes, ServerOutputs, Stepwise
from moa_core.drafters.trained import Files, Trained, layer_keys, plain_rope, target_heads
from moa_core.model.cache import KVCache
from moa_core.model.layers import DecoderLayer, LayerSizes, Rope, Rotation, rows_mask
from moa_core.model.target import Observation, Target
from moa_core.untrusted import Eps, Whole

SAFEAI = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 1}


@dataclass(frozen=True)
class EagleConfig(LayerSizes):
    """Sizes of an EAGLE head; heads and head size are free, as in its published configs."""

    fc_bias: bool = True
    qkv_bias: bool = False
    o_bias: bool = False


class EagleNet(nn.Module):
    """fc joins a token's embedding and the previous feature; then one layer without input norm."""

    def __init__(self, config: EagleConfig) -> None:
        super().__init__()
        self.config, width = config, config.width
        self.fc = nn.Linear(2 * width, width, bias=config.fc_bias)
        biases = {"qkv_bias": config.qkv_bias, "o_bias": config.o_bias}
        self.layers = nn.ModuleList([DecoderLayer(config, **biases, input_norm=False)])

    def join(self, embedded: Tensor, features: Tensor) -> Tensor:
        """[.., E] embedding of token t + 1 and feature of token t -> input of the layer [.., E]."""
        joined: Tensor = self.fc(torch.cat([embedded, features], -1))
        return joined

    def forward(
        self, embedded: Tensor, features: Tensor, rotation: Rotation, mask: Tensor | None = None,
        cache: KVCache | None = None,
    ) -> Tensor:  # fmt: skip
        """[.., E] each, as in `join` -> predicted features of the tokens [.., E]."""
        joined = self.join(embedded, features)
        hidden: Tensor = self.layers[0](joined, rotation, mask=mask, cache=cache)
        return hidden


class FeatureDrafter(Trained, Stepwise):
    """Drafts from the target's feature of each token, and below the root from its own features.

    Row i of its cache belongs to feature i and token i + 1, and has position i: the shifted
    sequence of EAGLE's code.
    """

    rope: Rope

    def logits(self, hidden: Tensor) -> Tensor:
        """[.., E] predicted features -> logits [.., D] after them."""
        return self.head(hidden)

    def embed(self, tokens: Tensor) -> Tensor:
        """[n] -> [n, E]"""
        return self.target.embed(tokens)

    def open(self, target: Target, capacity: int) -> None:
        self.open_server(target, capacity)
        self.rope.reserve(capacity)
        self.target, self.head = target, self.head_for(target)
        sizes = self.net.config
        self.cache = KVCache(target.device, sizes.kv_heads, sizes.head_dim, capacity, target.dtype)
        self.ids: list[int] = []  # verified tokens
        self.features: list[Tensor] = []  # of verified tokens not yet read, [n, E] each

    def output_shapes(self, target: Target, count: int) -> OutputShapes:
        return {"features": (count, target.config.hidden_size)}

    def observe(self, ids: Sequence[int], outputs: ServerOutputs) -> None:
        self.ids.extend(ids)
        self.features.append(outputs["features"])

    def root(self, token: int) -> Tensor:
        if self.features:  # else the root was read before, and `_root` is what came out
            # Each feature is read with the token after it, the last one with the root.
            unread = torch.tensor([*self.ids[self.cache.length + 1 :], token])
            features, past = torch.cat(self.features)[None], self.cache.length
            self._root = self._step(unread.to(features.device), features, past, None)
            self._known = self.cache.length  # rows of true features
            self.features.clear()
        self._level, logits = self._root  # features of the newest level, [1, n, E]
        return logits[0]

    def expand(self, frontier: Frontier) -> Tensor:
        """The input of each node is its parent's drafted feature."""
        position = self._known + frontier.level - 1
        features = self._level[:, frontier.parents]
        self._level, logits = self._step(frontier.tokens, features, position, frontier.seen)
        return logits

    def forget(self) -> None:
        self.cache.truncate(self._known)

    def _step(
        self, tokens: Tensor, features: Tensor, start: int, seen: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """New features [1, n, E] and logits [n, D]; for text, only those of the last token.

        tokens    [n] of the text, or nodes at one position, with features [1, n, E]
        seen      [n, s] bool: the nodes that each node sees; None: they are text
        """
        count, past = len(tokens), self.cache.length
        embedded = self.embed(tokens)[None]  # [1, n, E]
        rotation = self.rope.span(start, start + (count if seen is None else 1), embedded)
        mask = rows_mask(count, past, seen, embedded.device)
        hidden = self.net(embedded, features, rotation, mask, self.cache)
        self.cache.advance(count)
        hidden = hidden[:, -1:] if seen is None else hidden
        return hidden, self.logits(hidden)[0]


class EagleDrafter(FeatureDrafter):
    """Drafts with an EAGLE head. Features are the target's last hidden states after its norm."""

    method, label = "eagle2", "EAGLE-2"
    net: EagleNet
    net_class = EagleNet

    def __init__(self, net: EagleNet, target: Target, name: str = "") -> None:
        super().__init__(net, target, name)
        self.rope = Rope(net.config.head_dim, plain_rope(target), target.context)

    def server_outputs(self, observation: Observation) -> ServerOutputs:
        """E numbers per token."""
        return {"features": observation.hidden}

    # ---- its files, as SafeAILab publishes them ----

    @classmethod
    def recognises(cls, config: Mapping[str, Any], tensors: Collection[str]) -> bool:
        names = {"fc.weight", "layers.0.self_attn.q_proj.weight"}
        return config.get("num_hidden_layers") == 1 or names <= set(tensors)

    @classmethod
    def sizes(cls, files: Files, target: Target) -> EagleConfig:
        config, layer = target.config, "layers.0.self_attn"
        heads = files.value("num_attention_heads", Whole, config.num_attention_heads)
        return EagleConfig(
            config.hidden_size,
            **asdict(files.layer("layers.0", heads)),
            eps=files.value("rms_norm_eps", Eps, config.rms_norm_eps),
            fc_bias="fc.bias" in files.tensors or files.config.get("bias") is True,
            qkv_bias=files.biased(layer, "qkv"),
            o_bias=files.biased(layer, "o"),
        )

    def config_keys(self) -> tuple[dict[str, Any], dict[str, Any]]:
        sizes = self.net.config
        return {**SAFEAI, **layer_keys(sizes), "bias": sizes.fc_bias}, {}

    @classmethod
    def fresh_sizes(cls, target: Target, inner: int = 0) -> EagleConfig:
        return EagleConfig(*target_heads(target), inner, target.config.rms_norm_eps)

    @classmethod
    def fresh(cls, target: Target, budget: int, name: str) -> Self:
        found = super().fresh(target, budget, name)
        # Features are many times larger than embeddings, and EAGLE has no norm before `fc`. With
        # equal initial weights, the head would hardly see its token, and learn slowly.
        features, embeddings = rms(target.decoder.norm.weight), rms(target.embed.weight)
        with torch.no_grad():
            found.net.fc.weight[:, : target.config.hidden_size] *= features / embeddings
        return found


def rms(values: Tensor) -> float:
    return float(values.float().pow(2).mean().sqrt())
