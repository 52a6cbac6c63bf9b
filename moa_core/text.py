"""Text in and out: prompts to token ids, token ids to the pieces of text a reader sees."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from tokenizers.decoders import DecodeStream
from transformers import PreTrainedTokenizerBase

from moa_core.errors import UserError

LONGEST_PROMPT = 50_000  # characters; refused before the tokenizer spends time on it


def prompt_ids(tokenizer: PreTrainedTokenizerBase, text: str, raw: bool = False) -> list[int]:
    """Token ids of a person's message, through the chat template where the tokenizer has one.

    raw: the text as it stands, no template. UserError for text that is empty or far too long.
    """
    if len(text) > LONGEST_PROMPT:
        raise UserError(
            f"The prompt has {len(text):,} characters; at most {LONGEST_PROMPT:,} are read. "
            "Shorten it."
        )
    text = clean(text)
    if not text.strip():
        raise UserError("The prompt is empty: write something for the model to go on from.")
    if raw or not tokenizer.chat_template:
        return list(tokenizer(text)["input_ids"])
    # The person's words are encoded apart from the template, so that text which looks like a
    # special token (<|end|>) stays text.
    before, after = templated(tokenizer)
    return [
        *tokenizer(before, add_special_tokens=False)["input_ids"],
        *tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"],
        *tokenizer(after, add_special_tokens=False)["input_ids"],
    ]


def templated(tokenizer: PreTrainedTokenizerBase) -> tuple[str, str]:
    """What the chat template puts before and after a single user message."""
    marker = "\u2063message\u2063"  # invisible separators: in no template
    whole = tokenizer.apply_chat_template(
        [{"role": "user", "content": marker}], tokenize=False, add_generation_prompt=True
    )
    before, found, after = whole.partition(marker)
    if not found:
        raise UserError("This tokenizer's chat template does not show the user's message.")
    return before, after


def clean(text: str) -> str:
    """The text without control characters (newline and tab stay) and lone surrogates."""
    return "".join(
        char
        for char in text.replace("\r\n", "\n").replace("\r", "\n")
        if char in "\n\t" or unicodedata.category(char) not in ("Cc", "Cs")
    )


class TokenText:
    """Turns a growing sequence of ids into text, piece by piece, whole characters only."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        self._stream = DecodeStream(skip_special_tokens=True)

    def push(self, ids: Sequence[int]) -> list[str]:
        """The text each id adds: "" while a character is incomplete or the token is special."""
        return [self._stream.step(self._tokenizer.backend_tokenizer, token) or "" for token in ids]

    def alone(self, token: int) -> str:
        """How to show one token by itself, special ones by name."""
        return self._tokenizer.decode([token], skip_special_tokens=False)
