"""Open texts as training documents: stories, books, fairy tales with questions, short sentences."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from moa_core.errors import UserError
from moa_core.loading.untrusted import parsed
from moa_core.train.bundle import prompts
from moa_core.train.bundle.prompts import chat
from moa_core.train.bundle.tasks import bucket
from moa_core.train.bundle.words import PHRASES
from moa_core.train.corpus import END_OF_DOCUMENT, Document, read_text

HELD_OUT_PERCENT = 2
LONGEST = 1_700  # characters, about 420 tokens: a row of 512 holds a whole document


@dataclass(frozen=True)
class Text:
    """A source: the documents of one split, and how one becomes training text."""

    kind: str
    pieces: Sequence[str] | Sequence[dict[str, str]]
    as_document: Callable[..., Document]


def load(folder: Path, held_out: bool) -> dict[str, Text]:
    """The sources that the folder has, by kind; each document is always in the same split.

    UserError if there is no such folder, or a file is damaged.
    """
    if not os.path.isdir(folder):
        raise UserError(f"There is no folder {folder}.")
    stories = (
        _stories(folder, name, held_out)
        for name in ("tinystories", "tinystories_more", "fables", "picture_books")
    )
    texts = [
        Text("story", [piece for found in stories for piece in found], _story),
        Text("book", _stories(folder, "simple_books", held_out), _book),
        Text("small talk", _documents(folder, "small_talk", held_out), _small_talk),
        Text("fairy tale questions", _questions(folder, held_out), _reading),
        Text("sentence", _sentences(folder, held_out), _sentence),
    ]
    return {text.kind: text for text in texts if text.pieces}


def _text(path: Path) -> str:
    """The text of a source, "" where the folder has none."""
    return read_text(path) if path.exists() else ""


def _documents(folder: Path, name: str, held_out: bool) -> list[str]:
    whole = _text(folder / f"{name}.txt.gz")
    documents = filter(None, map(str.strip, whole.split(END_OF_DOCUMENT)))
    return [document for document in documents if _is_held_out(document) == held_out]


def _stories(folder: Path, name: str, held_out: bool) -> list[str]:
    return [
        piece
        for document in _documents(folder, name, held_out)
        for piece in prompts.split_story(document.replace("’", "'"), LONGEST)
        if len(piece) > 150
    ]


def _questions(folder: Path, held_out: bool) -> list[dict[str, str]]:
    path = folder / "fairytale_qa.jsonl.gz"
    try:
        rows = [parsed(line) for line in _text(path).splitlines()]
        return [row for row in rows if _is_held_out(row["story"]) == held_out]
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UserError(f"{path} does not hold FairytaleQA's questions, a row a line.") from None


def _sentences(folder: Path, held_out: bool) -> list[dict[str, str]]:
    pairs = []
    for language, code in (("Spanish", "spa"), ("French", "fra")):
        path = folder / f"short_pairs_eng_{code}.tsv.gz"
        # One translation for each sentence: the first, so that there is one right answer.
        known: dict[str, str] = {}
        for line in _text(path).splitlines():
            english, tab, translated = line.partition("\t")
            if not tab:
                raise UserError(f"{path} does not hold sentences with their translations.")
            known.setdefault(english, translated.partition("\t")[0])
        pairs += [
            {"language": language, "sentence": english, "translated": translated}
            for english, translated in known.items()
            if _is_held_out(english) == held_out
        ]
    return pairs


def _story(piece: str, rng: random.Random) -> Document:
    return Document("story", prompts.story(piece, rng))


def _book(piece: str, rng: random.Random) -> Document:
    """Mostly plain text: books lend their language, not their manner of answering."""
    if rng.random() < 0.25:
        return Document("book", prompts.continued(piece, rng))
    return Document("book", text=piece)


def _small_talk(talk: str, rng: random.Random) -> Document:
    """Plain text, since its speakers claim lives that a model has not lived."""
    lines = talk.splitlines()
    names = rng.sample(("Ana", "Ben", "Cora", "Dan", "Eli", "Fay", "Gus", "Hana"), 2)
    for role, name in zip(("User: ", "Assistant: "), names, strict=True):
        lines = [line.replace(role, f"{name}: ", 1) for line in lines]
    start = rng.randrange(max(1, len(lines) - 12))
    return Document("small talk", text="\n".join(lines[start : start + rng.randint(8, 16)]))


def _reading(row: dict[str, str], rng: random.Random) -> Document:
    return Document("fairy tale questions", prompts.reading(row, rng))


def _sentence(pair: dict[str, str], rng: random.Random) -> Document:
    return Document(
        "sentence", chat(rng.choice(PHRASES["sentence"]).format(**pair), pair["translated"])
    )


def _is_held_out(key: str) -> bool:
    return bucket(key) < HELD_OUT_PERCENT


def passes(text: Text, rng: random.Random) -> Iterator[Document]:
    """Endless documents of a source, each pass in a new order and newly phrased."""
    while True:
        for piece in rng.sample(text.pieces, len(text.pieces)):
            yield text.as_document(piece, rng)
