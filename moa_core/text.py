"""Text in and out: prompts to token ids, token ids to the pieces of text a reader sees."""

from __future__ import annotations

import copy
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jinja2 import TemplateError
from tokenizers.decoders import DecodeStream
from transformers import PreTrainedTokenizerBase

from moa_core.decoding.trace import Drafted, OfflineToken, Prefilled, Trace, Verified
from moa_core.errors import UserError
from moa_core.model.target import Target

LONGEST_PROMPT = 50_000  # characters; refused before the tokenizer spends time on it


def tokenizer_of(target: Target) -> PreTrainedTokenizerBase:
    """A target's tokenizer. UserError where it has none."""
    if target.tokenizer is None:
        raise UserError(f"{target.name} has no tokenizer, and this needs text.")
    return target.tokenizer


def prompt_ids(tokenizer: PreTrainedTokenizerBase, text: str, raw: bool = False) -> list[int]:
    """Token ids of a person's message, through the chat template where the tokenizer has one.

    raw: the text as it stands, no template. UserError for text that is empty or far too long.
    """
    if raw:
        return list(tokenizer(_checked(text))["input_ids"])
    return chat_ids(tokenizer, [{"role": "user", "content": text}])


def chat_ids(
    tokenizer: PreTrainedTokenizerBase, messages: Sequence[Mapping[str, str]]
) -> list[int]:
    """Token ids of a chat up to where the next reply begins.

    messages  role (system, user, assistant) and content of each turn; the last one a person's.
    UserError if that is empty, if the chat is far too long, or if the template refuses it.

    What was said is encoded apart from the template, so that text which looks like a special token
    (<|end|>) stays text.
    """
    if not all(map(_is_turn, messages)):
        raise UserError("Each turn of a chat has a role and its content, both texts.")
    _checked("\n".join(message["content"] for message in messages))
    said = [*(clean(message["content"]) for message in messages[:-1])]
    said.append(_checked(messages[-1]["content"]))
    if not tokenizer.chat_template:
        return list(tokenizer("\n".join(said))["input_ids"])
    ids: list[int] = []
    for text, place in template_parts(tokenizer, [message["role"] for message in messages]):
        ids += tokenizer(text, add_special_tokens=False)["input_ids"]
        if place is not None:
            spoken = tokenizer(said[place], add_special_tokens=False, split_special_tokens=True)
            ids += spoken["input_ids"]
    return ids


def _is_turn(found: Any) -> bool:
    match found:
        case {"role": str(), "content": str()}:
            return True
    return False


def _checked(text: str) -> str:
    """The text, cleaned. UserError if there is nothing in it or far too much."""
    if len(text) > LONGEST_PROMPT:
        raise UserError(
            f"The prompt has {len(text):,} characters; the limit is {LONGEST_PROMPT:,}. Shorten it."
        )
    text = clean(text)
    if not text.strip():
        raise UserError("The prompt is empty: write something for the model to go on from.")
    return text


def template_parts(
    tokenizer: PreTrainedTokenizerBase, roles: Sequence[str], prompt: bool = True
) -> list[tuple[str, int | None]]:
    """The chat template's own text, cut where messages go: each part and the message after it.

    prompt  with what the template puts before the next reply. UserError if it refuses such a chat.
    """
    marked = [
        {"role": role, "content": f"\u2063{place}\u2063"}  # invisible separators: in no template
        for place, role in enumerate(roles)
    ]
    try:
        whole = str(
            tokenizer.apply_chat_template(marked, tokenize=False, add_generation_prompt=prompt)
        )
    except TemplateError as error:
        raise UserError(f"This model's chat template refuses such a chat: {error}.") from None
    parts = re.split("\u2063(\\d+)\u2063", whole)
    places = [int(place) for place in parts[1::2]]
    if sorted(places) != list(range(len(roles))):
        raise UserError("This tokenizer's chat template does not show the user's message.")
    return list(zip(parts[::2], [*places, None], strict=True))


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
        self._special = set(tokenizer.all_special_ids)
        self._stream = DecodeStream(skip_special_tokens=True)
        self._shown: dict[int, str] = {}  # by token: the same ones are rejected again and again

    def push(self, ids: Sequence[int]) -> list[str]:
        """The text each id adds: "" while a character is incomplete or the token is special."""
        return [self._stream.step(self._tokenizer.backend_tokenizer, token) or "" for token in ids]

    def fork(self) -> TokenText:
        """For text that may not stay: goes on from here, and leaves this one as it is."""
        other = copy.copy(self)
        other._stream = copy.copy(self._stream)
        return other

    def alone(self, token: int) -> str:
        """How to show one token by itself, special ones by name."""
        if token not in self._shown:
            self._shown[token] = str(self._tokenizer.decode([token], skip_special_tokens=False))
        return self._shown[token]

    def special(self, token: int) -> bool:
        """Whether a token is one of the tokenizer's special ones."""
        return token in self._special


class RecordedText:
    """What TokenText gives, read from a trace that keeps its words: needs no tokenizer."""

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
        """The next pieces of the output."""
        if self._pieces is None:
            return [self.alone(token) for token in ids]
        return [next(self._pieces, "") for _ in ids]

    def fork(self) -> RecordedText:
        """For text that did not stay: of that only each token by itself was recorded."""
        other = copy.copy(self)
        other._pieces = None
        return other

    def alone(self, token: int) -> str:
        """How to show one token by itself, special ones by name."""
        return self._alone.get(token, "\ufffd")

    def special(self, token: int) -> bool:
        """Whether a token is a special one."""
        return token in self._special


def record_words(trace: Trace, tokenizer: PreTrainedTokenizerBase) -> None:
    """Keep in a trace the text of its tokens, so that it can be shown without its tokenizer.

    about["words"]: prompt (template included), output (a piece per new token), alone ({id: text} of
    every token that occurs), special (those ids that are special tokens).
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
