"""First weights from the target's own layers, so that little text suffices.

Where a drafter's layer has the shape of the target's layers, it starts as one of them: the layer
that reads the text as the first, the layer that reads the target's states as the last. What these
layers add to the residual stream is fitted to the target's last hidden state by least squares, one
matrix after the other.
"""

from collections.abc import Iterable, Sequence
from typing import cast

import torch
from torch import Tensor, nn

from moa_core.drafters.base import Drafter
from moa_core.drafters.eagle import EagleDrafter, EagleNet, rms
from moa_core.drafters.eagle3 import Eagle3Drafter, Eagle3Net
from moa_core.drafters.medusa import MedusaDrafter, MedusaNet
from moa_core.drafters.moa import MoADrafter
from moa_core.drafters.tandem import TandemDrafter, TandemNet
from moa_core.model.layers import DecoderLayer, RMSNorm, SwiGLU
from moa_core.model.target import Target
from moa_core.train.batches import Batch
from moa_core.train.losses import MedusaTrainee, Trainee
from moa_core.train.masks import Masks
from moa_core.train.teacher import Lesson

BATCHES, TOKENS = 24, 24_576  # at most, whose states are fitted
FAR, SLOW = 256, 0.7  # tokens, and the least cosine that an angle has by then
RIDGE = 0.5  # of a matrix's mean input power
USUAL = 0.05  # size of a weight: an optimiser's steps are as large for all
Taught = tuple[Batch, Lesson, Masks]
# Matrices to be fitted, each with the one whose rows scale its inputs.
Maps = list[tuple[nn.Linear, nn.Linear | None]]


def suits(target: Target) -> bool:
    """Whether its layers have the form of the drafters' layers."""
    if target.own is None or target.device.type == "meta":
        return False
    one = target.own[1][0]
    parts = (one.mlp.gate_proj, one.self_attn.q_proj, one.self_attn.o_proj)
    return not one.self_attn.head_norms and all(part.bias is None for part in parts)


@torch.no_grad()
def transplant(
    trainee: Trainee, drafter: Drafter, target: Target, taught: Sequence[Taught]
) -> None:
    """Give a fresh drafter its first weights, if its layers have the shapes of the target's.

    taught  what is needed of a few batches
    """
    if not suits(target):
        return
    assert target.own is not None
    first, *_, last = target.own[1]
    maps, norm = Maps(), target.decoder.norm.weight
    match drafter:
        case MoADrafter(tli=0):
            maps = _moa(drafter, first, last, norm)
        case EagleDrafter():
            maps = _eagle(drafter.net, target.own[1], norm)
        case Eagle3Drafter():
            maps = _eagle3(drafter.net, target.own[1], norm)
        case TandemDrafter():
            maps = _tandem(drafter.net, first, last, norm)
        case MedusaDrafter():
            _medusa(cast(MedusaTrainee, trainee), taught)
    _fit_all(maps, trainee, taught)


@torch.no_grad()
def refit(trainee: Trainee, drafter: MoADrafter, taught: Sequence[Taught]) -> None:
    """Turn a drafter for another N: what its last layer writes is fitted to the state that this N
    predicts."""
    layer = drafter.net.cross_attention
    attention, mlp = layer.self_attn, layer.mlp
    _fit_all([(attention.o_proj, None), _down(mlp)], trainee, taught)
    # That state may have large numbers. The matrices before carry them, so that these can learn.
    for before, writes in ((attention.v_proj, attention.o_proj), (mlp.up_proj, mlp.down_proj)):
        scale = rms(writes.weight) / USUAL
        writes.weight /= scale
        before.weight *= scale


def _fit_all(maps: Maps, trainee: Trainee, taught: Sequence[Taught]) -> None:
    for each, _ in maps:
        each.weight.zero_()
    for each, before in maps:
        _fit(each, before, trainee, taught)


def _moa(drafter: MoADrafter, first: DecoderLayer, last: DecoderLayer, norm: Tensor) -> Maps:
    """SA is the first layer. CA has the last layer's queries and feed-forward block, and reads that
    layer's K and V as they are in the memory.

    The target's K are rotated already, and CA rotates them again. So of K, CA starts with what
    hardly turns within a text.
    """
    net, config = drafter.net, drafter.net.config
    sa, ca, size = net.self_attention, net.cross_attention, config.ca.head_dim
    sa.load_state_dict(first.state_dict())
    ca.self_attn.q_proj.weight.copy_(_reading(last, "q", norm))
    cast(RMSNorm, ca.input_layernorm).weight.fill_(rms(norm))
    _feed(ca.mlp, ca.post_attention_layernorm, [last], norm)
    if config.kv_width <= config.width:  # the memory has room for K and V
        every = torch.eye(config.kv_width, device=norm.device)
        net.Ekv2E.weight[: config.kv_width] += every
        cosines = drafter.ca_rope.tables()[0][:FAR][-1]  # [d] of the last angle
        slow = torch.diag(torch.from_numpy(cosines > SLOW).float()).to(norm.device)
        for head in range(config.ca.kv_heads):
            rows, place = slice(head * size, (head + 1) * size), 2 * head * size
            ca.self_attn.k_proj.weight[rows, place : place + size] += slow
            v_weight = ca.self_attn.v_proj.weight
            v_weight[rows, place + size : place + 2 * size] += every[:size, :size]
    return [_down(sa.mlp), (ca.self_attn.o_proj, None), _down(ca.mlp)]


def _eagle(net: EagleNet, layers: Sequence[DecoderLayer], norm: Tensor) -> Maps:
    """The last layer, on what `fc` makes of the token and the feature before it."""
    layer = net.layers[0]
    assert isinstance(layer, DecoderLayer)
    for part in "qkv":
        _projection(layer, part).copy_(_reading(layers[-1], part, norm))
    _feed(layer.mlp, layer.post_attention_layernorm, layers[::-1], norm)
    return [(net.fc, None), (layer.self_attn.o_proj, None), _down(layer.mlp)]


def _eagle3(net: Eagle3Net, layers: Sequence[DecoderLayer], norm: Tensor) -> Maps:
    """The last layer's attention for features and the first layer's for tokens, side by side."""
    layer = net.midlayer
    for part in "qkv":
        both = _reading(layers[0], part), _reading(layers[-1], part)  # of tokens, of features
        _projection(layer, part).copy_(torch.cat(both, 1).float() * 0.5**0.5)
    _feed(layer.mlp, layer.post_attention_layernorm, layers[::-1], None)
    net.norm.weight.copy_(norm)
    return [(net.fc, None), (layer.self_attn.o_proj, None), _down(layer.mlp)]


def _tandem(net: TandemNet, first: DecoderLayer, last: DecoderLayer, norm: Tensor) -> Maps:
    """The first and the last layer. Both read the target's states as they were before its norm."""
    mine = cast(tuple[DecoderLayer, DecoderLayer], tuple(net.layers))
    for layer, source, projection in zip(mine, (first, last), net.projections, strict=True):
        layer.self_attn.load_state_dict(source.self_attn.state_dict())
        layer.input_layernorm.load_state_dict(source.input_layernorm.state_dict())
        _feed(layer.mlp, layer.post_attention_layernorm, [source], None)
        cast(nn.Linear, projection).weight.copy_((rms(norm) / norm).diag())
    net.norm.weight.copy_(norm)
    return [_down(mine[0].mlp), (mine[1].self_attn.o_proj, None), _down(mine[1].mlp)]


def _medusa(trainee: MedusaTrainee, taught: Sequence[Taught]) -> None:
    """Each head starts as the linear map that best foretells the target's state."""
    for place, turn in enumerate(cast(MedusaNet, trainee.net).turns):
        trainee.fitted = place
        _fit_all([(cast(nn.Linear, turn), None)], trainee, taught)


def _down(mlp: SwiGLU) -> tuple[nn.Linear, nn.Linear]:
    return mlp.down_proj, mlp.up_proj


def _projection(layer: DecoderLayer, part: str) -> Tensor:
    weight: Tensor = getattr(layer.self_attn, f"{part}_proj").weight
    return weight


def _reading(layer: DecoderLayer, part: str, norm: Tensor | None = None) -> Tensor:
    """A layer's projection to q, k or v, which takes over the weight of its norm.

    norm  weight of the final norm, if the inputs are states after it
    """
    scale = cast(RMSNorm, layer.input_layernorm).weight.detach()
    return _projection(layer, part) * (scale if norm is None else scale / norm)


def _feed(
    mine: SwiGLU, before: RMSNorm, layers: Iterable[DecoderLayer], norm: Tensor | None
) -> None:
    """As many of these layers' feed-forward units as there is room for, the strongest first."""
    before.weight.fill_(1)
    at, room = 0, len(mine.gate_proj.weight)
    for layer in layers:
        strength = layer.mlp.down_proj.weight.norm(dim=0)
        units = strength.topk(min(room - at, len(strength))).indices
        scale = layer.post_attention_layernorm.weight.detach()
        scale = scale if norm is None else scale * rms(norm) / norm
        here = slice(at, at + len(units))
        mine.gate_proj.weight[here] = layer.mlp.gate_proj.weight[units] * scale
        mine.up_proj.weight[here] = layer.mlp.up_proj.weight[units] * scale
        at += len(units)


def _fit(
    module: nn.Linear, before: nn.Linear | None, trainee: Trainee, taught: Sequence[Taught]
) -> None:
    """Set a matrix so that the trainee's features come closest to the target's.

    before  gets rows such that the matrix's inputs are of unit size: else Adam's steps, which are
            as large for every weight, would soon undo it
    """
    seen: list[Tensor] = []
    hook = module.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    power, product = torch.zeros(()), torch.zeros(())
    count = 0
    for each in taught:
        seen.clear()
        missing, where = trainee.missing(*each)
        found = seen[0].reshape(*where.shape, -1)[where].float()  # [n, in]
        power = power.to(found) + found.T @ found
        product = product.to(found) + found.T @ missing[where].float()  # [in, E]
        count += len(found)
    hook.remove()
    if before is not None:
        sizes = (power.diagonal() / count).sqrt().clamp_min(1e-6)
        before.weight /= sizes[:, None]
        power, product = power / sizes / sizes[:, None], product / sizes[:, None]
    power.diagonal().add_(RIDGE * power.diagonal().mean())
    module.weight.add_(torch.linalg.solve(power, product).T)
