"""Prompts to measure with: published question sets, prompts to tune on, or a person's own file."""

import hashlib
import json
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from moa_core.assets import ASSETS
from moa_core.decoding.decode import check_prompt
from moa_core.errors import UserError
from moa_core.model.target import Target
from moa_core.text import prompt_ids, tokenizer_of
from moa_core.untrusted import json_lines

QUESTIONS = ("mt_bench", "humaneval", "gsm8k", "alpaca", "sum", "qa")
SETS = "questions"  # all of them
SUITES = {name: ASSETS / "suites" / f"{name}.jsonl" for name in ("tuning", "answers")}
SUITES |= {name: ASSETS / "questions" / f"{name}.jsonl" for name in QUESTIONS}


class Prompt(NamedTuple):
    """One prompt of a suite.

    number    its line, from 1; in `questions`, counted through all sets
    choices   the right answer, and wrong ones that a text may name instead; empty where none is
              known
    """

    number: int
    kind: str
    text: str
    choices: tuple[str, ...] = ()


def load_suite(name: str, limit: int | None = None) -> list[Prompt]:
    """Load `questions`, each set a kind, one of them, `tuning`, `answers` or a JSON-lines file.

    limit  of each kind
    UserError for an unknown name, or naming a line without a prompt
    """
    if name == SETS:
        sets = [prompt._replace(kind=one) for one in QUESTIONS for prompt in load_suite(one)]
        return _first_of_each([one._replace(number=at) for at, one in enumerate(sets, 1)], limit)
    path = SUITES.get(name) or Path(os.path.expanduser(name))
    if not os.path.isfile(path):
        raise UserError(
            f"There is no suite {name!r}: choose from {SETS}, {', '.join(SUITES)}, or name "
            "a file of JSON lines."
        )
    prompts = [_prompt(row, number, path.stem) for number, row in json_lines(path)]
    if not prompts:
        raise UserError(f"The suite {path} holds no prompts.")
    return _first_of_each(prompts, limit)


def suite_hash(prompts: Sequence[Prompt]) -> str:
    """A short hash of all prompts, because files with the same name may differ."""
    chats = [[one.kind, [{"role": "user", "content": one.text}]] for one in prompts]
    return hashlib.sha256(json.dumps(chats).encode()).hexdigest()[:16]


def suite_ids(prompts: Sequence[Prompt], target: Target) -> list[list[int]]:
    """The token ids of prompts. UserError, naming the line, for one that the target cannot read."""
    tokenizer, found = tokenizer_of(target), []
    for prompt in prompts:
        try:
            found.append(prompt_ids(tokenizer, prompt.text))
            check_prompt(found[-1], target)
        except UserError as error:
            raise UserError(f"Line {prompt.number} of the suite: {error}") from None
    return found


def _first_of_each(prompts: list[Prompt], limit: int | None) -> list[Prompt]:
    seen: Counter[str] = Counter()
    kept = []
    for prompt in prompts:
        seen[prompt.kind] += 1
        if limit is None or seen[prompt.kind] <= limit:
            kept.append(prompt)
    return kept


def _prompt(row: Any, number: int, default_kind: str) -> Prompt:
    where = f"Line {number} of the suite"
    if not isinstance(row, dict):
        raise UserError(f"{where} is not a JSON object with kind and prompt.")
    match row:
        case {"prompt": str(text)} | {"turns": [str(text), *_]} if text.strip():
            pass  # of a question set, the first turn is asked
        case _:
            raise UserError(f"{where} has no prompt of text.")
    kind = row.get("kind") or row.get("category") or default_kind
    if not isinstance(kind, str):
        raise UserError(f"{where} has a kind that is no text.")
    choices = row.get("choices", [])
    if not isinstance(choices, list) or not all(isinstance(one, str) and one for one in choices):
        raise UserError(f"{where} has choices that are no list of texts.")
    return Prompt(number, kind, text, tuple(choices))
