"""Text that the target writes itself: what its drafters will be verified against."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from moa_core.target import Target
from moa_core.train import corpus, sources
from moa_core.train.corpus import Encoded

PLAIN_START = 48  # tokens of a plain text that serve as a prompt


def write(
    target: Target,
    data: Path,
    path: Path,
    tokens: int,
    seed: int,
    rows: int = 256,
    longest: int = 320,
) -> None:
    """Let the target answer training prompts until it has written `tokens` tokens; save them.

    Half greedy, half at temperature 1. An existing file is left as it is.
    """
    if path.exists():
        return
    longest = min(longest, target.context // 2)
    random.seed(seed)
    torch.manual_seed(seed)
    written: list[Encoded] = []
    count = 0
    bar = tqdm(total=tokens, desc="own text", unit="tok")
    batches = _prompt_batches(target, data, seed, rows, longest)
    for number, (prompts, room) in enumerate(batches):
        replies = answers(target, prompts, room, sample=number % 2 == 1)
        for prompt, reply in zip(prompts, replies, strict=True):
            written.append(Encoded(prompt + reply, [False] * len(prompt) + [True] * len(reply)))
            count += len(reply)
            bar.update(len(reply))
        if count >= tokens:
            break
    bar.close()
    save(path, written)


@torch.inference_mode()
def answers(
    target: Target, prompts: list[list[int]], longest: int, sample: bool = False
) -> list[list[int]]:
    """Replies to prompts of any length, as one batch, cut after the end-of-turn token."""
    end, pad = target.tokenizer.eos_token_id, target.tokenizer.pad_token_id
    pad = end if pad is None else pad
    width = max(map(len, prompts))
    ids = torch.full((len(prompts), width), pad)
    for row, prompt in enumerate(prompts):
        ids[row, width - len(prompt) :] = torch.tensor(prompt)
    seen = torch.arange(width) >= width - torch.tensor([len(p) for p in prompts])[:, None]
    output = target.model.generate(
        ids.to(target.device),
        attention_mask=seen.long().to(target.device),
        max_new_tokens=min(longest, target.context - width),
        do_sample=sample,
        temperature=1.0 if sample else None,
        top_k=0 if sample else None,
        top_p=1.0 if sample else None,
        eos_token_id=end,
        pad_token_id=pad,
    )[:, width:].tolist()
    return [reply[: reply.index(end) + 1] if end in reply else reply for reply in output]


def _prompt_batches(
    target: Target, data: Path, seed: int, rows: int, longest: int
) -> Iterator[tuple[list[list[int]], int]]:
    """Prompts from training documents, endlessly, in batches; with each, how much room to give.

    Batched by the length of the reply in the data, which foretells that of the target's: a batch
    takes as long as its longest reply.
    """
    loaded = sources.load(data)
    rng = random.Random(seed)
    epoch = 0
    while True:
        documents = corpus.epoch(loaded, seed + 1, epoch, "train", 20_000)
        waiting: list[tuple[int, list[int]]] = []
        for encoded in corpus.encode_many(documents, target.tokenizer):
            prompt, reply = _prompt(encoded, rng)
            if prompt and len(prompt) + longest <= target.context:
                waiting.append((reply, prompt))
            if len(waiting) == rows * 16:
                waiting.sort(key=lambda item: item[0])
                groups = [waiting[start : start + rows] for start in range(0, len(waiting), rows)]
                rng.shuffle(groups)
                for group in groups:
                    room = min(longest, 2 * group[-1][0] + 16)
                    yield [prompt for _, prompt in group], room
                waiting = []
        epoch += 1


def _prompt(encoded: Encoded, rng: random.Random) -> tuple[list[int], int]:
    """What comes before one of the replies, and that reply's length; of a plain text its start."""
    ids, mask = encoded
    if mask[0]:
        return ids[:PLAIN_START], len(ids)
    starts = [place for place in range(1, len(mask)) if mask[place] and not mask[place - 1]]
    if not starts:
        return [], 0
    start = rng.choice(starts)
    return ids[:start], next((i for i in range(start, len(mask)) if not mask[i]), len(mask)) - start


def mixed(own: list[Encoded], data: Iterator[Encoded], seed: int) -> Iterator[Encoded]:
    """All of the target's own text, and among it as many tokens of data as there are of that."""
    order = own[:]
    random.Random(seed).shuffle(order)
    balance = 0
    for encoded in order:
        yield encoded
        balance += sum(encoded.mask)
        while balance > 0:
            other = next(data, None)
            if other is None:
                break
            balance -= sum(other.mask)
            yield other


def save(path: Path, texts: list[Encoded]) -> None:
    """One compressed file of token ids, reply marks and lengths."""
    part = path.with_suffix(".part.npz")
    np.savez_compressed(
        part,
        ids=np.concatenate([np.array(text.ids, np.int32) for text in texts]),
        mask=np.concatenate([np.array(text.mask, bool) for text in texts]),
        lengths=np.array([len(text.ids) for text in texts]),
    )
    os.replace(part, path)


def load(path: Path) -> list[Encoded]:
    """Read back what `save` wrote."""
    with np.load(path) as file:
        ends = file["lengths"].cumsum()[:-1]
        ids, mask = np.split(file["ids"], ends), np.split(file["mask"], ends)
    return [Encoded(a.tolist(), b.tolist()) for a, b in zip(ids, mask, strict=True)]
