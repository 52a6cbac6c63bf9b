"""Rows of packed documents, batch by batch, epoch by epoch; resumable."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from moa_core.errors import UserError
from moa_core.train import corpus, own_text
from moa_core.train.encode import PADDING, Columns, Encoded, encode_many, packed


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


OWN = "the target's own text"


class Epoch(NamedTuple):
    """Shuffled rows, the data's documents and tokens in them, and the target's own tokens."""

    rows: Columns
    documents: int
    tokens: int
    written: int = 0

    def __str__(self) -> str:
        count = f"{self.documents:,} document{'' if self.documents == 1 else 's'} of yours"
        data = f"{count} ({self.tokens:,} tokens)" if self.documents else ""
        own = f"{self.written:,} tokens of {OWN}" if self.written else ""
        return f"{', and '.join(filter(None, (data, own)))}."


class Batches:
    """Endless batches of text. place: epoch and first row of the next batch.

    data  folder of text
    own   file of text that the target wrote; an epoch is then all of it and as much data
    """

    def __init__(
        self, data: Path | None, tokenizer: PreTrainedTokenizerBase, rows: int, row_length: int,
        seed: int, own: Path | None = None,
    ) -> None:  # fmt: skip
        self.place: tuple[int, int] = (0, 0)
        self._tokenizer, self.rows = tokenizer, rows
        self._data, self._own, self._row_length, self._seed = data, own, row_length, seed
        self._epoch = lru_cache(1)(self.prepare)

    def about(self) -> str:
        return f"Training on {self._epoch(self.place[0])}"

    def frequencies(self, vocabulary: int) -> np.ndarray:
        """[V] how often each token occurs in the replies of an epoch."""
        ids, response, _ = self._epoch(self.place[0]).rows
        return np.bincount(ids[response], minlength=vocabulary)

    def __iter__(self) -> Iterator[Batch]:
        before = True  # whether the last epoch had a batch: by chance, one epoch may have none
        while True:
            epoch, start = self.place
            columns = self._epoch(epoch).rows
            if start + self.rows > len(columns[0]):
                if not start and not before:
                    raise UserError(self._too_little(columns[2]))
                before = start > 0
                self.place = (epoch + 1, 0)
                continue
            before = True
            self.place = (epoch, start + self.rows)
            rows = (torch.from_numpy(column[start : start + self.rows]) for column in columns)
            yield whole_batch(*rows)

    def _too_little(self, segment: np.ndarray) -> str:
        data, (rows, length) = self._data, segment.shape
        if rows:
            tokens = f"{int((segment != PADDING).sum()):,} tokens in {data or OWN}"
            filled = f"{rows} row{'' if rows == 1 else 's'} of {length} tokens"
            return (
                f"There is too little text for one update: {tokens} fill {filled}, and an update "
                f"takes {self.rows}. Give --rows {rows}{' or fewer' if rows > 1 else ''}, a "
                "shorter --row-length, or more text."
            )
        return f"No document in {data or OWN} can be trained on: all are empty or refused."

    def prepare(self, number: int) -> Epoch:
        """An epoch's rows."""
        found = [] if self._data is None else corpus.load(self._data)
        documents = corpus.shuffled(found, self._seed, number)
        counts = [0, 0]

        def counted() -> Iterator[Encoded]:
            for encoded in encode_many(documents, self._tokenizer):
                counts[0] += 1
                counts[1] += len(encoded.ids)
                yield encoded

        encoded, written = counted(), 0
        if self._own is not None:
            own = own_text.load(self._own)
            written = sum(sum(text.mask) for text in own)
            encoded = own_text.mixed(own, encoded, self._seed + number)
        rows = packed(encoded, self._tokenizer, self._row_length, [self._seed, number])
        return Epoch(rows, counts[0], counts[1], written)
