"""What the bundled target can do, as JSON: python -m moa_core.train.bundle.measure --target NAME"""

from __future__ import annotations

import argparse
import json
import math
import random
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from moa_core.arguments import path
from moa_core.assets import ASSETS
from moa_core.errors import UserError, ended
from moa_core.loading.load import load_target
from moa_core.model.target import Target
from moa_core.text import prompt_ids, tokenizer_of
from moa_core.train.bundle import manners, tasks, world
from moa_core.train.bundle.__main__ import check_kinds, held_out_texts, world_chat
from moa_core.train.bundle.prompts import Chat
from moa_core.train.bundle.words import LITTLE
from moa_core.train.corpus import Document
from moa_core.train.measure import answers, reply_loss, task_accuracy
from moa_core.train.tokenizer import encode_many

VISITORS = ASSETS / "suites" / "visitors.jsonl"
FAIRY_TALES, SENTENCES, OPENINGS = "fairy tale questions", "sentence", "opening"  # kinds of text
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
    each, texts = options.each, held_out_texts(options.texts, options.each)
    check_kinds((FAIRY_TALES, SENTENCES, OPENINGS), texts)
    target = load_target(options.target, "float32", "auto")
    rng, begun = random.Random("passages"), random.Random("openings")
    report = {
        "tasks": {kind: round(right, 4) for kind, right in task_accuracy(target, each).items()},
        "words": words_used(target, each),
        "passages": answered(target, [world_chat("reading", rng, True) for _ in range(2 * each)]),
        "stories": stories(target, [world_chat("continued", begun, True) for _ in range(each)]),
        "openings": stories(target, texts[OPENINGS]),
        "visitors": visitors(target, each),
        "fairy tales": answered(target, texts[FAIRY_TALES]),
        "sentences": translated(target, texts[SENTENCES]),
        "bits": {kind: round(bits(target, made), 4) for kind, made in texts.items()},
    }
    print(json.dumps(report, indent=1, ensure_ascii=False))


def _texts(target: Target, prompts: list[str], longest: int) -> list[str]:
    return [text for text, _ in _replies(target, prompts, longest)]


def _replies(target: Target, prompts: list[str], longest: int) -> list[tuple[str, bool]]:
    """Greedy replies, and whether each ended by itself."""
    tokenizer = tokenizer_of(target)
    replies = answers(target, [prompt_ids(tokenizer, prompt) for prompt in prompts], longest)
    texts = tokenizer.batch_decode(replies, skip_special_tokens=True)
    return [(text, ids[-1] in target.eos_ids) for text, ids in zip(texts, replies, strict=True)]


def words_used(target: Target, each: int) -> dict[str, float]:
    """Share of stories with three given words that use all three."""
    rng = random.Random("words to use")
    wanted = [_three(rng) for _ in range(each)]
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


def answered(target: Target, chats: Sequence[Chat | str]) -> dict[str, Any]:
    """Share of questions answered right: the words of the answer are all in the reply."""
    replies = _first_replies(target, chats, 60)
    return {"right": _share(_agrees(*each) for each in replies), "of": len(replies)}


def _first_replies(
    target: Target, chats: Sequence[Chat | str], longest: int
) -> list[tuple[str, str]]:
    """The target's first reply and the expected one, of each chat."""
    asked = [chat for chat in chats if not isinstance(chat, str)]
    texts = _texts(target, [chat[0]["content"] for chat in asked], longest)
    return [(text, chat[1]["content"]) for text, chat in zip(texts, asked, strict=True)]


def _agrees(reply: str, answer: str) -> bool:
    """Whether the reply has the words that carry the answer, in any order, and few others."""
    said, wanted = (set(re.findall(r"[a-z0-9']+", t.lower())) - LITTLE for t in (reply, answer))
    return wanted <= said and len(said - wanted) <= max(2, len(wanted) // 2)


def translated(target: Target, chats: Sequence[Chat | str]) -> dict[str, float]:
    """Share of short sentences whose translation equals the reference."""
    replies = _first_replies(target, chats, 40)
    return {"equal": _share(reply.strip() == expected for reply, expected in replies)}


def stories(target: Target, chats: Sequence[Chat | str]) -> dict[str, Any]:
    """Stories from unseen openings: how many repeat themselves, loop or end well; ten of them."""
    prompts = [chat[0]["content"] for chat in chats if not isinstance(chat, str)]
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


def visitors(target: Target, each: int) -> dict[str, Any]:
    """Replies to prompts outside the model's world, for a person to read; doubtful claims."""
    lines = VISITORS.read_text(encoding="utf-8").splitlines()[:each]
    prompts = [json.loads(line)["prompt"] for line in lines]
    replies = [
        {"prompt": prompt, "reply": text, "claims": manners.claims(text, prompt)}
        for prompt, text in zip(prompts, _texts(target, prompts, 120), strict=True)
    ]
    return {"claims": sum(bool(one["claims"]) for one in replies), "replies": replies}


def bits(target: Target, made: list[Chat | str]) -> float:
    """Bits per character of the text to be learnt."""
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


if __name__ == "__main__":
    sys.exit(ended(main))
