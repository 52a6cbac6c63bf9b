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


class Row(NamedTuple):
    """A packed row: ids, the response mask, and the number of each token's document."""

    ids: np.ndarray
    mask: np.ndarray
    segment: np.ndarray


def packed(
    encoded: Iterable[Encoded], tokenizer: PreTrainedTokenizerBase, length: int, seed: Sequence[int]
) -> Columns:
    """Documents as shuffled rows of `length` tokens."""
    pad = tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
    rows = list(pack(encoded, length, pad))
    order = np.random.default_rng(list(seed)).permutation(len(rows))
    kinds = (np.int32, bool, np.int64)
    columns = zip(*rows, strict=True)
    return tuple(np.array(column, kind)[order] for column, kind in zip(columns, kinds, strict=True))


def pack(
    encoded: Iterable[tuple[list[int], list[bool]]], length: int, pad_id: int
) -> Iterator[Row]:
    """Rows of `length` tokens: whole documents where they fit; longer ones are cut across rows.

    `segment` numbers the documents in the order given. Padding has `pad_id`, mask False and segment
    `PADDING`.
    """
    arriving = (
        Row(np.array(ids, np.int64), np.array(mask, bool), np.full(len(ids), number))
        for number, (ids, mask) in enumerate(encoded)
    )
    waiting: list[Row] = []
    while True:
        waiting.extend(islice(arriving, _WAITING - len(waiting)))
        if not waiting:
            return
        yield _take_row(waiting, length, pad_id)


def _take_row(waiting: list[Row], length: int, pad_id: int) -> Row:
    """Take a row's documents from `waiting`. The rest of a document that is cut stays first."""
    row = Row(np.full(length, pad_id), np.zeros(length, bool), np.full(length, PADDING))
    start = 0
    while waiting and (room := length - start):
        index = _choice(waiting, room, length)
        if index is None:
            break
        document = waiting.pop(index)
        end = min(length, start + len(document.ids))
        for column, values in zip(row, document, strict=True):
            column[start:end] = values[:room]
        if len(document.ids) > room:
            waiting.insert(0, Row(*(values[room:] for values in document)))
        start = end
    return row


def _choice(waiting: list[Row], room: int, length: int) -> int | None:
    """The next document: the oldest if it fits, else the longest that fits, else one to cut."""
    oldest = len(waiting[0].ids)
    worth_filling = room > length * _MAX_PADDING
    if oldest <= room or (oldest > length and worth_filling):
        return 0
    fitting = [index for index, document in enumerate(waiting) if len(document.ids) <= room]
    if fitting:
        return max(fitting, key=lambda index: len(waiting[index].ids))
    return 0 if worth_filling else None
