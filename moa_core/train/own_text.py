"""Text that the target writes: drafters will be verified against such text."""

from __future__ import annotations

import copy
import os
import random
import signal
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

from moa_core.errors import UserError
from moa_core.model.target import Target
from moa_core.text import tokenizer_of
from moa_core.train import corpus
from moa_core.train.encode import Encoded, encode_many

PLAIN_START = 48  # tokens from a random place in a plain text, as a prompt
LONGEST_PROMPT = 320  # reading a longer one costs more than its reply teaches
PART = 50_000  # tokens that a killed run loses at most, per process


class Workers(ProcessPoolExecutor):
    """A pool of processes of one thread each, which Ctrl-C ends without a traceback.

    Processes are spawned because tokenizers and torch do not survive a fork with threads.
    """

    def __init__(self, count: int) -> None:
        super().__init__(count, get_context("spawn"), _start)

    def __exit__(self, kind: Any, *_: Any) -> None:
        self.shutdown(wait=kind is None, cancel_futures=kind is not None)


def _start() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    torch.set_num_threads(1)


@dataclass(frozen=True)
class Writing:
    """Where prompts come from; `rows` are answered at a time, with at most `longest` tokens."""

    data: Path
    seed: int = 0
    rows: int = 64
    longest: int = 320


def write(target: Target, path: Path, tokens: int, writing: Writing, processes: int = 1) -> None:
    """Let the target answer training prompts until it has written `tokens` tokens; save them.

    Half of the batches are greedy, half at temperature 1. An existing file and the parts of an
    interrupted one are kept. On a CPU, several processes of one thread each are the fastest.
    """
    if path.exists():
        return
    parts = [path.with_name(f"{path.stem}.{n:03}.npz") for n in range(-(-tokens // PART))]
    sizes = [min(PART, tokens - PART * n) for n in range(len(parts))]
    jobs = [(n, size) for n, size in enumerate(sizes) if not parts[n].exists()]
    done = tokens - sum(size for _, size in jobs)
    with tqdm(total=tokens, initial=done, unit="tok", desc="own text") as bar:
        for number, size, texts in _written(target, jobs, writing, processes):
            save(parts[number], texts)
            bar.update(size)
    save(path, [text for part in parts for text in load(part)])
    for part in parts:
        part.unlink()


def _written(
    target: Target, jobs: list[tuple[int, int]], writing: Writing, processes: int
) -> Iterator[tuple[int, int, list[Encoded]]]:
    """Each finished job's number, size and text."""
    if processes == 1:
        yield from ((number, size, _part(target, number, size, writing)) for number, size in jobs)
        return
    writer = copy.deepcopy(target)
    if torch.ops.mkldnn._is_mkldnn_bf16_supported():
        writer.model.to(torch.bfloat16)  # twice as fast, and the same text except at near ties
    with Workers(processes) as pool:
        waiting = {pool.submit(_part, writer, *job, writing): job for job in jobs}
        for done in as_completed(waiting):
            yield *waiting[done], done.result()


def _part(target: Target, number: int, tokens: int, writing: Writing) -> list[Encoded]:
    torch.manual_seed(writing.seed * 1_009 + number)
    written: list[Encoded] = []
    count = 0
    for turn, (prompts, room) in enumerate(_prompt_batches(target, number, writing)):
        replies = answers(target, prompts, room, sample=(number + turn) % 2 == 1)
        for prompt, reply in zip(prompts, replies, strict=True):
            written.append(Encoded(prompt + reply, [False] * len(prompt) + [True] * len(reply)))
            count += len(reply)
        if count >= tokens:
            break
    return written


@torch.inference_mode()
def answers(
    target: Target, prompts: list[list[int]], longest: int, sample: bool = False
) -> list[list[int]]:
    """Replies to prompts in one batch, cut after the end-of-turn token."""
    tokenizer = tokenizer_of(target)
    end, pad = tokenizer.eos_token_id, tokenizer.pad_token_id
    pad = end if pad is None else pad
    width = max(map(len, prompts))
    ids = torch.full((len(prompts), width), pad)
    for row, prompt in enumerate(prompts):
        ids[row, width - len(prompt) :] = torch.tensor(prompt)
    seen = torch.arange(width) >= width - torch.tensor([len(p) for p in prompts])[:, None]
    sampling = {"temperature": 1.0, "top_k": 0, "top_p": 1.0} if sample else {}
    output = target.model.generate(
        ids.to(target.device),
        attention_mask=seen.long().to(target.device),
        max_new_tokens=min(longest, target.context - width),
        do_sample=sample,
        eos_token_id=end,
        pad_token_id=pad,
        **{"temperature": None, "top_k": None, "top_p": None, **sampling},
    )[:, width:].tolist()
    return [reply[: reply.index(end) + 1] if end in reply else reply for reply in output]


def _prompt_batches(
    target: Target, part: int, writing: Writing
) -> Iterator[tuple[list[list[int]], int]]:
    """Endless batches of prompts from training documents, each with the longest reply in tokens.

    A batch takes as long as its longest reply. So prompts are batched by the length of their reply
    in the data, because the target's will be similar.
    """
    documents = corpus.load(writing.data)
    longest, rows = min(writing.longest, target.context // 2), writing.rows
    rng = random.Random(f"{writing.seed} {part}")
    waiting: list[tuple[int, list[int]]] = []
    while True:
        # Every pass of every part has an order of its own.
        order = corpus.shuffled(documents, rng.randrange(2**31), part)
        found = False
        for encoded in encode_many(order, tokenizer_of(target)):
            prompt, reply = _prompt(encoded, rng)
            if prompt and len(prompt) + longest <= target.context:
                waiting.append((reply, prompt))
                found = True
            if len(waiting) == rows * 16:
                waiting.sort(key=lambda item: item[0])
                groups = [waiting[start : start + rows] for start in range(0, len(waiting), rows)]
                rng.shuffle(groups)
                for group in groups:
                    yield [prompt for _, prompt in group], min(longest, 2 * group[-1][0] + 16)
                waiting = []
        if not found:
            raise UserError(
                f"No document in {writing.data} gives {target.name}, which reads {target.context} "
                "tokens, a prompt for text of its own: leave out --own-tokens."
            )


def _prompt(encoded: Encoded, rng: random.Random) -> tuple[list[int], int]:
    """The tokens before a reply, and the reply's length; from a plain text, a few tokens."""
    ids, mask = encoded
    if mask[0]:
        start = rng.randrange(max(1, len(ids) - PLAIN_START))
        return ids[start : start + PLAIN_START], len(ids)
    near = range(1, min(len(mask), LONGEST_PROMPT))
    starts = [place for place in near if mask[place] and not mask[place - 1]]
    if not starts:
        return [], 0
    start = rng.choice(starts)
    return ids[:start], next((i for i in range(start, len(mask)) if not mask[i]), len(mask)) - start


def mixed(own: list[Encoded], data: Iterator[Encoded], seed: int) -> Iterator[Encoded]:
    """All of the target's own text, mixed with as many tokens of data."""
    order = own[:]
    random.Random(seed).shuffle(order)
    balance = 0
    for encoded in order:
        yield encoded
        balance += sum(encoded.mask)
        while balance > 0 and (other := next(data, None)) is not None:
            balance -= sum(other.mask)
            yield other


def save(path: Path, texts: list[Encoded]) -> None:
    """One compressed file of token ids, reply masks and lengths."""
    part = path.with_suffix(".part.npz")
    np.savez_compressed(
        part,
        ids=np.concatenate([np.array(text.ids, np.int32) for text in texts]),
        mask=np.concatenate([np.array(text.mask, bool) for text in texts]),
        lengths=np.array([len(text.ids) for text in texts]),
    )
    os.replace(part, path)


def load(path: Path) -> list[Encoded]:
    with np.load(path) as file:
        ends = file["lengths"].cumsum()[:-1]
        ids, mask = np.split(file["ids"], ends), np.split(file["mask"], ends)
    return [Encoded(a.tolist(), b.tolist()) for a, b in zip(ids, mask, strict=True)]
