"""Documents as token ids and as packed rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache, partial
from itertools import islice
from typing import NamedTuple

import numpy as np
from transformers import PreTrainedTokenizerBase

from moa_core.errors import UserError
from moa_core.text import clean, template_parts
from moa_core.train.corpus import Document

PADDING = -1  # the segment of padding
_BATCH = 4_096  # documents encoded at a time
_WAITING = 512  # documents to choose from when a row is filled
_MAX_PADDING = 0.02  # of a row, before a document is cut to fill it
Columns = tuple[np.ndarray, ...]  # ids, response mask and segment of rows, each [rows, length]
_Template = list[tuple[list[int], int | None]]


class Encoded(NamedTuple):
    """A document's token ids, and a mask of the assistant's."""

    ids: list[int]
    mask: list[bool]


def encode_many(
    documents: Iterable[Document], tokenizer: PreTrainedTokenizerBase
) -> Iterator[Encoded]:
    """The ids and masks of documents, as `apply_chat_template` gives them but in fast batches.

    The mask is True on the assistant's tokens, including the end of its turn, and on all of a plain
    text. As in `text.chat_ids`, contents are encoded apart from the template, so that a special
    token's name in a text stays text. Chats that the template refuses are left out; UserError if it
    refuses a whole batch.
    """
    template_of = cache(partial(_template, tokenizer))
    accepted = False
    remaining = iter(documents)
    while batch := list(islice(remaining, _BATCH)):
        texts = [clean(content) for document in batch for content in document.contents]
        contents = iter(
            tokenizer(
                texts, add_special_tokens=False, split_special_tokens=True,
                return_attention_mask=False,
            )["input_ids"]
        )  # fmt: skip
        refused = ""
        for document in batch:
            pieces = list(islice(contents, len(document.contents)))
            if document.messages is None or not tokenizer.chat_template:
                yield _plain(pieces, tokenizer)
                continue
            roles = tuple(message["role"] for message in document.messages)
            template = template_of(roles)
            if isinstance(template, str):
                refused = template
            else:
                accepted = True
                yield _filled(roles, pieces, template, tokenizer)
        if refused and len(batch) > 1 and not accepted:
            raise UserError(refused)


def _plain(pieces: list[list[int]], tokenizer: PreTrainedTokenizerBase) -> Encoded:
    line_break = tokenizer("\n", add_special_tokens=False)["input_ids"]
    ids = [*tokenizer("")["input_ids"], *pieces[0]]  # first what it puts before every text
    for piece in pieces[1:]:
        ids += [*line_break, *piece]
    ids.append(tokenizer.eos_token_id)
    return Encoded(ids, [True] * len(ids))


def _template(tokenizer: PreTrainedTokenizerBase, roles: tuple[str, ...]) -> _Template | str:
    """The template's own tokens, each part with the message after it; or its refusal."""
    try:
        parts = template_parts(tokenizer, roles, prompt=False)
    except UserError as error:
        return str(error)
    return [(tokenizer(text, add_special_tokens=False)["input_ids"], at) for text, at in parts]


def _filled(
    roles: tuple[str, ...],
    pieces: list[list[int]],
    template: _Template,
    tokenizer: PreTrainedTokenizerBase,
) -> Encoded:
    ids: list[int] = []
    mask: list[bool] = []
    special, replied = set(tokenizer.all_special_ids), False
    for between, place in template:
        # The assistant also writes the token that ends its turn, at most one token behind the reply
        # (after a line break, say).
        ends = [n for n, token in enumerate(between[:2], 1) if token in special and replied]
        ids += between
        mask += [n < (ends[0] if ends else 0) for n in range(len(between))]
        if place is not None:
            replied = roles[place] == "assistant"
            ids += pieces[place]
            mask += [replied] * len(pieces[place])
    return Encoded(ids, mask)


class Row(NamedTuple):
    """A packed row: ids, the response mask, and the number of each token's document."""

    ids: np.ndarray
    mask: np.ndarray
    segment: np.ndarray


def packed(
    encoded: Iterator[Encoded], tokenizer: PreTrainedTokenizerBase, length: int, seed: Sequence[int]
) -> Columns:
    """Documents as shuffled rows of `length` tokens."""
    pad = tokenizer.eos_token_id if tokenizer.pad_token_id is None else tokenizer.pad_token_id
    rows = list(pack(encoded, length, pad))
    order = np.random.default_rng(list(seed)).permutation(len(rows))
    kinds = (np.int32, bool, np.int64)
    columns = zip(*rows, strict=True) if rows else ((),) * 3
    return tuple(
        np.array(column, kind).reshape(-1, length)[order]
        for column, kind in zip(columns, kinds, strict=True)
    )


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
