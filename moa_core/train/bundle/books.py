"""Open texts as training text: stories, books, fairy tales with questions, short sentences."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from moa_core.errors import UserError
from moa_core.loading.untrusted import parsed
from moa_core.train.bundle import prompts, world
from moa_core.train.bundle.prompts import Chat, chat
from moa_core.train.bundle.tasks import bucket
from moa_core.train.bundle.words import PHRASES
from moa_core.train.corpus import END_OF_DOCUMENT, HELD_OUT_PERCENT, read_text

LONGEST = 1_700  # characters, about 420 tokens: a row of 512 holds a whole document
STORIES = ("tinystories", "tinystories_more", "fables", "picture_books")
LANGUAGES = {"Spanish": "spa", "French": "fra"}
# One or two sentences without speech.
_FIRST = re.compile(r'[A-Z][^"\n.!?]{15,150}\.(?: [A-Z][^"\n.!?]{10,90}\.)?(?=\s)')
SPEAKERS = ("Ana", "Ben", "Cora", "Dan", "Eli", "Fay", "Gus", "Hana")


def load(folder: Path, held_out: bool, rng: random.Random) -> dict[str, Iterator[Chat | str]]:
    """Endless training text by kind, from the sources in the folder.

    UserError for no folder or a damaged file.
    """
    if not os.path.isdir(folder):
        raise UserError(f"There is no folder {folder}.")
    stories = [piece for name in STORIES for piece in _stories(folder, name, held_out)]
    sentences = _sentences(folder, held_out)
    texts: dict[str, tuple[list[Any], Callable[[Any, random.Random], Chat | str]]] = {
        "story": (stories, prompts.story),
        "book": (_stories(folder, "simple_books", held_out), _book),
        "small talk": (_documents(folder, "small_talk", held_out), _small_talk),
        "fairy tale questions": (_questions(folder, held_out), prompts.reading),
        "sentence": (sentences, _sentence),
        "opening": (_openings(stories, sentences), world.opened),
    }

    def passes(kind: str) -> Iterator[Chat | str]:
        """Each pass has a new order and new phrasing."""
        pieces, made = texts[kind]
        while True:
            for piece in rng.sample(pieces, len(pieces)):
                yield made(piece, rng)

    return {kind: passes(kind) for kind, (pieces, _) in texts.items() if pieces}


def _text(path: Path) -> str:
    return read_text(path) if path.exists() else ""


def _is_held_out(key: str) -> bool:
    return bucket(key) < HELD_OUT_PERCENT


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
    for language, code in LANGUAGES.items():
        path = folder / f"short_pairs_eng_{code}.tsv.gz"
        first: dict[str, str] = {}  # of several translations, the first is the right answer
        for line in _text(path).splitlines():
            english, tab, translated = line.partition("\t")
            if not tab:
                raise UserError(f"{path} does not hold sentences with their translations.")
            first.setdefault(english, translated.partition("\t")[0])
        pairs += [
            {"language": language, "sentence": english, "translated": translated}
            for english, translated in first.items()
            if _is_held_out(english) == held_out
        ]
    return pairs


def _openings(stories: list[str], pairs: list[dict[str, str]]) -> list[str]:
    """First sentences of stories, and some single sentences: what a visitor might begin with."""
    single = [pair["sentence"] for pair in pairs]
    longer = [
        text for text in single
        if re.fullmatch(r"[A-Z][^?!]+\.", text) and len(text.split()) > 4
    ]  # fmt: skip
    first = [found[0] for text in stories if (found := _FIRST.match(text))]
    return first + longer[: len(first) // 4]


def _book(piece: str, rng: random.Random) -> Chat | str:
    """Mostly plain text: books teach language, not how to answer."""
    return prompts.continued(piece, rng) if rng.random() < 0.25 else piece


def _small_talk(talk: str, rng: random.Random) -> str:
    """Plain text, because a model has not lived the lives that the speakers claim."""
    lines = talk.splitlines()
    for role, name in zip(("User: ", "Assistant: "), rng.sample(SPEAKERS, 2), strict=True):
        lines = [line.replace(role, f"{name}: ", 1) for line in lines]
    start = rng.randrange(max(1, len(lines) - 12))
    return "\n".join(lines[start : start + rng.randint(8, 16)])


def _sentence(pair: dict[str, str], rng: random.Random) -> Chat:
    return chat(rng.choice(PHRASES["sentence"]).format(**pair), pair["translated"])
