"""Prompts to token ids, and token ids to text."""

from __future__ import annotations

import copy
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tokenizers.decoders import DecodeStream
from transformers import PreTrainedTokenizerBase

from moa_core.decoding.trace import Drafted, OfflineToken, Prefilled, Trace, Verified
from moa_core.errors import UserError, saying
from moa_core.model.target import Target

LONGEST_PROMPT = 50_000  # characters; refused before the tokenizer spends time on it


def tokenizer_of(target: Target) -> PreTrainedTokenizerBase:
    """A target's tokenizer. UserError where it has none."""
    if target.tokenizer is None:
        raise UserError(f"{target.name} has no tokenizer, and this needs text.")
    return target.tokenizer


def prompt_ids(tokenizer: PreTrainedTokenizerBase, text: str, raw: bool = False) -> list[int]:
    """Token ids of a message, with the tokenizer's chat template if it has one.

    raw: without the template. UserError for text that is empty or too long.
    """
    if raw:
        return list(tokenizer(_checked(text))["input_ids"])
    return chat_ids(tokenizer, [{"role": "user", "content": text}])


def chat_ids(
    tokenizer: PreTrainedTokenizerBase, messages: Sequence[Mapping[str, str]]
) -> list[int]:
    """Token ids of a chat, up to the start of the next reply.

    messages  role (system, user, assistant) and content of each turn, the user's last
    UserError if the last one is empty, the chat too long, or the template refuses it.

    Messages are encoded apart from the template, so that text like <|end|> stays text.
    """
    for message in messages:
        match message:
            case {"role": str(), "content": str()}:
                continue
        raise UserError("Each turn of a chat has a role and its content, both texts.")
    _checked("\n".join(message["content"] for message in messages))
    said = [*(clean(message["content"]) for message in messages[:-1])]
    said.append(_checked(messages[-1]["content"]))
    if not tokenizer.chat_template:
        return list(tokenizer("\n".join(said))["input_ids"])
    ids: list[int] = []
    for text, place in _template_parts(tokenizer, [message["role"] for message in messages]):
        ids += tokenizer(text, add_special_tokens=False)["input_ids"]
        if place is not None:
            spoken = tokenizer(said[place], add_special_tokens=False, split_special_tokens=True)
            ids += spoken["input_ids"]
    return ids


def _checked(text: str) -> str:
    """The text, cleaned. UserError if it is empty or too long."""
    if len(text) > LONGEST_PROMPT:
        raise UserError(
            f"The prompt has {len(text):,} characters; the limit is {LONGEST_PROMPT:,}. Shorten it."
        )
    text = clean(text)
    if not text.strip():
        raise UserError("The prompt is empty: write something for the model to go on from.")
    return text


def _template_parts(
    tokenizer: PreTrainedTokenizerBase, roles: Sequence[str]
) -> list[tuple[str, int | None]]:
    """The chat template's own text, up to the start of the next reply, cut where messages go: each
    part and the message after it. UserError if it refuses such a chat.
    """
    marked = [
        {"role": role, "content": f"\u2063{place}\u2063"}  # invisible separators: in no template
        for place, role in enumerate(roles)
    ]
    with saying("This model's chat template refuses such a chat"):
        whole = str(
            tokenizer.apply_chat_template(marked, tokenize=False, add_generation_prompt=True)
        )
    parts = re.split("\u2063(\\d+)\u2063", whole)
    places = [int(place) for place in parts[1::2]]
    if sorted(places) != list(range(len(roles))):
        raise UserError("This tokenizer's chat template does not show the user's message.")
    return list(zip(parts[::2], [*places, None], strict=True))


def clean(text: str) -> str:
    """The text without lone surrogates and control characters, except newline and tab."""
    return "".join(
        char
        for char in text.replace("\r\n", "\n").replace("\r", "\n")
        if char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cs")
    )


class TokenText:
    """Turns a growing sequence of ids into text, in whole characters."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        self._special = set(tokenizer.all_special_ids)
        self._stream = DecodeStream(skip_special_tokens=True)
        self._shown: dict[int, str] = {}  # the same tokens are often rejected again

    def push(self, ids: Sequence[int]) -> list[str]:
        """The text each id adds: "" while a character is incomplete or the token is special."""
        return [self._stream.step(self._tokenizer.backend_tokenizer, token) or "" for token in ids]

    def fork(self) -> TokenText:
        """A copy for text that may not stay."""
        other = copy.copy(self)
        other._stream = copy.copy(self._stream)
        return other

    def alone(self, token: int) -> str:
        """One token by itself, special ones by name."""
        if token not in self._shown:
            self._shown[token] = str(self._tokenizer.decode([token], skip_special_tokens=False))
        return self._shown[token]

    def special(self, token: int) -> bool:
        return token in self._special


class RecordedText:
    """As TokenText, from a trace that keeps its words: needs no tokenizer."""

    def __init__(self, trace: Trace) -> None:
        words: Any = trace.about.get("words")
        try:
            self._alone = {int(token): str(text) for token, text in words["alone"].items()}
            self._special = set(words["special"])
            self._pieces: Iterator[str] | None = iter([str(piece) for piece in words["output"]])
        except (TypeError, KeyError, ValueError, AttributeError):
            raise UserError(
                "This trace has token ids but not their text, so it cannot be shown."
            ) from None

    def push(self, ids: Sequence[int]) -> list[str]:
        if self._pieces is None:
            return [self.alone(token) for token in ids]
        return [next(self._pieces, "") for _ in ids]

    def fork(self) -> RecordedText:
        """For text that did not stay, only single tokens were recorded."""
        other = copy.copy(self)
        other._pieces = None
        return other

    def alone(self, token: int) -> str:
        return self._alone.get(token, "\ufffd")

    def special(self, token: int) -> bool:
        return token in self._special


def record_words(trace: Trace, tokenizer: PreTrainedTokenizerBase) -> None:
    """Keep in a trace the text of its tokens, so that it can be shown without its tokenizer.

    about["words"]: prompt (with its template), output (a piece per new token), alone ({id: text}
    for every token that occurs), special (ids of special tokens).
    """
    text, output = TokenText(tokenizer), trace.output_ids
    seen = set(output)
    for event in trace.events:
        match event:
            case Drafted():
                seen.update(event.tree.tokens)
            case Verified():
                seen.update((*event.choices, event.bonus))
            case OfflineToken():
                seen.add(event.token)
    prompt = [token for event in trace.of(Prefilled) for token in event.prompt_ids]
    trace.about["words"] = {
        "prompt": tokenizer.decode(prompt, skip_special_tokens=False),
        "output": text.push(output),
        "alone": {str(token): text.alone(token) for token in sorted(seen)},
        "special": sorted(token for token in seen if text.special(token)),
    }
