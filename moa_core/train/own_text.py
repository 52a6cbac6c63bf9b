"""Text that the target writes itself: what its drafters will be verified against."""

from __future__ import annotations

import copy
import os
import random
import signal
from collections.abc import Callable, Iterator
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
from moa_core.train.tokenizer import Encoded, encode_many

PLAIN_START = 48  # tokens of a plain text that serve as a prompt, from anywhere in it
LONGEST_PROMPT = 320  # reading a longer one costs more than the reply to it teaches
PART = 50_000  # tokens: what a killed run loses at most, per process


class Workers(ProcessPoolExecutor):
    """A pool of fresh processes, which Ctrl-C ends without a traceback.

    Processes are spawned because tokenizers and torch do not survive a fork with threads.
    """

    def __init__(self, count: int, begin: Callable[..., None] | None = None, *given: Any) -> None:
        """begin: called with `given` in each process, once."""
        super().__init__(count, get_context("spawn"), _start, (begin, given))

    def __exit__(self, kind: Any, *_: Any) -> None:
        self.shutdown(wait=kind is None, cancel_futures=kind is not None)


def _start(begin: Callable[..., None] | None, given: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if begin is not None:
        begin(*given)


@dataclass(frozen=True)
class Writing:
    """What the target is given to answer: `rows` prompts at a time, replies of `longest` tokens."""

    data: Path
    seed: int = 0
    rows: int = 64
    longest: int = 320


def write(target: Target, path: Path, tokens: int, writing: Writing, processes: int = 1) -> None:
    """Let the target answer training prompts until it has written `tokens` tokens; save them.

    Half greedy, half at temperature 1. An existing file is left as it is, and so are the parts of
    one that was interrupted. On a CPU several processes of one thread each beat one of several
    threads; elsewhere one is enough.
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
    """Each job's number, size and text, as they are done."""
    if processes == 1:
        yield from ((number, size, _part(target, number, size, writing)) for number, size in jobs)
        return
    writer = copy.deepcopy(target)
    if torch.ops.mkldnn._is_mkldnn_bf16_supported():
        writer.model.to(torch.bfloat16)  # twice as fast, and the same text except at near ties
    with Workers(processes, _begin, writer, writing) as pool:
        waiting = {pool.submit(_in_process, *job): job for job in jobs}
        for done in as_completed(waiting):
            yield *waiting[done], done.result()


_given: tuple[Target, Writing]  # to this process, once


def _begin(target: Target, writing: Writing) -> None:
    global _given
    torch.set_num_threads(1)
    _given = target, writing


def _in_process(number: int, tokens: int) -> list[Encoded]:
    target, writing = _given
    return _part(target, number, tokens, writing)


def _part(target: Target, number: int, tokens: int, writing: Writing) -> list[Encoded]:
    """One part of the text, from its own prompts."""
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
    """Replies to prompts of any length, as one batch, cut after the end-of-turn token."""
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
    """Endless batches of prompts from training documents, each with the room for a reply.

    Batched by the length of the reply in the data, which foretells that of the target's: a batch
    takes as long as its longest reply.
    """
    documents = corpus.load(writing.data)
    longest, rows = min(writing.longest, target.context // 2), writing.rows
    rng = random.Random(f"{writing.seed} {part}")
    waiting: list[tuple[int, list[int]]] = []
    while True:
        # Every part, and every pass of one, shuffles the documents anew.
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
    """What comes before a reply, and the reply's length; of a plain text a few tokens."""
    ids, mask = encoded
    if mask[0]:  # a long text, a book say, has something to go on from in many places
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
