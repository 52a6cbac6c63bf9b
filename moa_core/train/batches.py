"""Rows of packed documents, batch by batch: from a folder or a stream, and resumable."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from moa_core.errors import UserError
from moa_core.train import corpus, own_text
from moa_core.train.corpus import Document, Rows
from moa_core.train.tokenizer import PADDING, Columns, Encoded, encode_many, encoded_pairs, packed
from moa_core.train.workers import Workers

BLOCK = 2_048  # documents of a stream that are read, packed and shuffled together


class Batch(NamedTuple):
    """Rows of packed documents.

    ids        [B, T]
    response   [B, T] bool: what the assistant writes
    segment    [B, T] number of the document, PADDING for padding
    positions  [B, T] counted from the start of each document
    rows       [B] place of each row in the whole update's batch. Random draws are made by it, so
               that the result does not depend on how processes share out the rows
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
        ids, response, segment, positions = map(change, self[:4])
        return Batch(
            ids, response, segment, positions, None if self.rows is None else change(self.rows)
        )

    def numbers(self) -> list[int]:
        """`rows`; without them this batch is the whole one."""
        return list(range(len(self.ids))) if self.rows is None else self.rows.tolist()


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
    """[B, 1, T, T] bool: causal, within one document; padding sees padding."""
    count = segment.shape[1]
    same = segment[:, :, None] == segment[:, None, :]
    causal = torch.ones(count, count, dtype=torch.bool, device=segment.device).tril()
    return (same & causal)[:, None]


class Source(Protocol):
    """Endless batches of `rows`, the same in every process; `place` says where to go on.

    example  a document that is trained on, once one was read
    """

    rows: int
    place: tuple[Any, ...]
    example: Document | None

    def about(self) -> str:
        """What is trained on, in a sentence for the user."""
        ...

    def __iter__(self) -> Iterator[Batch]: ...

    def close(self) -> None: ...


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
    """Shuffled rows, and what they were made of."""

    rows: Columns
    contents: Contents


def epoch_rows(recipe: Recipe, number: int) -> Epoch:
    """One epoch's rows, shuffled, and its contents."""
    tokenizer = AutoTokenizer.from_pretrained(recipe.tokenizer)
    loaded = corpus.load(recipe.data)
    shares, draw = dict(recipe.shares), random.Random(f"{recipe.seed} {number} shares")
    documents = (
        document
        for document in corpus.epoch(loaded, recipe.seed, number, "train", recipe.tasks)
        if draw.random() < shares.get(document.kind, 1.0)
    )
    contents = Contents()
    encoded = contents.counted(encoded_pairs(documents, tokenizer))
    if recipe.own is not None:
        own = own_text.load(recipe.own)
        contents.written = sum(sum(text.mask) for text in own)
        encoded = own_text.mixed(own, encoded, recipe.seed + number)
    rows = packed(encoded, tokenizer, recipe.row_length, [recipe.seed, number])
    return Epoch(rows, contents)


class Batches:
    """Endless batches of a folder's text, epoch by epoch.

    Every process makes all rows and trains on its own share: it then knows, without asking, how
    much the others have.

    place  epoch, first row of the next batch
    """

    def __init__(self, recipe: Recipe, rows: int, workers: int = 2):
        self.place: tuple[Any, ...] = (0, 0)
        self.example: Document | None = None
        self._recipe, self.rows = recipe, rows
        self._pool = Workers(workers)
        self._ahead: dict[int, Future[Epoch]] = {}
        self._workers = workers

    def about(self) -> str:
        return f"Training on {self._epoch(self.place[0]).contents}"

    def __iter__(self) -> Iterator[Batch]:
        before = True  # whether the last epoch had a batch: one may miss it by chance, two may not
        while True:
            epoch, start = self.place
            columns = self._epoch(epoch).rows
            if start + self.rows > len(columns[0]):
                if not start and not before:
                    raise UserError(self._too_little(columns[2]))
                before = start > 0
                self._ahead.pop(epoch)
                self.place = (epoch + 1, 0)
                continue
            before = True
            self.place = (epoch, start + self.rows)
            yield as_batch(*(column[start : start + self.rows] for column in columns))

    def close(self) -> None:
        """Stop the processes that prepare epochs."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _too_little(self, segment: np.ndarray) -> str:
        """Why an epoch with these rows has no batch, and what to do."""
        data, (rows, length) = self._recipe.data, segment.shape
        if rows:
            tokens = int((segment != PADDING).sum())
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


class Stream:
    """Endless batches of a data set that is read from its start, block by block.

    Rows are shuffled within a block, by seed, epoch and block; those that make up no whole batch
    are left out. The next block is made while the model trains on this one.

    place  epoch, block, first row of the next batch, and the reader's state at the block's start
    """

    def __init__(
        self,
        rows_of: Rows,
        tokenizer: Path,
        seed: int,
        rows: int,
        row_length: int,
        block: int = BLOCK,
    ) -> None:
        self.place: tuple[Any, ...] = (0, 0, 0, None)
        self.rows = rows
        self.example: Document | None = None
        self._rows_of, self._block = rows_of, block
        self._tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(tokenizer)
        self._seed, self._length = seed, row_length
        self._reader: Iterator[Any] = iter(())
        self._state: dict[str, Any] | None = None  # the reader's, None: it has to begin anew
        self._pool = ThreadPoolExecutor(1)
        self._ahead: dict[tuple[int, int], Future[tuple[Columns, Any]]] = {}

    def about(self) -> str:
        known = self._rows_of.documents()
        count = "it does not tell how many documents" if known is None else f"{known:,} documents"
        return f"Training on {self._rows_of.name}, streamed as it is needed: {count}, 0 generated."

    def __iter__(self) -> Iterator[Batch]:
        given = any(self.place[1:3])  # whether this epoch gave a batch, or was begun earlier
        passed = 0  # tokens of its blocks so far, where it gave none
        while True:
            epoch, block, start, state = self.place
            columns, after = self._asked(epoch, block, state).result()
            following = (epoch, block + 1) if after else (epoch + 1, 0)
            self._asked(following[0], following[1], after)
            if start + self.rows <= len(columns[0]):
                self.place = (epoch, block, start + self.rows, state)
                yield as_batch(*(column[start : start + self.rows] for column in columns))
                continue
            self._ahead.pop((epoch, block))
            given = given or start > 0
            passed += int((columns[2] != PADDING).sum())
            if not after and not given:
                raise UserError(
                    f"{self._rows_of.name} has too little text for one update: {passed:,} "
                    f"tokens, and an update takes {self.rows} rows of {self._length} tokens. "
                    "Give fewer --rows or a shorter --row-length."
                )
            given, passed = given and after is not None, passed if after else 0
            self.place = (*following, 0, after)

    def close(self) -> None:
        """Stop the thread that makes blocks."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _asked(self, epoch: int, block: int, state: Any) -> Future[tuple[Columns, Any]]:
        if (epoch, block) not in self._ahead:
            self._ahead[epoch, block] = self._pool.submit(self._make, epoch, block, state)
        return self._ahead[epoch, block]

    def _make(self, epoch: int, block: int, state: Any) -> tuple[Columns, Any]:
        """A block's rows, and the reader's state behind it; None at the end of the data set."""
        if state is None or state != self._state:
            self._reader = self._rows_of.read_from(state)
        found = list(islice(self._reader, self._block))
        self._state = self._rows_of.state() if len(found) == self._block else None
        documents = [row.document for row in found if not row.held_out]
        self.example = self.example or next(iter(documents), None)
        encoded = encode_many(documents, self._tokenizer)
        seed = [self._seed, epoch, block]
        return packed(encoded, self._tokenizer, self._length, seed), self._state
