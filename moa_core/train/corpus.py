"""Training text as chat documents, epoch by epoch, and as rows of tokens of a fixed length."""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal, NamedTuple, cast

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import Tensor
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from moa_core.errors import UserError
from moa_core.text import clean, template_parts
from moa_core.train.bundle import prompts
from moa_core.train.bundle.prompts import Chat
from moa_core.train.bundle.tasks import KINDS, generate
from moa_core.train.sources import Record
from moa_core.train.tokenizer import BOS, END, ROLE_TOKENS

PADDING = -1  # the segment of padding
_HALVED = "childrens_classics"  # long: every epoch takes the other half of it
_BATCH = 4_096
_WAITING = 512  # documents to choose among when a row is filled
_MAX_PADDING = 0.02  # of a row, before a document is cut to fill it

Split = Literal["train", "heldout"]
_Cut = list[tuple[list[int], int | None]]  # a template's own tokens, and the message after them


@dataclass(frozen=True)
class Document:
    """One training example: a chat, or plain text; generated, or somebody's."""

    kind: str
    messages: Chat | None = None
    text: str | None = None
    generated: bool = False


class Encoded(NamedTuple):
    """A document's token ids, and which of them the assistant writes."""

    ids: list[int]
    mask: list[bool]


class Row(NamedTuple):
    """A packed row: ids, the mask of what to learn, and the document each token is from."""

    ids: Tensor
    mask: Tensor
    segment: Tensor


class _Part(NamedTuple):
    """A document, or what is left of it, waiting for a place."""

    segment: int
    ids: np.ndarray  # a view is left of a long document, not a copy
    mask: np.ndarray


def epoch(
    sources: dict[str, list[Record]],
    seed: int,
    epoch: int,
    split: Split = "train",
    tasks_per_epoch: int = 0,
) -> Iterator[Document]:
    """The split's documents and tasks of all kinds, shuffled and newly phrased every epoch."""
    rng = random.Random(f"{seed} {epoch} {split}")
    plan: list[Record | str] = [
        record
        for name, records in sources.items()
        for record in (records[epoch % 2 :: 2] if name == _HALVED else records)
        if record.split == split
    ]
    plan.extend(KINDS[i % len(KINDS)] for i in range(tasks_per_epoch))
    rng.shuffle(plan)
    for item in plan:
        if isinstance(item, Record):
            document = _document(item, rng)
            if all(_contents(document)):  # a few dialogues have a turn with nothing in it
                yield document
        else:
            task = generate(item, rng, held_out=split == "heldout")
            yield Document(task.kind, prompts.chat(task.prompt, task.answer), generated=True)


def _document(record: Record, rng: random.Random) -> Document:
    value = record.value
    match record.kind:
        case "story":
            return Document("story", prompts.story(value, rng))
        case "continued":
            return Document("story", prompts.continued(value, rng))
        case "dialogue":
            return Document("dialogue", prompts.dialogue(value))
        case "reading":
            return Document("reading", prompts.reading(value, rng))
        case "sum":
            return Document("sum", prompts.worked_sum(value))
        case "chat":
            return Document("chat", value)
    return Document("plain", text=value)


def encode(document: Document, tokenizer: PreTrainedTokenizerBase) -> Encoded:
    """One document's ids and mask; see `encode_many`."""
    return next(encode_many([document], tokenizer))


def encode_many(
    documents: Iterable[Document], tokenizer: PreTrainedTokenizerBase
) -> Iterator[Encoded]:
    """The ids and masks of documents, as `apply_chat_template` gives them but in fast batches.

    The mask is True on what the assistant writes, its end-of-turn token included, and on all of a
    plain text. Only the template's own tokens are special: contents are encoded apart from them,
    with special tokens off, so that a `<|end|>` written out in a text stays text, whereas
    `apply_chat_template` would read it as the end of the turn. Tokenizers that are not ours go
    through their own template, which may refuse a chat.
    """
    return (encoded for _, encoded in encoded_pairs(documents, tokenizer))


def encoded_pairs(
    documents: Iterable[Document], tokenizer: PreTrainedTokenizerBase
) -> Iterator[tuple[Document, Encoded]]:
    """What `encode_many` gives, each with its document."""
    remaining = iter(documents)
    if tokenizer.convert_tokens_to_ids(BOS) in (None, tokenizer.unk_token_id):
        while batch := list(islice(remaining, _BATCH)):
            yield from _templated(batch, tokenizer)
        return
    # A copy, because the setting would change the caller's tokenizer.
    ours = cast(PreTrainedTokenizerFast, tokenizer)
    backend = Tokenizer.from_str(ours.backend_tokenizer.to_str())
    backend.encode_special_tokens = True
    names = (BOS, END, *ROLE_TOKENS.values())
    special = {token: cast(int, ours.convert_tokens_to_ids(token)) for token in names}
    while batch := list(islice(remaining, _BATCH)):
        contents = [content for document in batch for content in _contents(document)]
        encodings = backend.encode_batch_fast(contents, add_special_tokens=False)
        pieces = (encoding.ids for encoding in encodings)
        for document in batch:
            yield document, _joined(document, pieces, special)


def _templated(
    documents: list[Document], tokenizer: PreTrainedTokenizerBase
) -> Iterator[tuple[Document, Encoded]]:
    """Documents through a foreign chat template, which is cut where contents go.

    As in `text.chat_ids`, contents are encoded apart: a drafter is trained on the very tokens it
    will meet, and a `<|im_end|>` written out in a text stays text. Chats that the template refuses
    are left out; UserError if it refuses a whole batch of them.
    """
    cut: dict[tuple[str, ...], _Cut | str] = {}
    refused = None
    for document in documents:
        if document.messages is None or not tokenizer.chat_template:
            text = document.text or "\n".join(_contents(document))
            ids = [*tokenizer(text)["input_ids"], tokenizer.eos_token_id]
            yield document, Encoded(ids, [True] * len(ids))
            continue
        roles = tuple(message["role"] for message in document.messages)
        if roles not in cut:
            cut[roles] = _cut(tokenizer, roles)
        if isinstance(parts := cut[roles], str):
            refused = parts
        else:
            yield document, _filled(document, parts, tokenizer)
    if refused and len(documents) > 1 and all(isinstance(parts, str) for parts in cut.values()):
        raise UserError(refused)


def _cut(tokenizer: PreTrainedTokenizerBase, roles: tuple[str, ...]) -> _Cut | str:
    """A template's own tokens, and after each part the message that follows; or why it refuses."""
    try:
        parts = template_parts(tokenizer, roles, prompt=False)
    except UserError as error:
        return str(error)
    return [(tokenizer(text, add_special_tokens=False)["input_ids"], at) for text, at in parts]


def _filled(document: Document, parts: _Cut, tokenizer: PreTrainedTokenizerBase) -> Encoded:
    assert document.messages is not None
    texts = [clean(content) for content in _contents(document)]
    said = tokenizer(texts, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    ids: list[int] = []
    mask: list[bool] = []
    special, replied = set(tokenizer.all_special_ids), False
    for between, place in parts:
        # The assistant writes the token that ends its turn, and nothing behind it.
        ends = [n for n, token in enumerate(between[:2], 1) if token in special and replied][:1]
        ids += between
        mask += [n < (ends[0] if ends else 0) for n in range(len(between))]
        if place is not None:
            replied = document.messages[place]["role"] == "assistant"
            ids += said[place]
            mask += [replied] * len(said[place])
    return Encoded(ids, mask)


def _contents(document: Document) -> list[str]:
    if document.messages is None:
        return [document.text or ""]
    return [message["content"] for message in document.messages]


def _joined(document: Document, pieces: Iterator[list[int]], special: dict[str, int]) -> Encoded:
    """The next pieces between the tokens of the template."""
    ids = [special[BOS]]
    if document.messages is None:
        ids += [*next(pieces), special[END]]
        return Encoded(ids, [True] * len(ids))
    mask = [False]
    for message in document.messages:
        turn = [*next(pieces), special[END]]
        ids += [special[ROLE_TOKENS[message["role"]]], *turn]
        mask += [False, *[message["role"] == "assistant"] * len(turn)]
    return Encoded(ids, mask)


def pack(
    encoded: Iterable[tuple[list[int], list[bool]]], length: int, pad_id: int
) -> Iterator[Row]:
    """Rows of `length` tokens: whole documents where they fit, longer ones cut across rows.

    `segment` numbers the documents in the order given, so that both parts of a cut one share a
    number; padding has `pad_id`, mask False and segment `PADDING`. A document's first token is
    marked as given: the trainer has to leave out targets that another segment would predict.
    """
    if length < 1:
        raise ValueError("A row needs a length of at least 1.")
    arriving = (
        _Part(number, np.array(ids, np.int64), np.array(mask, bool))
        for number, (ids, mask) in enumerate(encoded)
    )
    waiting: list[_Part] = []
    while True:
        waiting.extend(islice(arriving, _WAITING - len(waiting)))
        if not waiting:
            return
        yield _row(_take_row(waiting, length), length, pad_id)


def _take_row(waiting: list[_Part], length: int) -> list[_Part]:
    """Take from `waiting` what fills a row; the rest of a document that is cut stays first."""
    row, room = [], length
    while waiting and room:
        index = _choice(waiting, room, length)
        if index is None:
            break
        segment, ids, mask = waiting.pop(index)
        row.append(_Part(segment, ids[:room], mask[:room]))
        if len(ids) > room:
            waiting.insert(0, _Part(segment, ids[room:], mask[room:]))
        room -= len(row[-1].ids)
    return row


def _choice(waiting: list[_Part], room: int, length: int) -> int | None:
    """Which document goes next: the oldest, else the longest that fits, else one to cut."""
    oldest = len(waiting[0].ids)
    worth_filling = room > length * _MAX_PADDING
    if oldest <= room or (oldest > length and worth_filling):
        return 0
    fitting = [index for index, part in enumerate(waiting) if len(part.ids) <= room]
    if fitting:
        return max(fitting, key=lambda index: len(waiting[index].ids))
    return 0 if worth_filling else None


def _row(parts: list[_Part], length: int, pad_id: int) -> Row:
    ids = torch.full((length,), pad_id, dtype=torch.long)
    mask = torch.zeros(length, dtype=torch.bool)
    segment = torch.full((length,), PADDING, dtype=torch.long)
    start = 0
    for part in parts:
        end = start + len(part.ids)
        ids[start:end] = torch.from_numpy(part.ids)
        mask[start:end] = torch.from_numpy(part.mask)
        segment[start:end] = part.segment
        start = end
    return Row(ids, mask, segment)
