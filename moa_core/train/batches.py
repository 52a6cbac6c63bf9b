"""Batches of packed rows, epoch after epoch, the same after a resume as without one."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from moa_core.errors import UserError
from moa_core.train import corpus, own_text, sources
from moa_core.train.corpus import Document, Encoded
from moa_core.train.workers import Workers


@dataclass(frozen=True)
class Recipe:
    """What an epoch is made of; any process can make it from this alone.

    tasks   generated ones in an epoch, among the documents of the data folder
    shares  (kind, share) of the kinds of document to thin out, drawn anew each epoch
    own     file of text that the target wrote; an epoch is then all of it, and as much data
    """

    data: Path
    tokenizer: Path
    seed: int
    row_length: int = 1024
    tasks: int = 0
    shares: tuple[tuple[str, float], ...] = ()
    own: Path | None = None


class Batch(NamedTuple):
    """Rows of packed documents.

    ids        [B, T]
    response   [B, T] bool: what the assistant writes
    segment    [B, T] number of the document, corpus.PADDING for padding
    positions  [B, T] counted from the start of each document
    rows       [B] place of each row in its update's batch, over all processes: whatever is drawn by
               chance is drawn by it, so that the result does not depend on how rows are shared out
    """

    ids: Tensor
    response: Tensor
    segment: Tensor
    positions: Tensor
    rows: Tensor | None = None

    def to(self, device: torch.device) -> Batch:
        return self._each(lambda tensor: tensor.to(device, non_blocking=True))

    def part(self, places: slice) -> Batch:
        """Some of the rows."""
        return self._each(lambda tensor: tensor[places])

    def _each(self, change: Callable[[Tensor], Tensor]) -> Batch:
        ids, response, segment, positions, rows = self
        return Batch(
            change(ids), change(response), change(segment), change(positions),
            None if rows is None else change(rows),
        )  # fmt: skip

    def numbers(self) -> list[int]:
        """`rows`; without them this batch is the whole one."""
        return list(range(len(self.ids))) if self.rows is None else self.rows.tolist()


@dataclass
class Contents:
    """What an epoch was made of.

    documents  of the data folder, tokens in them
    generated  tasks
    written    tokens of the target's own text
    example    the first of the documents
    """

    documents: int = 0
    tokens: int = 0
    generated: int = 0
    written: int = 0
    example: Document | None = None

    def counted(self, pairs: Iterable[tuple[Document, Encoded]]) -> Iterator[Encoded]:
        """Pass documents on, counting them."""
        for document, encoded in pairs:
            if document.generated:
                self.generated += 1
            else:
                self.documents += 1
                self.tokens += len(encoded.ids)
                self.example = self.example or document
            yield encoded

    def __str__(self) -> str:
        documents = f"{self.documents:,} document{'' if self.documents == 1 else 's'} of yours"
        own = f", and {self.written:,} tokens of the target's own text" if self.written else ""
        return f"{documents} ({self.tokens:,} tokens), {self.generated:,} generated{own}."


class Epoch(NamedTuple):
    """Shuffled rows, and what they were made of.

    rows  ids, response mask and segment, each [rows, length]
    """

    rows: tuple[np.ndarray, ...]
    contents: Contents


class Source(Protocol):
    """Endless batches of `rows`, the same in every process; `place` says where to go on.

    example  a document that is trained on, once one was read
    """

    rows: int
    place: tuple[Any, ...]
    example: Document | None

    def about(self) -> str:
        """What is trained on, in a sentence for whoever started it."""
        ...

    def __iter__(self) -> Iterator[Batch]: ...

    def close(self) -> None: ...


class Batches:
    """Endless batches; `place` says where to go on and is all that a checkpoint needs of it.

    With several processes each makes all rows, and trains on its own: every one then knows, without
    asking, how much the others have.
    """

    def __init__(self, recipe: Recipe, rows: int, workers: int = 2):
        self.place: tuple[Any, ...] = (0, 0)  # epoch, first row of the next batch
        self.example: Document | None = None
        self._recipe, self.rows = recipe, rows
        self._pool = Workers(workers)
        self._ahead: dict[int, Future[Epoch]] = {}
        self._workers = workers

    def about(self) -> str:
        return f"Training on {self._epoch(self.place[0]).contents}"

    def __iter__(self) -> Iterator[Batch]:
        given = True  # an epoch may be a row short by chance, two in a row are no chance
        while True:
            epoch, start = self.place
            columns = self._epoch(epoch).rows
            if start + self.rows > len(columns[0]):
                if not start and not given:
                    raise UserError(self._too_little(columns[2]))
                given = start > 0
                self._ahead.pop(epoch)
                self.place = (epoch + 1, 0)
                continue
            given = True
            self.place = (epoch, start + self.rows)
            yield as_batch(*(column[start : start + self.rows] for column in columns))

    def close(self) -> None:
        """Stop the processes that prepare epochs."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _too_little(self, segment: np.ndarray) -> str:
        """Why an epoch with these rows has not one batch, and what to do."""
        data, (rows, length) = self._recipe.data, segment.shape
        if rows:
            tokens = int((segment != corpus.PADDING).sum())
            return (
                f"There is too little text for one update: {tokens:,} tokens in {data} fill "
                f"{rows} row{'' if rows == 1 else 's'} of {length} tokens, and an update takes "
                f"{self.rows}. Give --rows {rows}{' or fewer' if rows > 1 else ''}, a shorter "
                "--row-length, or more text."
            )
        if self._recipe.shares:
            return f"--shares leaves nothing of {data} to train on, and there are no --tasks."
        return f"No document in {data} can be trained on: all are empty, or held out, or refused."

    def _epoch(self, number: int) -> Epoch:
        for later in range(number, number + self._workers):
            if later not in self._ahead:
                self._ahead[later] = self._pool.submit(epoch_rows, self._recipe, later)
        made = self._ahead[number].result()
        self.example = made.contents.example
        return made


def epoch_rows(recipe: Recipe, number: int) -> Epoch:
    """One epoch's rows, shuffled, and its contents."""
    tokenizer = AutoTokenizer.from_pretrained(recipe.tokenizer)
    loaded = sources.load(recipe.data)
    shares, draw = dict(recipe.shares), random.Random(f"{recipe.seed} {number} shares")
    documents = (
        document
        for document in corpus.epoch(loaded, recipe.seed, number, "train", recipe.tasks)
        if draw.random() < shares.get(document.kind, 1.0)
    )
    contents = Contents()
    encoded = contents.counted(corpus.encoded_pairs(documents, tokenizer))
    if recipe.own is not None:
        own = own_text.load(recipe.own)
        contents.written = sum(sum(text.mask) for text in own)
        encoded = own_text.mixed(own, encoded, recipe.seed + number)
    rows = packed(encoded, tokenizer, recipe.row_length, [recipe.seed, number])
    return Epoch(rows, contents)


def packed(
    encoded: Iterator[Encoded], tokenizer: PreTrainedTokenizerBase, length: int, seed: Sequence[int]
) -> tuple[np.ndarray, ...]:
    """Documents as shuffled rows: ids, response mask, segment, each [rows, length]."""
    pad = tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
    rows = [
        (row.ids.numpy().astype(np.int32), row.mask.numpy(), row.segment.numpy())
        for row in corpus.pack(encoded, length, pad)
    ]
    if not rows:
        none = np.zeros((0, length))
        return none.astype(np.int32), none.astype(bool), none.astype(np.int64)
    order = np.random.default_rng(list(seed)).permutation(len(rows))
    return tuple(np.stack([rows[place][column] for place in order]) for column in range(3))


def as_batch(ids: np.ndarray, response: np.ndarray, segment: np.ndarray) -> Batch:
    """Tensors of a batch, with positions that start anew in each document."""
    segments = torch.from_numpy(segment).long()
    return Batch(
        torch.from_numpy(ids).long(),
        torch.from_numpy(response),
        segments,
        positions(segments),
        torch.arange(len(ids)),
    )


def positions(segment: Tensor) -> Tensor:
    """[B, T] place of each token in its document, from its segment numbers [B, T]."""
    places = torch.arange(segment.shape[1]).expand_as(segment)
    first = torch.ones_like(segment, dtype=torch.bool)
    first[:, 1:] = segment[:, 1:] != segment[:, :-1]
    return places - torch.where(first, places, 0).cummax(1).values


def same_document(segment: Tensor) -> Tensor:
    """[B, 1, T, T] bool: causal, within one document; padding sees itself, for want of anything."""
    count = segment.shape[1]
    same = segment[:, :, None] == segment[:, None, :]
    return (same & torch.ones(count, count, dtype=torch.bool, device=segment.device).tril())[
        :, None
    ]
