"""EAGLE-3 (arXiv 2503.01840): one decoder layer over features of three of the target's layers.

The published heads and those of their successor EAGLE 3.1 differ in a few norms; the files say
which ones exist.
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self, cast

import torch
from torch import Tensor, nn

from moa_core.drafters.base import OutputShapes, ServerOutputs
from moa_core.drafters.eagle import SAFEAI, FeatureDrafter
from moa_core.drafters.trained import Files, check_same, layer_keys, plain_rope, target_heads
from moa_core.errors import UserError
from moa_core.model.cache import KVCache
from moa_core.model.layers import DecoderLayer, LayerSizes, RMSNorm, Rope, Rotation
from moa_core.model.target import Matrix, Observation, Target
from moa_core.untrusted import Count, Eps, Whole, section, value

MIDLAYER = "midlayer"  # the layer of a head
OF_MIDLAYER = re.compile(r"^(model\.)?layers\.0\.")  # begins its names in other files
USUAL_THETA = 10_000.0  # SafeAILab's default for a config without rope_theta


@dataclass(frozen=True)
class Eagle3Config(LayerSizes):
    """Sizes of an EAGLE-3 head, and which of its optional parts it has.

    layers       the target's layers whose inputs are its features
    features     the width of each of these inputs
    words        D, if it has a head of its own for the tokens that it can draft; None: the target's
    head_norms   Qwen3's norms over each head of Q and K
    norm_before  one norm over all features before `fc`
    norm_each    a norm for each layer's feature before `fc` (EAGLE 3.1)
    norm_residual  whether the residual of attention is the normed feature
    norm_output  whether the next draft reads the normed state (EAGLE 3.1)
    embeddings   V, if it has its own token embeddings; None: the target's
    """

    layers: tuple[int, ...]
    features: int
    words: int | None = None
    fc_bias: bool = False
    qkv_bias: bool = False
    head_norms: bool = False
    norm_before: bool = False
    norm_each: bool = False
    norm_residual: bool = False
    norm_output: bool = False
    embeddings: int | None = None


class MidLayer(DecoderLayer):
    """A decoder layer whose attention reads an embedding and a feature side by side."""

    def __init__(self, config: Eagle3Config) -> None:
        form = {"qkv_bias": config.qkv_bias, "head_norms": config.head_norms}
        super().__init__(config, **form, reads=2 * config.width)
        self.hidden_norm = RMSNorm(config.width, config.eps)
        self.norm_residual = config.norm_residual

    def join(self, embedded: Tensor, features: Tensor) -> tuple[Tensor, Tensor]:
        """The input of attention [.., 2E], and its residual [.., E]."""
        normed = self.hidden_norm(features)
        joined = torch.cat([self.input_layernorm(embedded), normed], -1)
        return joined, normed if self.norm_residual else features


class Eagle3Net(nn.Module):
    """fc fuses several layers' features; a layer joins the result with the next embedding.

    Tensor names are those of SafeAILab's files.
    """

    def __init__(self, config: Eagle3Config) -> None:
        super().__init__()
        self.config = config
        width, eps, count = config.width, config.eps, len(config.layers)
        self.fc = nn.Linear(count * config.features, width, bias=config.fc_bias)
        self.midlayer = MidLayer(config)
        self.norm = RMSNorm(width, eps)
        if config.norm_before:
            self.input_norm = RMSNorm(count * config.features, eps)
        if config.norm_each:
            self.fc_norm = nn.ModuleList(RMSNorm(config.features, eps) for _ in range(count))
        if config.words:
            self.lm_head = nn.Linear(width, config.words, bias=False)
        if config.embeddings:
            self.embed_tokens = nn.Embedding(config.embeddings, width)

    def fuse(self, tapped: Tensor) -> Tensor:
        """Features of all layers, side by side -> [.., E]."""
        if self.config.norm_before:
            tapped = self.input_norm(tapped)
        if self.config.norm_each:
            parts = tapped.split(self.config.features, -1)
            normed = [norm(part) for norm, part in zip(self.fc_norm, parts, strict=True)]
            tapped = torch.cat(normed, -1)
        fused: Tensor = self.fc(tapped)
        return fused

    def forward(
        self, embedded: Tensor, features: Tensor, rotation: Rotation, mask: Tensor | None = None,
        cache: KVCache | None = None,
    ) -> Tensor:  # fmt: skip
        """Embeddings of tokens t + 1, features of tokens t -> the next features, [.., E] each."""
        layer = self.midlayer
        joined, residual = layer.join(embedded, features)
        queries = layer.self_attn.queries(joined, rotation)
        keys, values = layer.self_attn.keys_values(joined, rotation)
        if cache is not None:
            keys, values = cache.update(keys, values, 0)
        hidden = layer.feed(residual + layer.self_attn(queries, keys, values, mask))
        return self.norm(hidden) if self.config.norm_output else hidden

    def head_input(self, hidden: Tensor) -> Tensor:
        """[.., E] a feature, as the head reads it."""
        normed: Tensor = hidden if self.config.norm_output else self.norm(hidden)
        return normed


class Eagle3Drafter(FeatureDrafter):
    """Drafts with an EAGLE-3 head.

    rope  a config's `rope_parameters`; None: the target's theta
    """

    method, label = "eagle3", "EAGLE-3"
    net: Eagle3Net
    net_class = Eagle3Net

    def __init__(
        self, net: Eagle3Net, target: Target, name: str = "", rope: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(net, target, name)
        if any(not 0 <= layer < len(target.layers) for layer in net.config.layers):
            raise UserError(
                f"{self.name} reads the target's layers {', '.join(map(str, net.config.layers))}, "
                f"and this target has {len(target.layers)}."
            )
        self.rope = Rope(net.config.head_dim, rope or plain_rope(target), target.context)

    def head_for(self, target: Target) -> Matrix:
        own = self.net.config.words
        return cast(Matrix, self.net.lm_head) if own else super().head_for(target)

    def open_server(self, target: Target, capacity: int) -> None:
        target.taps = self.net.config.layers

    def server_outputs(self, observation: Observation) -> ServerOutputs:
        """E numbers per token."""
        tapped = observation.hidden[:, : self.net.fc.in_features]
        return {"features": self.net.fuse(tapped)}

    def output_shapes(self, target: Target, count: int) -> OutputShapes:
        return {"features": (count, self.net.config.width)}

    def embed(self, tokens: Tensor) -> Tensor:
        own = self.net.config.embeddings
        return self.net.embed_tokens(tokens) if own else super().embed(tokens)

    def logits(self, hidden: Tensor) -> Tensor:
        return self.head(self.net.head_input(hidden))

    # ---- its files. SafeAILab's form and that of speculators and NVIDIA differ in the names of the
    # layer's tensors and in the places of sizes. Tensors or flags say which norms exist. ----

    @classmethod
    def recognises(cls, config: Mapping[str, Any], tensors: Collection[str]) -> bool:
        named = config.get("speculators_model_type") == "eagle3" or "draft_vocab_size" in config
        normed = any(name.endswith(".hidden_norm.weight") for name in tensors)
        return named or (normed and "fc.weight" in tensors)

    @classmethod
    def in_one_form(cls, files: Files) -> Files:
        """In SafeAILab's form, without unused tensors."""
        nested = section(files.config, "transformer_layer_config", files.name)
        renamed = {
            OF_MIDLAYER.sub(f"{MIDLAYER}.", name).removeprefix("model."): tensor
            for name, tensor in files.tensors.items()
        }
        renamed.pop("t2d", None)  # d2t says the same
        if not files.value("embed_requires_grad", bool, False):
            renamed.pop("embed_tokens.weight", None)  # a copy of the target's
        words = renamed.get("lm_head.weight")
        if words is not None and "d2t" not in renamed:  # the target's own words
            renamed["d2t"] = torch.zeros(len(words), dtype=torch.long)
        return Files(files.name, {**files.config, **nested}, renamed)

    @classmethod
    def sizes(cls, files: Files, target: Target) -> Eagle3Config:
        """UserError for an unsupported form."""
        name, tensors, config = files.name, files.tensors, target.config
        if "mask_hidden" in tensors:
            raise UserError(f"{name} drafts several tokens at once (P-EAGLE): not supported.")
        if any(part in key for key in tensors for part in ("layers.1.", "midlayers.")):
            raise UserError(f"{name} has more than one layer; EAGLE-3 heads have one.")
        if f"{MIDLAYER}.self_attn.o_proj.bias" in tensors:
            raise UserError(f"{name} has a bias in o_proj: not supported.")
        width, joined = tensors["fc.weight"].shape
        layer = files.layer(MIDLAYER, files.value("num_attention_heads", Whole))
        features = files.value("target_hidden_size", Whole, config.hidden_size)
        if joined % features:
            raise ValueError(f"fc.weight reads {joined} numbers, not a multiple of {features}")
        words, embeddings = tensors.get("lm_head.weight"), tensors.get("embed_tokens.weight")
        if embeddings is not None:
            check_same(name, "embeddings", len(embeddings), config.vocab_size)
        if words is not None:
            files.check_shape("d2t", (len(words),))
        layers = _layers(files, config.num_hidden_layers)
        if len(layers) != joined // features:
            raise UserError(
                f"{name} reads {joined // features} of the target's layers, and its config names "
                f"{len(layers)}: {', '.join(map(str, layers))}."
            )
        return Eagle3Config(
            width=width,
            **asdict(layer),
            eps=files.value("rms_norm_eps", Eps, config.rms_norm_eps),
            layers=layers,
            features=features,
            words=None if words is None else len(words),
            fc_bias="fc.bias" in tensors,
            qkv_bias=files.biased(f"{MIDLAYER}.self_attn", "q"),
            head_norms=f"{MIDLAYER}.self_attn.q_norm.weight" in tensors,
            norm_before="input_norm.weight" in tensors,
            norm_each="fc_norm.0.weight" in tensors,
            # By default, speculators' heads have it and SafeAILab's do not.
            norm_residual=files.value(
                "norm_before_residual", bool, "speculators_model_type" in files.config
            ),
            norm_output=files.value("norm_output", bool, False),
            embeddings=None if embeddings is None else len(embeddings),
        )

    @classmethod
    def from_files(cls, files: Files, target: Target, tli: int | None) -> Self:
        theta = files.value("rope_theta", float, USUAL_THETA)
        plain = {"rope_type": "default", "rope_theta": theta}
        rope = section(files.config, "rope_parameters", files.name) or plain
        return cls(cls.filled(files, target), target, files.name, rope)

    def config_keys(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """SafeAILab's keys, with speculators' for the rest."""
        sizes = self.net.config
        flags = {"norm_before_residual": sizes.norm_residual, "norm_output": sizes.norm_output}
        keys = {
            **SAFEAI,
            **layer_keys(sizes),
            "architectures": ["LlamaForCausalLMEagle3"],
            "head_dim": sizes.head_dim,
            "rope_parameters": dict(self.rope.parameters),
            **{key: True for key, on in flags.items() if on},
        }
        return keys, {"layers": list(sizes.layers)}

    @classmethod
    def fresh_sizes(cls, target: Target, inner: int = 0) -> Eagle3Config:
        """With the target's vocabulary and head, as MoA and EAGLE-2 have.

        Late layers, each with a norm, help it more than those of the authors; in targets with few
        layers, theirs.
        """
        heads, eps, count = target_heads(target), target.config.rms_norm_eps, len(target.layers)
        late = count // 2, round(0.7 * count), count - 3
        layers = late if late[0] < late[1] < late[2] else default_layers(count)
        return Eagle3Config(*heads, inner, eps, layers, heads[0], norm_each=True)


def _layers(files: Files, count: int) -> tuple[int, ...]:
    """The layers whose inputs a head reads.

    Other forms name the layers whose outputs those are, which is one less. Their first is 1, which
    tells the forms apart.
    """
    if own := value(files.ours, "layers", list[Count], files.name, None):
        return tuple(own)
    key = "eagle_aux_hidden_state_layer_ids"
    nested = section(files.config, "eagle_config", files.name)
    named = files.value(key, list[Count], None) or value(nested, key, list[Count], files.name, None)
    if not named:
        return default_layers(count)
    return tuple(layer + 1 for layer in named) if named[0] == 1 else tuple(named)


def default_layers(count: int) -> tuple[int, int, int]:
    """The layers that EAGLE-3 reads of a target with `count` layers: the authors' choice if these
    differ, else the first, the middle and the last."""
    theirs = 2, count // 2, count - 3
    return theirs if theirs[0] < theirs[1] < theirs[2] else (0, count // 2, count - 1)
