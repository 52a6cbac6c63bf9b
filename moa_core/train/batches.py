"""Documents become packed rows, and these batches, epoch by epoch; resumable."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from moa_core.errors import UserError
from moa_core.train import own_text

PADDING = -1  # the segment of padding
_WAITING = 512  # documents to choose from when a row is filled
_MAX_PADDING = 0.02  # of a row, before a document is cut to fill it
Columns = tuple[np.ndarray, ...]  # ids, response mask and segment of rows, each [rows, length]


class Batch(NamedTuple):
    """Rows of packed documents.

    ids        [B, T]
    response   [B, T] bool: the assistant's tokens
    segment    [B, T] number of the document, or PADDING
    positions  [B, T] counted from the start of each document
    rows       [B] each row's place in the batch of the whole update; it seeds random draws, so that
               the result does not depend on the number of parts
    """

    ids: Tensor
    response: Tensor
    segment: Tensor
    positions: Tensor
    rows: Tensor

    def to(self, device: str) -> Batch:
        return Batch(*(tensor.to(device, non_blocking=True) for tensor in self))

    def part(self, places: slice) -> Batch:
        return Batch(*(tensor[places] for tensor in self))


def whole_batch(ids: Tensor, response: Tensor, segment: Tensor) -> Batch:
    """A batch of all rows of an update."""
    return Batch(ids.long(), response, segment, positions(segment), torch.arange(len(ids)))


def positions(segment: Tensor) -> Tensor:
    """[B, T] place of each token in its document."""
    places = torch.arange(segment.shape[1]).expand_as(segment)
    first = torch.ones_like(segment, dtype=torch.bool)
    first[:, 1:] = segment[:, 1:] != segment[:, :-1]
    return places - torch.where(first, places, 0).cummax(1).values


def same_document(segment: Tensor) -> Tensor:
    """[B, 1, T, T] bool: causal within one document. Padding sees padding."""
    count = segment.shape[1]
    same = segment[:, :, None] == segment[:, None, :]
    causal = torch.ones(count, count, dtype=torch.bool, device=segment.device).tril()
    return (same & causal)[:, None]


class Batches:
    """Endless batches of the target's own text. place: epoch and first row of the next batch.

    own  file of this text; an epoch is all of it, shuffled
    """

    def __init__(
        self, own: Path, tokenizer: PreTrainedTokenizerBase, rows: int, row_length: int, seed: int
    ) -> None:
        self.place: tuple[int, int] = (0, 0)
        self._own, self._tokenizer, self.rows = own, tokenizer, rows
        self._row_length, self._seed = row_length, seed
        self._epoch = lru_cache(1)(self.prepare)

    def about(self) -> str:
        _, response, _ = self._epoch(self.place[0])
        return f"Training on {int(response.sum()):,} tokens of the target's own text."

    def frequencies(self, vocabulary: int) -> np.ndarray:
        """[V] how often each token occurs in the replies of an epoch."""
        ids, response, _ = self._epoch(self.place[0])
        return np.bincount(ids[response], minlength=vocabulary)

    def __iter__(self) -> Iterator[Batch]:
        before = True  # whether the last epoch had a batch: by chance, one epoch may have none
        while True:
            epoch, start = self.place
            columns = self._epoch(epoch)
            if start + self.rows > len(columns[0]):
                if not start and not before:
                    raise UserError(self._too_little(columns[2]))
                before = start > 0
                self.place = (epoch + 1, 0)
                continue
            self.place = (epoch, start + self.rows)
            rows = (torch.from_numpy(column[start : start + self.rows]) for column in columns)
            yield whole_batch(*rows)

    def _too_little(self, segment: np.ndarray) -> str:
        rows, length = segment.shape
        tokens = f"{int((segment != PADDING).sum()):,} tokens in the target's own text"
        filled = f"{rows} row{'' if rows == 1 else 's'} of {length} tokens"
        return (
            f"There is too little text for one update: {tokens} fill {filled}, and an update "
            f"takes {self.rows}. Give --rows {rows}{' or fewer' if rows > 1 else ''}, a "
            "shorter --row-length, or, with another --out, more --own-tokens."
        )

    def prepare(self, number: int) -> Columns:
        """An epoch's rows, shuffled."""
        texts, tokenizer = own_text.load(self._own), self._tokenizer
        random.Random(self._seed + number).shuffle(texts)
        pad = tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
        rows = np.stack(list(pack(texts, self._row_length, pad)))
        order = np.random.default_rng([self._seed, number]).permutation(len(rows))
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
