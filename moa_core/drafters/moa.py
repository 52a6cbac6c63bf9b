"""Mixture of Attentions (arXiv 2410.03804): drafting from the K and V of all target layers.

Layer Self-Attention (LSA) condenses K and V of every layer for a verified token into a memory.
Self-attention (SA) reads the text so far, cross-attention (CA) reads the memory, and with Target
Layer Inference (TLI) the target's last N layers follow.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

from moa_core.drafters.base import OutputShapes, Reader, ServerOutputs
from moa_core.drafters.trained import Files, Sizes, Trained, initialised, plain_rope
from moa_core.errors import UserError
from moa_core.model.cache import KVCache, token_vectors
from moa_core.model.layers import DecoderLayer, LayerSizes, Rope, rows_mask
from moa_core.model.target import Observation, Target
from moa_core.untrusted import Count, Eps, Whole, value

LSA_CHUNK = 512  # verified tokens per LSA call: each token needs W * L numbers


@dataclass(frozen=True)
class MoAConfig:
    """Sizes of a MoA drafter.

    width     E, the target's hidden size
    kv_width  W, two times the target's kv heads times its head size: the width of LSA
    biases    of the SA layer, whose form follows the target's layers
    lsa       None: read only the last layer's K and V
    pool      how LSA's rows, one per layer, become one: their "mean", as in the paper, or the
              "last" row, which attends to all others
    """

    width: int
    kv_width: int
    sa: Sizes
    ca: Sizes
    lsa: Sizes | None
    eps: float
    qkv_bias: bool = False
    o_bias: bool = False
    mlp_bias: bool = False
    pool: str = "mean"

    def __post_init__(self) -> None:
        if self.pool not in ("mean", "last"):
            raise UserError(f"LSA's pooling is mean or last, not {self.pool!r}.")
        if self.lsa and (
            self.lsa.heads * self.lsa.head_dim != self.kv_width or self.lsa.head_dim % 2
        ):
            raise UserError(
                f"LSA's width {self.kv_width} cannot be split into {self.lsa.heads} heads of an "
                "even size: give another number of LSA heads."
            )


class MoANet(nn.Module):
    """The trainable parts. Embeddings and head are the target's."""

    def __init__(self, config: MoAConfig) -> None:
        super().__init__()
        self.config = config
        biases = {key: getattr(config, key) for key in ("qkv_bias", "o_bias", "mlp_bias")}
        self.self_attention = _layer(config.width, config.sa, config, **biases)
        self.cross_attention = _layer(config.width, config.ca, config)
        if config.lsa:
            self.layer_self_attention = _layer(config.kv_width, config.lsa, config)
        self.Ekv2E = nn.Linear(config.kv_width, config.width)

    def memory(self, vectors: Tensor, layer_rope: Rope | None) -> Tensor:
        """LSA: K and V of all layers [n, L, W] -> memory [n, E], for each token (section 3.1).

        Attention over layers without a mask, with the layer index as position. Then the mean over
        layers or, with pool "last", only the last layer's row.
        """
        pooled = vectors[:, -1]  # [n, W]; without LSA, the last layer's
        if self.config.lsa:
            assert layer_rope is not None
            lsa, count = self.layer_self_attention, vectors.shape[1]
            rotation = layer_rope.span(0, count, vectors)
            if self.config.pool == "mean":
                pooled = lsa(vectors, rotation).mean(1)
            else:
                last = layer_rope.span(count - 1, count, vectors)
                keys_values = lsa.memorise(vectors, rotation)
                pooled = lsa.attend(vectors[:, -1:], last, *keys_values)[:, 0]
        memory: Tensor = self.Ekv2E(pooled)
        return memory


def _layer(width: int, sizes: Sizes, config: MoAConfig, **biases: bool) -> DecoderLayer:
    return DecoderLayer(LayerSizes(width, **asdict(sizes), eps=config.eps), **biases)


class MoADrafter(Trained, Reader):
    """Drafts with a MoA net, reusing the target's last `tli` layers."""

    method, label = "moa", "MoA"
    net: MoANet
    net_class = MoANet
    tli: int

    def __init__(self, net: MoANet, target: Target, tli: int = 0, name: str = "") -> None:
        if not 0 <= tli <= len(target.layers):
            raise UserError(
                f"TLI N must be from 0 to {len(target.layers)}, this target's number of layers."
            )
        super().__init__(net, target, name or f"moa-n{tli}")
        self.tli = tli
        sizes, plain = net.config, plain_rope(target)
        # Scaled RoPE, if the target has it, is used only in SA, as in the authors' code.
        self.sa_rope = Rope(sizes.sa.head_dim, target.config.rope_parameters, target.context)
        self.ca_rope = Rope(sizes.ca.head_dim, plain, target.context)
        lsa = sizes.lsa
        self.layer_rope = Rope(lsa.head_dim, plain, len(target.layers)) if lsa else None

    def open(self, target: Target, capacity: int) -> None:
        def cache(sizes: Sizes) -> KVCache:
            return KVCache(target.device, sizes.kv_heads, sizes.head_dim, capacity, target.dtype)

        self.open_server(target, capacity)
        self.sa_rope.reserve(capacity)
        self.target, self.head = target, self.head_for(target)
        self.ids: list[int] = []  # verified tokens
        sizes = self.net.config
        self.text = cache(sizes.sa)  # SA's, drafts included
        self.memory = cache(sizes.ca)  # CA's, verified only
        self.tail = target.tail_cache(self.tli, capacity) if self.tli else None

    def open_server(self, target: Target, capacity: int) -> None:
        self.ca_rope.reserve(capacity)

    def server_outputs(self, observation: Observation) -> ServerOutputs:
        """CA's K and V [1, 2, G_ca, n, d]; for N > 0 the true K and V of the last N layers."""
        outputs = {"memory": self._memory(observation)}
        if self.tli:
            outputs["tail"] = observation.keys_values(last=self.tli)
        return outputs

    def output_shapes(self, target: Target, count: int) -> OutputShapes:
        sizes = self.net.config.ca
        shapes: OutputShapes = {"memory": (1, 2, sizes.kv_heads, count, sizes.head_dim)}
        if self.tli:
            shapes["tail"] = (self.tli, 2, target.kv_heads, count, target.head_dim)
        return shapes

    def _memory(self, observation: Observation) -> Tensor:
        """LSA, then CA's K and V of the memory, [1, 2, G_ca, n, d]. A long prompt is read in parts,
        so that only one part's K and V of all layers are copied at a time."""
        start, count = observation.start, len(observation.ids)
        parts = [observation.part(at, at + LSA_CHUNK) for at in range(0, count, LSA_CHUNK)]
        vectors = (token_vectors(part.keys_values()) for part in parts)
        memory = torch.cat([self.net.memory(part, self.layer_rope) for part in vectors])  # [n, E]
        rotation = self.ca_rope.span(start, start + count, memory)
        return torch.stack(self.net.cross_attention.memorise(memory[None], rotation), 1)

    def observe(self, ids: Sequence[int], outputs: ServerOutputs) -> None:
        self.ids.extend(ids)
        self.memory.append(outputs["memory"])
        if self.tail is not None:
            self.tail.append(outputs["tail"])

    def query(self, token: int) -> Tensor:
        """[1, 1, E] SA's output at the newest token, the root: CA's query."""
        return self._read(*self.unread(token), None)[:, -1:]

    def read(self, tokens: Tensor, start: int, seen: Tensor | None) -> Tensor:
        hidden = self._read(tokens, start, seen)
        if seen is None:  # CA and the layers after it run only for the newest token
            hidden, start = hidden[:, -1:], start + len(tokens) - 1
        rotation = self.ca_rope.span(start, start + 1, hidden)
        memory = self.memory.read(0, self.memory.length)[0].unsqueeze(1).unbind()
        hidden = self.net.cross_attention.attend(hidden, rotation, *memory)
        if self.tail is not None:
            hidden = self._reuse(hidden, start, seen, self.tail)
        return self.head(hidden)[0]

    def forget(self) -> None:
        super().forget()
        if self.tail is not None:
            self.tail.truncate(len(self.ids))  # the root's true K and V are not known yet

    def _read(self, tokens: Tensor, start: int, seen: Tensor | None) -> Tensor:
        """SA over new tokens [n] of the text, or over nodes at one position -> [1, n, E]."""
        count, past = len(tokens), self.text.length
        hidden: Tensor = self.target.embed(tokens)[None]
        rotation = self.sa_rope.span(start, start + (count if seen is None else 1), hidden)
        mask = rows_mask(count, past, seen, hidden.device)
        hidden = self.net.self_attention(hidden, rotation, mask=mask, cache=self.text)
        self.text.advance(count)
        return hidden

    def _reuse(self, hidden: Tensor, position: int, seen: Tensor | None, tail: KVCache) -> Tensor:
        """TLI: the target's last N layers and norm, [1, n, E]."""
        count, past = hidden.shape[1], tail.length
        places = torch.full((1, count), position, device=hidden.device)
        mask = rows_mask(count, past, seen, hidden.device)
        hidden = self.target.read_layers(hidden, places, mask, tail, self.tli)
        tail.advance(count)
        return hidden

    # ---- its files, in the authors' keys and ours ----

    @classmethod
    def recognises(cls, config: Mapping[str, Any], tensors: Collection[str]) -> bool:
        named = config.get("model_type") == "moa_spec"
        named = named or "MOASpec" in str(config.get("architectures"))
        return named or "cross_attention.self_attn.q_proj.weight" in tensors

    @classmethod
    def sizes(cls, files: Files, target: Target) -> MoAConfig:
        """They follow the target's hidden size and K and V."""
        config, ours = target.config, files.ours
        width, kv_width = config.hidden_size, target.kv_width
        files.check_shape("Ekv2E.weight", (width, kv_width))  # the clearest sign of another target
        sa, ca, lsa = "self_attention", "cross_attention", "layer_self_attention"
        heads = files.value("num_attention_heads", Whole, config.num_attention_heads)
        lsa_heads = value(ours, "lsa_heads", Whole, files.name, heads)
        # SA follows the target's layers: Llama's option has biases on all four projections.
        biased = bool(getattr(config, "attention_bias", False))
        return MoAConfig(
            width=width,
            kv_width=kv_width,
            sa=files.layer(sa, heads),
            ca=files.layer(ca, heads),
            lsa=None if files.config.get("disable_LSA") else files.layer(lsa, lsa_heads),
            eps=files.value("rms_norm_eps", Eps, config.rms_norm_eps),
            qkv_bias=biased or files.biased(f"{sa}.self_attn", "qkv"),
            o_bias=biased or files.biased(f"{sa}.self_attn", "o"),
            mlp_bias=files.biased(f"{sa}.mlp", ("gate", "up", "down")),
            pool=ours.get("lsa_pool", "mean"),  # our own option; the authors' files use the mean
        )

    @classmethod
    def from_files(cls, files: Files, target: Target, tli: int | None) -> Self:
        name, stored = files.name, value(files.ours, "tli", Count, files.name, None)
        if tli is not None and stored is not None and tli != stored:
            raise UserError(
                f"{name} was trained for TLI N={stored} and cannot draft with N={tli}: each N "
                "needs its own drafter."
            )
        return cls(cls.filled(files, target), target, tli if tli is not None else stored or 0, name)

    def config_keys(self) -> tuple[dict[str, Any], dict[str, Any]]:
        sizes = self.net.config
        keys: dict[str, Any] = {
            "architectures": ["MOASpecModel"],
            "model_type": "moa_spec",
            "kv_hidden_size": sizes.kv_width,
            "num_attention_heads": sizes.ca.heads,
            "head_dim": sizes.ca.head_dim,
            "disable_LSA": sizes.lsa is None,
        }
        for prefix, layer in (
            ("self_attention", sizes.sa),
            ("cross_attention", sizes.ca),
            ("layer_self_attention", sizes.lsa),
        ):
            if layer is not None:
                keys[f"{prefix}_num_key_value_heads"] = layer.kv_heads
                keys[f"{prefix}_intermediate_size"] = layer.inner
        lsa_heads = sizes.lsa and sizes.lsa.heads
        return keys, {"tli": self.tli, "lsa_heads": lsa_heads, "lsa_pool": sizes.pool}

    @classmethod
    def fresh(cls, target: Target, budget: int, name: str) -> Self:
        """All other methods get as many parameters, so it needs no budget."""
        net, tli = initialised(MoANet(cls.fresh_sizes(target))), int(name.removeprefix("moa-n"))
        return cls(net, target, tli, name)

    @classmethod
    def fresh_sizes(cls, target: Target, inner: int = 0) -> MoAConfig:
        """Sizes of a fresh MoA drafter.

        SA and CA have the target's heads and feed-forward width. The paper (section 4) gives them
        an eighth of Llama-3-8B's kv heads; in a small target that is a single head, too narrow for
        CA. LSA has a quarter, and a feed-forward block half as wide as itself (1.5 times in the
        paper): it runs for every layer of every token, so a wider block would dominate training.
        """
        config = target.config
        heads, width, kv_width = config.num_attention_heads, config.hidden_size, target.kv_width
        one = Sizes(heads, target.kv_heads, target.head_dim, config.intermediate_size)
        # The largest head count, at most the target's, that divides W into even sizes.
        lsa_heads = next(h for h in range(heads, 0, -1) if kv_width % (2 * h) == 0)
        groups = next(g for g in range(max(1, lsa_heads // 4), 0, -1) if lsa_heads % g == 0)
        lsa = Sizes(lsa_heads, groups, kv_width // lsa_heads, kv_width // 2)
        bias = bool(getattr(config, "attention_bias", False))
        mlp_bias = bool(getattr(config, "mlp_bias", False))
        eps = config.rms_norm_eps
        return MoAConfig(width, kv_width, one, one, lsa, eps, bias, bias, mlp_bias, pool="last")
