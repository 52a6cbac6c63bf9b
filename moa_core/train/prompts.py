"""The prompts that a target answers for training; some are held out."""

import hashlib
from pathlib import Path
from typing import Any

from moa_core.errors import UserError
from moa_core.untrusted import json_lines

HELD_OUT_PERCENT = 2


def bucket(text: str) -> int:
    """A text's hash, from 0 to 99."""
    return int(hashlib.sha256(text.encode(errors="replace")).hexdigest()[:8], 16) % 100


def prompts_in(path: Path) -> list[tuple[int, str]]:
    """Line and text of each prompt but the 2 % that a hash holds out.

    Of a chat, the prompt is the first thing that the user says.
    """
    found = []
    for number, row in json_lines(path):
        if not (prompt := _asked(row)).strip():
            raise UserError(f"Line {number} of {path} has no prompt and no user's message.")
        if bucket(prompt) >= HELD_OUT_PERCENT:
            found.append((number - 1, prompt))
    return found


def _asked(row: Any) -> str:
    """The prompt of a line; "" if it has none."""
    match row:
        case {"prompt": str(prompt)}:
            return prompt
        case {"messages": list(messages)}:
            for one in messages:
                match one:
                    case {"content": str(said), **more} if more.get("role", "user") == "user":
                        return said
    return ""
