"""Documents, as token ids, become packed rows."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
from transformers import PreTrainedTokenizerBase

PADDING = -1  # the segment of padding
_WAITING = 512  # documents to choose from when a row is filled
_MAX_PADDING = 0.02  # of a row, before a document is cut to fill it
Columns = tuple[np.ndarray, ...]  # ids, response mask and segment of rows, each [rows, length]


class Encoded(NamedTuple):
    """A document's token ids, and a mask of the reply's."""

    ids: list[int]
    mask: list[bool]


def packed(
    encoded: Iterable[Encoded], tokenizer: PreTrainedTokenizerBase, length: int, seed: Sequence[int]
) -> Columns:
    """Documents as shuffled rows of `length` tokens."""
    pad = tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
    rows = np.stack(list(pack(encoded, length, pad)))
    order = np.random.default_rng(list(seed)).permutation(len(rows))
    ids, mask, segment = rows[order].swapaxes(0, 1)
    return ids.astype(np.int32), mask.astype(bool), segment.copy()


def pack(
    encoded: Iterable[tuple[list[int], list[bool]]], length: int, pad_id: int
) -> Iterator[np.ndarray]:
    """Rows [3, length]: ids, the response mask, and the number of each token's document.

    Documents are whole where they fit; longer ones are cut across rows. Padding has `pad_id`, mask
    0 and segment `PADDING`.
    """
    arriving = (
        np.stack([ids, mask, np.full(len(ids), number)])
        for number, (ids, mask) in enumerate(encoded)
    )
    waiting: list[np.ndarray] = []
    while True:
        waiting.extend(islice(arriving, _WAITING - len(waiting)))
        if not waiting:
            return
        yield _take_row(waiting, length, pad_id)


def _take_row(waiting: list[np.ndarray], length: int, pad_id: int) -> np.ndarray:
    """Take a row's documents from `waiting`. The rest of a document that is cut stays first."""
    row = np.repeat([[pad_id], [0], [PADDING]], length, 1)
    start = 0
    while waiting and (room := length - start):
        index = _choice(waiting, room, length)
        if index is None:
            break
        document = waiting.pop(index)
        end = min(length, start + document.shape[1])
        row[:, start:end] = document[:, :room]
        if document.shape[1] > room:
            waiting.insert(0, document[:, room:])
        start = end
    return row


def _choice(waiting: list[np.ndarray], room: int, length: int) -> int | None:
    """The next document: the oldest if it fits, else the longest that fits, else one to cut."""
    oldest = waiting[0].shape[1]
    worth_filling = room > length * _MAX_PADDING
    if oldest <= room or (oldest > length and worth_filling):
        return 0
    fitting = [index for index, document in enumerate(waiting) if document.shape[1] <= room]
    if fitting:
        return max(fitting, key=lambda index: waiting[index].shape[1])
    return 0 if worth_filling else None
