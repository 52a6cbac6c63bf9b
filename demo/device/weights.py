"""A drafter for the browser: what it is, and the parts of its download.

A part is named by the hash of its content, so a browser keeps it, and drafters share what they have
in common: the runtime, the head, the words.
"""

import gzip
import json
from collections.abc import Iterator
from dataclasses import asdict
from functools import cache
from hashlib import sha256
from typing import Any

import numpy as np
from transformers import PreTrainedTokenizerBase
from transformers.convert_slow_tokenizer import bytes_to_unicode

from demo.device.vendor import RUNTIME, packed
from moa_core.drafters.base import Drafter
from moa_core.drafters.moa import MoADrafter
from moa_core.engine.web import web_files
from moa_core.errors import UserError
from moa_core.link.client_weights import drafter_mark, target_mark
from moa_core.model.target import Target

FORMAT = 4
MOST = 48_000_000  # bytes of weights
PART = 1 << 20  # bytes of a part, before gzip: what is lost with a connection
BYTES = {char: byte for byte, char in bytes_to_unicode().items()}
Parts = dict[str, bytes]  # with gzip, by their hash


def pack(target: Target, drafter: Drafter) -> tuple[dict[str, Any], Parts]:
    """Facts and parts of the download for one drafter of one target. UserError for one that a
    browser cannot run.

    The facts have the parts of each file, as [hash, bytes, bytes with gzip]: `runtime`; the graph
    `draft` with its weights `head` and `layers`; `words`, the bytes of each token, a
    character a byte; and `vocabulary`, the ids of the tokens that it drafts.
    """
    found = web_files(drafter, target)
    if (size := sum(map(len, found.values()))) > MOST:
        raise UserError(f"This drafter is too large for a browser: {size / 1e6:,.0f} MB.")
    count = target.embed.weight.shape[0]
    ids = np.arange(count) if drafter.vocabulary is None else drafter.vocabulary.cpu().numpy()
    words, special = _words(target.tokenizer, count)
    found |= {"words": words, "vocabulary": ids.astype("<i4").tobytes()}
    runtime, parts = _runtime()
    parts = dict(parts)
    files = {name: list(_parts(data, parts)) for name, data in found.items()}
    tree = asdict(drafter.tree)
    facts = {
        "format": FORMAT,
        "method": "moa" if isinstance(drafter, MoADrafter) else "eagle",
        "name": drafter.name,
        "tli": drafter.tli or 0,
        "tree": {name: tree[name] for name in ("depth", "breadth", "budget")},
        "marks": {"drafter": drafter_mark(drafter), "target": target_mark(target)},
        "context": target.context,
        "eos_ids": list(target.eos_ids),
        "special": special,
        "files": {"runtime": runtime, **files},
    }
    return facts, parts


@cache
def _runtime() -> tuple[list[tuple[str, int, int]], Parts]:
    parts: Parts = {}
    return list(_parts(gzip.decompress(packed(RUNTIME)), parts)), parts


def _parts(data: bytes, kept: Parts) -> Iterator[tuple[str, int, int]]:
    for start in range(0, len(data), PART):
        part = data[start : start + PART]
        name = sha256(part).hexdigest()[:32]
        kept[name] = gzip.compress(part, 6, mtime=0)
        yield name, len(part), len(kept[name])


def _words(tokenizer: PreTrainedTokenizerBase | None, count: int) -> tuple[bytes, list[int]]:
    """The bytes of each token, and the special tokens."""
    if tokenizer is None:
        return b"[]", []
    decoder = json.loads(tokenizer.backend_tokenizer.to_str())["decoder"] or {}
    if decoder.get("type") != "ByteLevel":
        raise UserError("A browser can only write the text of a byte-level BPE tokenizer.")
    names = [str(name or "") for name in tokenizer.convert_ids_to_tokens(list(range(count)))]
    words = json.dumps([_bytes(name) for name in names], ensure_ascii=False)
    return words.encode(), tokenizer.all_special_ids


def _bytes(name: str) -> str:
    if all(char in BYTES for char in name):
        return "".join(chr(BYTES[char]) for char in name)
    return name.encode().decode("latin-1")  # an added token stands for itself
