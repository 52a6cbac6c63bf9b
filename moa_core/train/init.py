"""Untrained drafters of every method, all with about as many parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from moa_core.drafters.base import Drafter
from moa_core.drafters.eagle import EagleConfig, EagleDrafter, EagleNet
from moa_core.drafters.eagle3 import Eagle3Config, Eagle3Drafter, Eagle3Net, default_layers
from moa_core.drafters.glide import GlideConfig, GlideDrafter, GlideNet
from moa_core.drafters.independent import IndependentDrafter, borrowing
from moa_core.drafters.medusa import MedusaConfig, MedusaDrafter, MedusaNet
from moa_core.drafters.moa import MoAConfig, MoADrafter, MoANet, Sizes
from moa_core.errors import UserError
from moa_core.loading.formats import small_config
from moa_core.loading.memory import parameters
from moa_core.loading.names import family, tli_of
from moa_core.model.target import Target

Net = TypeVar("Net", bound=nn.Module)

MEDUSA_HEADS = 5
OTHERS = ("eagle2", "eagle3", "medusa", "glide", "independent")
METHODS = ("moa-n0", "moa-n1", "...", *OTHERS)


def fresh(method: str, target: Target, seed: int) -> Drafter:
    """An untrained drafter with as many parameters as a MoA drafter, within a few percent.

    The width of feed-forward blocks, or Medusa's number of blocks, is chosen accordingly.
    """
    torch.manual_seed(seed)
    moa, config, width = moa_config(target), target.config, target.config.hidden_size
    if family(method) == "moa":
        return MoADrafter(_initialised(MoANet(moa)), target, tli_of(method), method)
    budget = parameters(MoANet(moa))
    heads, eps = (config.num_attention_heads, target.kv_heads, target.head_dim), config.rms_norm_eps
    match method:
        case "eagle2":
            return EagleDrafter(_eagle(target, budget), target, method)
        case "eagle3":  # with the target's vocabulary and head, as MoA and EAGLE-2 have
            layers = default_layers(len(target.layers))
            eagle3 = _widened(
                lambda inner: Eagle3Net(Eagle3Config(width, *heads, inner, eps, layers, width)),
                budget,
            )
            return Eagle3Drafter(eagle3, target, method)
        case "glide":
            glide = _widened(lambda n: GlideNet(GlideConfig(width, *heads, n, eps)), budget)
            return GlideDrafter(glide, target, method)
        case "medusa":
            return MedusaDrafter(_medusa(target, budget), target, method)
        case "independent":
            return _independent(target, budget)
    raise UserError(f"Unknown method {method!r:.80}: choose from {', '.join(METHODS)}.")


def moa_config(target: Target) -> MoAConfig:
    """Sizes of a fresh MoA drafter.

    SA and CA have the target's kv heads. The paper (section 4) gives them an eighth of Llama-3-8B's
    heads; in a small target that is a single head, too narrow for CA. LSA has a quarter.
    Feed-forward blocks are 1.75 times as wide as their layer, LSA's half as wide (1.5 times in the
    paper): LSA runs for every layer of every token, so a wider block would dominate training time.
    """
    config = target.config
    heads, width, kv_width = config.num_attention_heads, config.hidden_size, target.kv_width
    one = Sizes(heads, target.kv_heads, target.head_dim, width * 7 // 4)
    # The largest head count, at most the target's, that divides W into even sizes.
    lsa_heads = next(h for h in range(heads, 0, -1) if kv_width % h == 0 and kv_width // h % 2 == 0)
    groups = next(g for g in range(max(1, lsa_heads // 4), 0, -1) if lsa_heads % g == 0)
    lsa = Sizes(lsa_heads, groups, kv_width // lsa_heads, kv_width // 2)
    bias = bool(getattr(config, "attention_bias", False))
    mlp_bias = bool(getattr(config, "mlp_bias", False))
    eps = config.rms_norm_eps
    return MoAConfig(width, kv_width, one, one, lsa, eps, bias, bias, mlp_bias, pool="last")


def _widened(make: Callable[[int], Net], budget: int) -> Net:
    """The net with the feed-forward width that comes closest to `budget` parameters."""
    base = parameters(make(1))
    step = parameters(make(2)) - base
    return _initialised(make(max(1, 1 + round((budget - base) / step))))


def _eagle(target: Target, budget: int) -> EagleNet:
    config, width = target.config, target.config.hidden_size
    heads, eps = (config.num_attention_heads, target.kv_heads, target.head_dim), config.rms_norm_eps
    net = _widened(lambda inner: EagleNet(EagleConfig(*heads, inner, eps), width), budget)
    # Features are many times larger than embeddings, and EAGLE has no norm before `fc`. With equal
    # initial weights, the head would hardly see its token, and acceptance would grow slowly.
    features, embeddings = _rms(target.decoder.norm.weight), _rms(target.embed.weight)
    with torch.no_grad():
        net.fc.weight[:, :width] *= features / embeddings
    return net


def _rms(values: Tensor) -> Tensor:
    return values.float().pow(2).mean().sqrt()


def _medusa(target: Target, budget: int) -> MedusaNet:
    width = target.config.hidden_size
    one = parameters(MedusaNet(MedusaConfig(MEDUSA_HEADS, 1), width))
    net = MedusaNet(MedusaConfig(MEDUSA_HEADS, max(1, round(budget / one))), width)
    for weight in net.parameters():
        nn.init.zeros_(weight)  # as in the paper: a head starts as a copy of the target's
    return net


def _independent(target: Target, budget: int, layers: int = 2) -> IndependentDrafter:
    def drafter(inner: int) -> IndependentDrafter:
        heads = target.config.num_attention_heads
        config = small_config(target, layers, heads, target.kv_heads, inner)
        return IndependentDrafter(borrowing(config, target), target)

    widened: Any = _widened(lambda inner: drafter(inner).net, budget)
    found = drafter(widened["layers"][0].mlp.gate_proj.out_features)
    _initialised(found.net)
    return found


def _initialised(net: Net) -> Net:
    for module in net.modules():
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=0.02)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    return net
