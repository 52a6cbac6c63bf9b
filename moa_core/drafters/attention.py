"""What a MoA drafter attends to: LSA over the target's layers, CA over the text.

The weights are computed again from the token ids, because decoding does not keep them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from moa_core.drafters.base import Drafter
from moa_core.drafters.moa import LSA_CHUNK, MoADrafter, MoANet
from moa_core.errors import UserError
from moa_core.model.cache import token_vectors
from moa_core.model.layers import Rope
from moa_core.model.target import Target, check_prompt


@dataclass(frozen=True)
class Looks:
    """Attention weights of a drafter at the newest token, the root.

    layers  [n, H_lsa, L] LSA's weights for each verified token; None without LSA
    text    [H_ca, n] CA's weights at the root, over the verified tokens' memories
    The last dimension always sums to 1.
    """

    layers: Tensor | None
    text: Tensor


@torch.inference_mode()
def look(target: Target, drafter: Drafter, ids: Sequence[int]) -> Looks:
    """What a drafter attends to before it drafts below the last of these token ids, the root.

    The target reads all ids except the root, as a prompt, because it has not read the root yet.
    UserError if the drafter is not MoA, or if the target cannot read the ids.
    """
    if not isinstance(drafter, MoADrafter):
        raise UserError(f"The drafter {drafter.name} is not MoA: it has neither LSA nor CA.")
    check_prompt(ids[:-1], target)
    check_prompt(ids[-1:], target)
    target, drafter = target.fork(), drafter.fork()
    drafter.open(target, len(ids))
    _, read = target.prefill(ids[:-1], len(ids))
    drafter.observe(read.ids, drafter.server_outputs(read))
    layers = None
    if drafter.layer_rope:
        parts = token_vectors(read.keys_values()).split(LSA_CHUNK)  # [n, L, W] each
        rows = [lsa_weights(drafter.net, part, drafter.layer_rope).mean(2) for part in parts]
        layers = torch.cat(rows)
    return Looks(layers, ca_weights(drafter, drafter.query(ids[-1])))


def lsa_weights(net: MoANet, vectors: Tensor, layer_rope: Rope) -> Tensor:
    """LSA's weights over the layers of each token: [n, H, q, L], each row sums to 1.

    vectors  [n, L, W] K and V of all layers

    The q rows are those whose outputs become the memory: all L rows for their mean, or only the
    last layer's row with pool "last".
    """
    lsa, count = net.layer_self_attention, vectors.shape[1]
    first = count - 1 if net.config.pool == "last" else 0
    keys, _ = lsa.memorise(vectors, layer_rope.span(0, count, vectors))
    return lsa.weights(vectors[:, first:], layer_rope.span(first, count, vectors), keys)


def ca_weights(drafter: MoADrafter, query: Tensor) -> Tensor:
    """CA's weights over the verified tokens: [H, n], each row sums to 1.

    query  [1, 1, E] SA's output at the root, which follows them
    """
    known, ca = drafter.memory.length, drafter.net.cross_attention
    keys, _ = drafter.memory.read(0, known)[0][:, None]
    return ca.weights(query, drafter.ca_rope.span(known, known + 1, query), keys)[0, :, 0]
