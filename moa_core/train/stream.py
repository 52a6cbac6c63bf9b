"""Chats from a data set that is read as training goes on, from the Hub or from a folder."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from moa_core.errors import UserError
from moa_core.train import corpus
from moa_core.train.batches import Batch, as_batch, packed
from moa_core.train.hub_data import Rows

BLOCK = 2_048  # documents read, packed and shuffled together
Block = tuple[tuple[np.ndarray, ...], dict[str, Any] | None]  # its rows; where the next one begins


class Stream:
    """Endless batches of packed chats; `place` is all that a checkpoint needs to go on the same.

    A data set is read from its start, block by block; rows are shuffled within a block, by seed,
    epoch and block. The next block is made while the model trains on this one. Rows of a block that
    make up no whole batch are left out.

    place  epoch, block, first row of the next batch, and where the data set's reader stood when
           the block began
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
        self.example: corpus.Document | None = None
        self._rows_of = rows_of
        self._reader = _Reader(rows_of, block)
        self._tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(tokenizer)
        self._seed, self._length = seed, row_length
        self._pool = ThreadPoolExecutor(1)
        self._ahead: dict[tuple[int, int], Future[Block]] = {}

    def about(self) -> str:
        known = self._rows_of.documents()
        count = "it does not tell how many documents" if known is None else f"{known:,} documents"
        return f"Training on {self._rows_of.name}, streamed as it is needed: {count}, 0 generated."

    def __iter__(self) -> Iterator[Batch]:
        given = any(self.place[1:3])  # whether this epoch gave a batch, or was begun elsewhere
        passed = 0  # tokens of its blocks so far, where it gave none
        while True:
            epoch, block, start, begun = self.place
            columns, after = self._asked(epoch, block, begun).result()
            following = (epoch, block + 1) if after else (epoch + 1, 0)
            self._asked(following[0], following[1], after)
            if start + self.rows > len(columns[0]):
                self._ahead.pop((epoch, block))
                given = given or start > 0
                passed += int((columns[2] != corpus.PADDING).sum())
                if not after and not given:
                    raise UserError(
                        f"{self._rows_of.name} has too little text for one update: {passed:,} "
                        f"tokens, and an update takes {self.rows} rows of {self._length} tokens. "
                        "Give fewer --rows or a shorter --row-length."
                    )
                given, passed = given and after is not None, passed if after else 0
                self.place = (*following, 0, after)
                continue
            self.place = (epoch, block, start + self.rows, begun)
            yield as_batch(*(column[start : start + self.rows] for column in columns))

    def close(self) -> None:
        """Stop the thread that makes blocks."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _asked(self, epoch: int, block: int, begun: dict[str, Any] | None) -> Future[Block]:
        if (epoch, block) not in self._ahead:
            self._ahead[epoch, block] = self._pool.submit(self._make, epoch, block, begun)
        return self._ahead[epoch, block]

    def _make(self, epoch: int, block: int, begun: dict[str, Any] | None) -> Block:
        documents, after = self._reader.read(begun)
        self.example = self.example or next(iter(documents), None)
        encoded = corpus.encode_many(documents, self._tokenizer)
        seed = [self._seed, epoch, block]
        return packed(encoded, self._tokenizer, self._length, seed), after


class _Reader:
    """Blocks of documents, in the data set's order; held-out rows are left out."""

    def __init__(self, rows: Rows, block: int) -> None:
        self._rows, self._block = rows, block
        self._stands: dict[str, Any] | None = None
        self._iterator: Iterator[Any] | None = None

    def read(self, begun: dict[str, Any] | None) -> tuple[list[corpus.Document], Any]:
        """A block, and where the next one begins; None at the end of the data set.

        begun  what was returned before, None for the start
        """
        if self._iterator is None or begun is None or begun != self._stands:
            self._iterator = self._rows.go_on(begun)
        found = list(islice(self._iterator, self._block))
        self._stands = self._rows.stands() if len(found) == self._block else None
        return [row.document for row in found if not row.held_out], self._stands
