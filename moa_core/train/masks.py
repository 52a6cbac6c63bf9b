"""On-policy masks: in training a drafter sees the same of the target as when drafting.

Text is cut into blocks. Within a block the drafter is on its own: cross-attention sees the target's
memory of the text before the block's first token, the root, and nothing later (arXiv 2410.03804,
section 3.2).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from moa_core.train.batches import Batch, same_document

BLOCK = (6, 14)  # the authors' block lengths, inclusive


@dataclass(frozen=True)
class Masks:
    """Attention masks, True where a token may be seen, and the positions of the loss.

    sa        [B or 1, 1, T, T] self-attention
    ca        [B, 1, T, T] cross-attention to the memory
    tail      [B or 1, 1, T, 2T] TLI: the target's own K and V, then the drafted ones
    loss      [B, T] bool
    replaced  [B, T] bool: where TLI reads the target's own hidden state, as in the authors'
              release, whose `tail` is [.., T, T], drafted K and V alone; None in our training
    """

    sa: Tensor
    ca: Tensor
    tail: Tensor
    loss: Tensor
    replaced: Tensor | None = None


def predictable(batch: Batch) -> Tensor:
    """[B, T] bool: tokens of a reply that are followed by another of the same reply."""
    reply = batch.response & (batch.positions > 0)  # a document's first token ends no reply
    loss = torch.zeros_like(reply)
    loss[:, :-1] = reply[:, :-1] & reply[:, 1:]
    return loss


def on_policy(
    batch: Batch, generator: torch.Generator, block: tuple[int, int] = BLOCK,
    staircase: float = 0.0, of: int | None = None,
) -> Masks:  # fmt: skip
    """Masks for one draw of boundaries.

    block      shortest and longest block; each block draws its own length
    staircase  share of rows in which SA, too, sees the current block only (section 3.2)
    of         rows of the whole update, if `batch` is a part: boundaries are drawn for all rows
    """
    of, mine = of or len(batch.ids), batch.rows.cpu()
    same = same_document(batch.segment)[:, 0]  # [B, T, T]
    device = batch.ids.device
    places = torch.arange(batch.ids.shape[1], device=device)
    # A document's first token cannot be a root: the memory before it is empty.
    alone = ~batch.response | (batch.positions == 0)
    starts = alone.clone()
    drawn = _boundaries(of, batch.ids.shape[1], block, generator)[mine].to(device)
    starts[:, 1:] |= alone[:, :-1] | drawn[:, 1:]
    start = torch.where(starts, places, 0).cummax(1).values  # [B, T] each block's root
    row, column = start[:, :, None], places[None, None, :]  # [B, T, 1], [1, 1, T]
    before, since = same & (column < row), same & (column >= row)
    ca = torch.where(alone[:, :, None], same, before)
    sa = same
    if staircase > 0:
        narrow = torch.rand(of, generator=generator).lt(staircase)[mine].to(device)
        sa = torch.where(narrow[:, None, None], since, same)
    tail = torch.cat([before, since], -1)
    return Masks(sa[:, None], ca[:, None], tail[:, None], predictable(batch))


def _boundaries(
    rows: int, count: int, block: tuple[int, int], generator: torch.Generator
) -> Tensor:
    """[rows, count] bool: True where a block starts."""
    low, high = block
    steps = torch.randint(low, high + 1, (rows, count // low + 2), generator=generator)
    steps[:, 0] = torch.randint(0, high, (rows,), generator=generator)  # where the first one falls
    ends = steps.cumsum(1)
    flags = torch.zeros(rows, count + 1, dtype=torch.bool)
    return flags.scatter_(1, ends.clamp(max=count), True)[:, :count]
