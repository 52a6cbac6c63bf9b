"""Answers that the target writes: drafters will be verified against such text."""

import json
import os
import random
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from tqdm import tqdm

from moa_core.errors import UserError, saying
from moa_core.model.cache import KVCache
from moa_core.model.target import Target
from moa_core.text import prompt_ids, tokenizer_of
from moa_core.train.prompts import prompts_in

OWN_TEXT = "own_text.npz"  # in the folder of a run
CONTEXT = 1568  # tokens of a chat, at most
GROUP = 8  # prompts of like length that are read at a time
SORTED = 8  # prompts for each row, sorted by length: so rows that run together are as long
TELL = 2.0  # seconds between two steps of the progress bar


@dataclass(frozen=True)
class Writing:
    """How answers are written.

    prompts  file of JSON lines, each with a `prompt` or `messages`
    rows     chats that are answered at a time
    longest  tokens of an answer, at most
    """

    prompts: Path
    seed: int = 0
    rows: int = 96
    longest: int = 512

    def within(self, target: Target) -> tuple[int, int]:
        """Most tokens of a chat, and of an answer, for this target."""
        context = min(CONTEXT, target.context)
        return context, min(self.longest, context // 2)


@dataclass
class Chat:
    """A prompt being answered.

    place  its line in the prompts' file
    heat   temperature; 0 is greedy
    ids    all tokens so far
    start  of the answer in `ids`
    """

    place: int
    heat: float
    ids: list[int]
    start: int

    @property
    def written(self) -> int:
        """Tokens of the answer so far."""
        return len(self.ids) - self.start


class Encoded(NamedTuple):
    """A document's token ids, and a mask of the reply's."""

    ids: list[int]
    mask: list[bool]


def write(target: Target, path: Path, tokens: int, writing: Writing, processes: int = 1) -> None:
    """Let the target answer prompts until it has written `tokens` tokens; save them.

    Half of the chats are greedy, half at a temperature from 0.8 to 1. An existing file is kept, and
    an interrupted run goes on with the chats that it has not finished. On a CPU, several processes
    of one thread each are the fastest.
    """
    if path.exists():
        return
    for part in _parts(path):  # a kill may cut a line
        os.truncate(part, part.read_bytes().rfind(b"\n") + 1)
    before = _finished(path)
    done, left = {chat.place for chat in before}, tokens - sum(chat.written for chat in before)
    shares = [(path, n, processes, left // processes + 1, done) for n in range(processes)]
    with tqdm(total=tokens, initial=tokens - left, unit="tok", desc="answers, when whole") as bar:
        if processes == 1:
            _write_part(target, writing, *shares[0], bar.update)
        else:
            with _Workers(processes) as pool:
                jobs = [pool.submit(_write_part, target, writing, *share) for share in shares]
                while wait(jobs, TELL).not_done:
                    bar.update(sum(chat.written for chat in _finished(path)) - bar.n)
                for job in jobs:
                    job.result()
    texts = [
        Encoded(chat.ids, [False] * chat.start + [True] * chat.written) for chat in _finished(path)
    ]
    if not texts:
        raise UserError(
            f"{writing.prompts} has no prompt for training that {target.name}, which reads "
            f"{target.context} tokens, can answer."
        )
    random.Random(writing.seed).shuffle(texts)
    save(path, texts)
    for part in _parts(path):
        part.unlink()


def _parts(path: Path) -> list[Path]:
    """The files of finished chats, one of each process, also of a run with more processes."""
    return sorted(path.parent.glob(f"{path.stem}.*.jsonl"))


def _write_part(
    target: Target, writing: Writing, path: Path, number: int, of: int, tokens: int, done: set[int],
    tell: Callable[[int], object] = lambda count: None,
) -> None:  # fmt: skip
    """Append this part's chats to its file as they are finished.

    tokens  of the target, after which it ends
    done    places of chats that are in a part's file already
    tell    is called with the tokens of each finished chat
    """
    asked = prompts_in(writing.prompts)
    left = [(at, prompt) for at, prompt in asked if at % of == number and at not in done]
    torch.manual_seed(writing.seed * 1_009 + number + len(done))
    written = 0
    with path.with_name(f"{path.stem}.{number}.jsonl").open("a", encoding="utf-8") as file:
        for chat in Writer(target, writing).answered(_chats(target, left, writing)):
            spans = [[chat.start, len(chat.ids)]]
            line = {"place": chat.place, "ids": chat.ids, "spans": spans}
            file.write(json.dumps(line) + "\n")
            file.flush()
            tell(chat.written)
            written += chat.written
            if written >= tokens:
                return


def _chats(target: Target, asked: Sequence[tuple[int, str]], writing: Writing) -> Iterator[Chat]:
    """The chats that fit, those of like length together."""
    tokenizer, many = tokenizer_of(target), writing.rows * SORTED
    context, longest = writing.within(target)
    for at in range(0, len(asked), many):
        group = []
        for place, prompt in asked[at : at + many]:
            rng = random.Random(f"{writing.seed} {place}")
            heat = 0.0 if rng.random() < 0.5 else rng.uniform(0.8, 1.0)
            try:
                ids = prompt_ids(tokenizer, prompt)
            except UserError:  # empty or too long
                continue
            if len(ids) <= context - longest:
                group.append(Chat(place, heat, ids, len(ids)))
        yield from sorted(group, key=lambda chat: len(chat.ids))


class Writer:
    """Answers many chats at a time; a row whose chat ends gets the next one."""

    def __init__(self, target: Target, writing: Writing) -> None:
        self._target, (self._context, self._longest) = target, writing.within(target)
        self._cache = _Rows(target, writing.rows, self._context)
        self._chats: list[Chat | None] = [None] * writing.rows

    @torch.inference_mode()
    def answered(self, chats: Iterator[Chat]) -> Iterator[Chat]:
        """Each chat when its answer has ended."""
        more = True
        while True:
            free = [row for row, chat in enumerate(self._chats) if chat is None]
            if more and len(free) >= max(1, len(self._chats) // 12):
                more = self._fill(free, chats)
            live = {row: chat for row, chat in enumerate(self._chats) if chat is not None}
            if not live:
                return
            for row, chat in [*live.items()]:
                if self._ended(chat):
                    self._chats[row] = None
                    del live[row]
                    yield chat
            if live:
                logits = self._cache.step({row: chat.ids for row, chat in live.items()})
                self._choose(list(live.values()), logits[list(live)])

    def _fill(self, free: Sequence[int], chats: Iterator[Chat]) -> bool:
        """Read new chats into free rows. Returns whether there may be more."""
        new = sorted(islice(chats, len(free)), key=lambda chat: len(chat.ids))
        for start in range(0, len(new), GROUP):
            part = new[start : start + GROUP]
            rows = list(free[start : start + len(part)])
            logits = self._cache.read(rows, [chat.ids for chat in part])
            for row, chat in zip(rows, part, strict=True):
                self._chats[row] = chat
            self._choose(part, logits)
        return len(new) == len(free)

    def _ended(self, chat: Chat) -> bool:
        full = chat.written >= self._longest or len(chat.ids) >= self._context
        return full or chat.ids[-1] in self._target.eos_ids

    def _choose(self, chats: Sequence[Chat], logits: Tensor) -> None:
        """Append the next token of each chat, from logits [n, V]."""
        heats = torch.tensor([chat.heat for chat in chats], device=logits.device)
        chosen, hot = logits.argmax(-1), heats > 0
        if hot.any():
            probs = (logits[hot].float() / heats[hot, None]).softmax(-1)
            chosen[hot] = probs.multinomial(1)[:, 0]
        for chat, token in zip(chats, chosen.tolist(), strict=True):
            chat.ids.append(token)


class _Rows:
    """K and V of many chats, a row each, in place of a cache of one text."""

    def __init__(self, target: Target, rows: int, capacity: int) -> None:
        shape = len(target.layers), rows, target.kv_heads, capacity, target.head_dim
        self._keys = torch.zeros(shape, device=target.device, dtype=target.dtype)
        self._values = torch.zeros_like(self._keys)
        self._target, self.capacity = target, capacity
        self._rows, self._places = torch.empty(0), torch.empty(0)  # [n], [n, T] of new tokens
        self._seen: int | None = None  # slots that are read; None: of the new tokens alone

    def read(self, rows: Sequence[int], texts: Sequence[list[int]]) -> Tensor:
        """Logits [n, V] after texts, which go into these rows."""
        device = self._keys.device
        lengths = torch.tensor([len(text) for text in texts], device=device)
        # What follows a text's end is not seen, nor kept long.
        ids = pad_sequence([torch.tensor(text) for text in texts], batch_first=True).to(device)
        self._rows, self._seen = torch.tensor(rows, device=device)[:, None], None
        self._places = torch.arange(ids.shape[1], device=device).expand_as(ids)
        hidden = self._forward(ids, None)
        return self._target.head(hidden[torch.arange(len(texts), device=device), lengths - 1])

    def step(self, texts: dict[int, list[int]]) -> Tensor:
        """Logits [rows, V] after the newest token of each row's text; others are of no use."""
        rows, device = self._keys.shape[1], self._keys.device
        ids, places = torch.zeros(2, rows, 1, dtype=torch.long)
        for row, text in texts.items():
            ids[row], places[row] = text[-1], len(text) - 1
        ids, places = ids.to(device), places.to(device)
        self._rows, self._places = torch.arange(rows, device=device)[:, None], places
        self._seen = int(places.max()) + 1
        mask = torch.arange(self._seen, device=device) <= places  # [rows, T]
        return self._target.head(self._forward(ids, mask[:, None, None])[:, 0])

    def _forward(self, ids: Tensor, mask: Tensor | None) -> Tensor:
        target, cache = self._target, cast(KVCache, self)
        embedded = target.embed(ids)
        return target.read_layers(embedded, self._places, mask, cache, len(target.layers))

    def update(
        self, keys: Tensor, values: Tensor, layer: int, *_: Any, **__: Any
    ) -> tuple[Tensor, Tensor]:
        held = self._keys[layer], self._values[layer]  # [rows, G, capacity, d]
        for all_of, new in zip(held, (keys, values), strict=True):
            all_of.transpose(1, 2)[self._rows, self._places] = new.transpose(1, 2)
        if self._seen is None:
            return keys, values
        keys, values = (one[:, :, : self._seen] for one in held)
        return keys, values


def _finished(path: Path) -> list[Chat]:
    """The chats in all parts' files; their heat is not kept."""
    texts = (part.read_text(encoding="utf-8") for part in _parts(path))
    rows = [json.loads(line) for text in texts for line in text.split("\n")[:-1]]
    return [Chat(row["place"], 0.0, row["ids"], row["spans"][0][0]) for row in rows]


class _Workers(ProcessPoolExecutor):
    """A pool of processes of one thread each, which end with this process, however it ends: else
    they would go on for hours, and write into the files of the next run.

    Processes are spawned because tokenizers and torch do not survive a fork with threads.
    """

    def __init__(self, count: int) -> None:
        super().__init__(count, get_context("spawn"), _begin)

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is not None:
            for process in [*self._processes.values()]:
                process.terminate()
        self.shutdown()


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # without a traceback
    torch.set_num_threads(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if parent := parent_process():
        parent.join()
    os._exit(1)


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
    damaged = saying(f"{path} cannot be read; delete it to get new answers")
    with damaged, path.open("rb") as opened, np.load(opened) as file:
        ends = file["lengths"].cumsum()[:-1]
        ids, mask = np.split(file["ids"], ends), np.split(file["mask"], ends)
    return [Encoded(a.tolist(), b.tolist()) for a, b in zip(ids, mask, strict=True)]
