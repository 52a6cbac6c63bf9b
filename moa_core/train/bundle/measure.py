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

from moa_core.arguments import check_file, path
from moa_core.assets import ASSETS
from moa_core.errors import UserError, ended
from moa_core.loading.load import load_target
from moa_core.model.target import Target
from moa_core.text import prompt_ids, tokenizer_of
from moa_core.train.bundle import books, manners, tasks, world
from moa_core.train.bundle.__main__ import check_kinds, documents_of
from moa_core.train.bundle.words import LITTLE
from moa_core.train.corpus import Document
from moa_core.train.measure import reply_loss, task_accuracy
from moa_core.train.own_text import answers
from moa_core.train.tokenizer import encode_many

VISITORS = ASSETS / "suites" / "visitors.jsonl"
ROWS = 25  # prompts answered at a time
GRAM = 8  # words


def main() -> None:
    """Measure and print; `--texts` adds what needs the open texts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", help="bundled name, folder or Hub id")
    parser.add_argument("--texts", type=path, help="folder of open texts, for their held-out part")
    parser.add_argument("--each", "--limit", type=int, default=100, help="prompts of each kind")
    parser.add_argument("--only", default="", help="parts, comma separated: " + ", ".join(PARTS))
    parser.add_argument("--out", type=path, help="write the report here instead of printing it")
    options = parser.parse_args()
    given = (part.strip() for part in options.only.split(","))
    chosen = list(dict.fromkeys(filter(None, given))) or list(PARTS)
    if unknown := sorted({*chosen} - {*PARTS}):
        raise UserError(f"Unknown parts: {', '.join(unknown)}. There are {', '.join(PARTS)}.")
    if options.each < 1:
        raise UserError("--each must be at least 1.")
    if options.out:
        check_file(options.out, "report")
    if options.texts is None and (without := sorted({*chosen} & {*FROM_TEXTS})):
        raise UserError(f"{', '.join(without)} need --texts FOLDER, the folder of open texts.")
    if options.texts is not None:
        kinds = books.load(options.texts, True)
        check_kinds([KINDS_OF[part] for part in chosen if part in KINDS_OF], kinds)
    target = load_target(options.target, "float32", "auto")
    report = {part: PARTS[part](target, options) for part in chosen}
    text = json.dumps(report, indent=1, ensure_ascii=False)
    print(text) if options.out is None else options.out.write_text(text + "\n", encoding="utf-8")


def _texts(target: Target, prompts: list[str], longest: int) -> list[str]:
    return [text for text, _ in _replies(target, prompts, longest)]


def _replies(target: Target, prompts: list[str], longest: int) -> list[tuple[str, bool]]:
    """Greedy replies, and whether each ended by itself."""
    tokenizer = tokenizer_of(target)
    ids = [prompt_ids(tokenizer, prompt) for prompt in prompts]
    order = sorted(range(len(ids)), key=lambda place: len(ids[place]))  # little padding in a batch
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


def words_used(target: Target, options: argparse.Namespace) -> dict[str, Any]:
    """Share of stories with three given words that use all three."""
    rng = random.Random("words to use")
    wanted = [_three(rng) for _ in range(options.each)]
    prompts = ["Write a story with the words: {}, {} and {}.".format(*words) for words in wanted]
    texts = _texts(target, prompts, 400)
    used = [
        all(re.search(rf"\b{re.escape(word)}", text, re.IGNORECASE) for word in words)
        for words, text in zip(wanted, texts, strict=True)
    ]
    missed = [
        {"words": words, "story": text}
        for words, text, right in zip(wanted, texts, used, strict=True)
        if not right
    ]
    return {"all three": _share(used), "missed": missed[:10]}


def _three(rng: random.Random) -> tuple[str, ...]:
    while True:
        words = world.words_for(rng)
        if len(words) == 3 and tasks.is_held_out(" ".join(words)):
            return words


def passages(target: Target, options: argparse.Namespace) -> dict[str, Any]:
    """Share of questions about a made passage answered right."""
    rng = random.Random("passages")
    chats = [_held_out("reading", rng) for _ in range(2 * options.each)]
    return _answered(target, [(c[0]["content"], c[1]["content"]) for c in chats])


def _held_out(kind: str, rng: random.Random) -> Any:
    while True:
        chat = world.chats(kind, rng)
        if tasks.is_held_out(chat[0]["content"]):
            return chat


def _answered(target: Target, asked: list[tuple[str, str]]) -> dict[str, Any]:
    texts = _texts(target, [prompt for prompt, _ in asked], 60)
    right = [_agrees(text, answer) for text, (_, answer) in zip(texts, asked, strict=True)]
    wrong = [
        {"prompt": prompt[-200:], "wanted": answer, "reply": text}
        for (prompt, answer), text, good in zip(asked, texts, right, strict=True)
        if not good
    ]
    return {"right": _share(right), "of": len(asked), "wrong": wrong[:10]}


def _agrees(reply: str, answer: str) -> bool:
    """Whether the words that carry the answer are those of the reply, in whatever order."""
    said, wanted = (set(re.findall(r"[a-z0-9']+", t.lower())) - LITTLE for t in (reply, answer))
    return wanted <= said and len(said - wanted) <= max(2, len(wanted) // 2)


def _pairs(options: argparse.Namespace, kind: str) -> list[tuple[str, str]]:
    """Held-out prompts of a kind of text, with their answers."""
    text, rng = books.load(options.texts, True)[kind], random.Random(0)
    pieces = rng.sample(text.pieces, min(options.each, len(text.pieces)))
    chats = [text.as_document(piece, rng).messages or () for piece in pieces]
    return [(chat[0]["content"], chat[1]["content"]) for chat in chats]


def fairy_tales(target: Target, options: argparse.Namespace) -> dict[str, Any]:
    """FairytaleQA's own questions, held out: share whose answer's words are all in the reply."""
    return _answered(target, _pairs(options, KINDS_OF["fairy tales"]))


def sentences(target: Target, options: argparse.Namespace) -> dict[str, Any]:
    """Short sentences into Spanish and French, held out: share equal to the pair's own."""
    pairs = _pairs(options, KINDS_OF["sentences"])
    said = _texts(target, [prompt for prompt, _ in pairs], 40)
    right = [reply.strip() == wanted for reply, (_, wanted) in zip(said, pairs, strict=True)]
    shown = [(*pair, reply) for pair, reply in zip(pairs[:10], said, strict=False)]
    return {"equal": _share(right), "shown": shown}


def stories(target: Target, options: argparse.Namespace) -> dict[str, Any]:
    """Stories from unseen openings: how much repeats itself, loops, or ends well; ten of them."""
    rng = random.Random("openings")
    prompts = [_held_out("continued", rng)[0]["content"] for _ in range(options.each)]
    told, whole = _texts(target, prompts, 200), _replies(target, prompts, 500)
    return {
        "repeats": round(sum(map(repeated, told)) / len(told), 4),
        "loops": sum(map(loops, told)),
        "ended": _share(done and finished(text) for text, done in whole),
        "words": round(sum(len(text.split()) for text, _ in whole) / len(whole)),
        "shown": [(prompt, text) for prompt, (text, _) in zip(prompts[:10], whole, strict=False)],
    }


def repeated(text: str) -> float:
    """Share of the words that end a run of GRAM words which the text already had."""
    words = text.lower().split()
    grams = [tuple(words[at : at + GRAM]) for at in range(len(words) - GRAM + 1)]
    return (len(grams) - len(set(grams))) / max(1, len(words))


def loops(text: str) -> bool:
    """Whether the last words are said over and over."""
    words = text.lower().split()
    return len(words) > 40 and " ".join(words[-60:]).count(" ".join(words[-6:])) > 2


def finished(text: str) -> bool:
    """Whether the text ends with a sentence that is complete."""
    return text.rstrip().endswith((".", "!", "?", '."', '!"', '?"'))


def visitors(target: Target, options: argparse.Namespace) -> dict[str, Any]:
    """Replies to what lies outside the model's world, to be read by a person; suspect claims."""
    lines = VISITORS.read_text(encoding="utf-8").splitlines()[: options.each]
    prompts = [json.loads(line)["prompt"] for line in lines]
    replies = [
        {"prompt": prompt, "reply": text, "claims": manners.claims(text, prompt)}
        for prompt, text in zip(prompts, _texts(target, prompts, 120), strict=True)
    ]
    return {"claims": sum(bool(one["claims"]) for one in replies), "replies": replies}


def bits(target: Target, options: argparse.Namespace) -> dict[str, float]:
    """Bits per character of what is to be learnt, on held-out documents, by kind."""
    documents = documents_of(options.texts, options.each)
    return {kind: round(_bits(target, of_kind), 4) for kind, of_kind in documents.items()}


def _bits(target: Target, documents: list[Document]) -> float:
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
KINDS_OF = {"fairy tales": "fairy tale questions", "sentences": "sentence"}  # of text
FROM_TEXTS = (*KINDS_OF, "bits")

if __name__ == "__main__":
    sys.exit(ended(main))
