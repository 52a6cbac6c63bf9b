"""Chats from raw text: stories and questions, asked for in many ways."""

import math
import random
import re
from typing import Any, TypedDict

from moa_core.train.bundle.words import PHRASES

MAX_PASSAGE = 2_500
_OPENING = range(20, 400)  # characters
_SENTENCE = re.compile(r".+?(?:[.!?]+[\"'”’)]*(?=\s)\s+|\n+|$)", re.DOTALL)


class Message(TypedDict):
    role: str
    content: str


Chat = tuple[Message, ...]


def chat(*turns: str) -> Chat:
    """A chat from its turns, the user's first."""
    roles = ("user", "assistant")
    return tuple(Message(role=roles[i % 2], content=turn) for i, turn in enumerate(turns))


def split_story(text: str, limit: int) -> list[str]:
    """A text in pieces of about equal size of at most `limit`, cut at a line or sentence end."""
    if len(text) <= limit:
        return [text]
    share = len(text) / math.ceil(len(text) / (0.9 * limit))
    pieces, position = [""], 0
    for line in text.splitlines(keepends=True):
        for part in [line] if len(line) <= share / 4 else _SENTENCE.findall(line):
            due = position + len(part) / 2 > share * len(pieces)
            if pieces[-1] and (due or len(pieces[-1]) + len(part) > limit):
                pieces.append("")
            pieces[-1] += part[:limit]
            position += len(part)
    return [piece.strip() for piece in pieces if piece.strip()]


def story(text: str, rng: random.Random) -> Chat:
    """Ask for a whole story: by its title or its opening."""
    title, body = _title_and_body(text)
    if title and rng.random() < 0.4:
        return chat(rng.choice(PHRASES["titled"]).format(f'"{title}"'), body)
    return continued(body, rng, rng.random() < 0.5)


def continued(text: str, rng: random.Random, whole: bool = False) -> Chat:
    """Ask to continue the text from its opening. A `whole` reply repeats the opening first."""
    cut = _opening_end(text, rng)
    if not cut:
        return chat(rng.choice(PHRASES["story"]), text)
    opening = text[:cut].strip()
    if whole:
        return chat(rng.choice(PHRASES["begins"]).format(opening), text)
    return chat(rng.choice(PHRASES["continued"]).format(opening), text[cut:].strip())


def reading(row: dict[str, Any], rng: random.Random) -> Chat:
    """A question about a passage, answered in a short sentence."""
    question, answer = row["question"].strip(), row["answer"].strip()
    passage = _passage(row["context"].strip(), f"{question} {answer}")
    asked = rng.choice(PHRASES["reading"])
    return chat(asked.format(passage=passage, question=question), _as_sentence(answer))


def _title_and_body(text: str) -> tuple[str, str]:
    first, gap, rest = text.partition("\n\n")
    is_title = gap and len(first) < 80 and "\n" not in first and first[-1] not in ".!?:;,\"'”’"
    return (first, rest.strip()) if is_title else ("", text)


def _opening_end(text: str, rng: random.Random) -> int:
    """The end of an opening of one to three sentences; 0 if too little text would be left."""
    ends, position = [], 0
    for sentence in _SENTENCE.finditer(text, 0, _OPENING.stop + MAX_PASSAGE):
        position = sentence.end()
        if position >= _OPENING.stop or position > len(text) * 0.6:
            break
        # An even number of quotes: no speech is cut.
        if position >= _OPENING.start and text.count('"', 0, position) % 2 == 0:
            ends.append(position)
    return rng.choice(ends[:3]) if ends else 0


def _passage(text: str, about: str) -> str:
    """The whole text, or the piece of it that shares most words with `about`."""
    wanted = set(re.findall(r"\w+", about.lower()))
    pieces = split_story(text, MAX_PASSAGE)
    return max(pieces, key=lambda piece: len(wanted & set(re.findall(r"\w+", piece.lower()))))


def _as_sentence(answer: str) -> str:
    text = answer[:1].upper() + answer[1:]
    return text if text.endswith((".", "!", "?", '"', "'", "”", "’")) else f"{text.rstrip(',;:')}."
