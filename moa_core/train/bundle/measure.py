"""What the bundled target can do, as JSON: python -m moa_core.train.bundle.measure --target NAME"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any

from moa_core.arguments import path
from moa_core.assets import ASSETS
from moa_core.errors import UserError, ended
from moa_core.loading.load import load_target
from moa_core.model.target import Target
from moa_core.text import prompt_ids, tokenizer_of
from moa_core.train.bundle import books, manners, tasks, world
from moa_core.train.bundle.__main__ import check_kinds, held_out_texts, world_chat
from moa_core.train.bundle.prompts import Chat
from moa_core.train.bundle.words import LITTLE
from moa_core.train.corpus import Document
from moa_core.train.measure import reply_loss, task_accuracy
from moa_core.train.own_text import answers
from moa_core.train.tokenizer import encode_many

VISITORS = ASSETS / "suites" / "visitors.jsonl"
FAIRY_TALES, SENTENCES = "fairy tale questions", "sentence"  # kinds of text
ROWS = 25  # prompts answered at a time
GRAM = 8  # words


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", help="bundled name, folder or Hub id")
    parser.add_argument("--texts", type=path, required=True, help="folder of open texts")
    parser.add_argument("--each", type=int, default=100, help="prompts of each kind")
    options = parser.parse_args()
    if options.each < 1:
        raise UserError("--each must be at least 1.")
    check_kinds((FAIRY_TALES, SENTENCES), books.load(options.texts, held_out=True))
    target = load_target(options.target, "float32", "auto")
    report = {part: measured(target, options) for part, measured in PARTS.items()}
    print(json.dumps(report, indent=1, ensure_ascii=False))


def _texts(target: Target, prompts: list[str], longest: int) -> list[str]:
    return [text for text, _ in _replies(target, prompts, longest)]


def _replies(target: Target, prompts: list[str], longest: int) -> list[tuple[str, bool]]:
    """Greedy replies, and whether each ended by itself."""
    tokenizer = tokenizer_of(target)
    ids = [prompt_ids(tokenizer, prompt) for prompt in prompts]
    order = sorted(range(len(ids)), key=lambda place: len(ids[place]))  # for little padding
    found: dict[int, tuple[str, bool]] = {}
    for start in range(0, len(order), ROWS):
        places = order[start : start + ROWS]
        replies = answers(target, [ids[place] for place in places], longest)
        for place, reply in zip(places, replies, strict=True):
            text = str(tokenizer.decode(reply, skip_special_tokens=True))
            found[place] = text, reply[-1] in target.eos_ids
    return [found[place] for place in range(len(ids))]


def tasks_right(target: Target, options: argparse.Namespace) -> dict[str, float]:
    """Share of held-out tasks answered right, by kind and over all."""
    return {kind: round(share, 4) for kind, share in task_accuracy(target, options.each).items()}


def words_used(target: Target, options: argparse.Namespace) -> dict[str, float]:
    """Share of stories with three given words that use all three."""
    rng = random.Random("words to use")
    wanted = [_three(rng) for _ in range(options.each)]
    prompts = ["Write a story with the words: {}, {} and {}.".format(*words) for words in wanted]
    used = (
        all(re.search(rf"\b{re.escape(word)}", text, re.IGNORECASE) for word in words)
        for words, text in zip(wanted, _texts(target, prompts, 400), strict=True)
    )
    return {"all three": _share(used)}


def _three(rng: random.Random) -> tuple[str, ...]:
    while True:
        words = world.words_for(rng)
        if len(words) == 3 and tasks.is_held_out(" ".join(words)):
            return words


def passages(target: Target, options: argparse.Namespace) -> dict[str, Any]:
    """Share of questions about a generated passage answered right."""
    rng = random.Random("passages")
    return _answered(target, [world_chat("reading", rng, True) for _ in range(2 * options.each)])


def _answered(target: Target, chats: list[Chat]) -> dict[str, Any]:
    texts = _texts(target, [chat[0]["content"] for chat in chats], 60)
    right = [_agrees(text, c[1]["content"]) for text, c in zip(texts, chats, strict=True)]
    return {"right": _share(right), "of": len(chats)}


def _agrees(reply: str, answer: str) -> bool:
    """Whether the reply has the words that carry the answer, in any order, and few others."""
    said, wanted = (set(re.findall(r"[a-z0-9']+", t.lower())) - LITTLE for t in (reply, answer))
    return wanted <= said and len(said - wanted) <= max(2, len(wanted) // 2)


def _chats(options: argparse.Namespace, kind: str) -> list[Chat]:
    """Held-out chats of the open texts."""
    text, rng = books.load(options.texts, True)[kind], random.Random(0)
    pieces = rng.sample(text.pieces, min(options.each, len(text.pieces)))
    made = (text.made(piece, rng) for piece in pieces)
    return [chat for chat in made if not isinstance(chat, str)]


def fairy_tales(target: Target, options: argparse.Namespace) -> dict[str, Any]:
    """Share of FairytaleQA's held-out questions whose answer's words are all in the reply."""
    return _answered(target, _chats(options, FAIRY_TALES))


def sentences(target: Target, options: argparse.Namespace) -> dict[str, float]:
    """Share of held-out short sentences whose translation equals the reference."""
    chats = _chats(options, SENTENCES)
    said = _texts(target, [chat[0]["content"] for chat in chats], 40)
    pairs = zip(said, chats, strict=True)
    return {"equal": _share(reply.strip() == chat[1]["content"] for reply, chat in pairs)}


def stories(target: Target, options: argparse.Namespace) -> dict[str, Any]:
    """Stories from unseen openings: how many repeat themselves, loop or end well; ten of them."""
    rng = random.Random("openings")
    chats = [world_chat("continued", rng, True) for _ in range(options.each)]
    prompts = [chat[0]["content"] for chat in chats]
    told, whole = _texts(target, prompts, 200), _replies(target, prompts, 500)
    return {
        "repeats": round(sum(map(repeated, told)) / len(told), 4),
        "loops": sum(map(loops, told)),
        "ended": _share(
            done and text.rstrip().endswith((".", "!", "?", '."', '!"', '?"'))
            for text, done in whole
        ),
        "shown": [(prompt, text) for prompt, (text, _) in zip(prompts[:10], whole, strict=False)],
    }


def repeated(text: str) -> float:
    """Share of the words that end a run of GRAM words which the text already had."""
    words = text.lower().split()
    grams = [tuple(words[at : at + GRAM]) for at in range(len(words) - GRAM + 1)]
    return (len(grams) - len(set(grams))) / max(1, len(words))


def loops(text: str) -> bool:
    """Whether the text repeats its last words over and over."""
    words = text.lower().split()
    return len(words) > 40 and " ".join(words[-60:]).count(" ".join(words[-6:])) > 2


def visitors(target: Target, options: argparse.Namespace) -> dict[str, Any]:
    """Replies to prompts outside the model's world, for a person to read; doubtful claims."""
    lines = VISITORS.read_text(encoding="utf-8").splitlines()[: options.each]
    prompts = [json.loads(line)["prompt"] for line in lines]
    replies = [
        {"prompt": prompt, "reply": text, "claims": manners.claims(text, prompt)}
        for prompt, text in zip(prompts, _texts(target, prompts, 120), strict=True)
    ]
    return {"claims": sum(bool(one["claims"]) for one in replies), "replies": replies}


def bits(target: Target, options: argparse.Namespace) -> dict[str, float]:
    """Bits per character of the text to be learnt, on held-out documents, by kind."""
    texts = held_out_texts(options.texts, options.each)
    return {kind: round(_bits(target, made), 4) for kind, made in texts.items()}


def _bits(target: Target, made: list[Chat | str]) -> float:
    documents = [
        Document("", text=one) if isinstance(one, str) else Document("", one) for one in made
    ]
    encoded = encode_many(documents, tokenizer_of(target))
    nats = sum(reply_loss(target, each)[0] for each in encoded)
    learnt = [text for d in documents for text in d.contents[d.messages is not None :: 2]]
    return nats / math.log(2) / max(1, sum(map(len, learnt)))


def _share(found: Iterable[bool]) -> float:
    marks = list(found)
    return round(sum(marks) / max(1, len(marks)), 4)


PARTS: dict[str, Callable[[Target, argparse.Namespace], Any]] = {
    "tasks": tasks_right, "words": words_used, "passages": passages, "stories": stories,
    "visitors": visitors, "fairy tales": fairy_tales, "sentences": sentences, "bits": bits,
}  # fmt: skip

if __name__ == "__main__":
    sys.exit(ended(main))
