"""What trained models can do: tasks right, held-out loss, samples; acceptance of drafters."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Trace
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.base import Drafter
from moa_core.model.target import Target
from moa_core.text import prompt_ids, tokenizer_of
from moa_core.train import corpus, sources
from moa_core.train.bundle import tasks
from moa_core.train.hub_data import Rows
from moa_core.train.own_text import PLAIN_START, answers


def task_accuracy(target: Target, per_kind: int = 100, seed: int = 0) -> dict[str, float]:
    """Share of held-out tasks answered right, greedy, by kind and over all."""
    rng = random.Random(seed)
    scores = {}
    for kind in tasks.KINDS:
        posed = [tasks.generate(kind, rng, held_out=True) for _ in range(per_kind)]
        prompts = [prompt_ids(tokenizer_of(target), task.prompt) for task in posed]
        replies = answers(target, prompts, 120)
        texts = tokenizer_of(target).batch_decode(replies, skip_special_tokens=True)
        right = [tasks.check(task, text) for task, text in zip(posed, texts, strict=True)]
        scores[kind] = sum(right) / per_kind
    return {**scores, "all": sum(scores.values()) / len(scores)}


@torch.inference_mode()
def heldout_loss(target: Target, data: Path, most: int = 100, tasks: int = 0) -> dict[str, float]:
    """Nats per reply token on held-out documents and tasks, by kind; at most so many of each."""
    by_kind: dict[str, list[corpus.Document]] = defaultdict(list)
    for document in corpus.epoch(sources.load(data), 0, 0, "heldout", tasks):
        by_kind[document.kind].append(document)
    losses = {}
    for kind, documents in sorted(by_kind.items()):
        total, count = 0.0, 0
        for encoded in corpus.encode_many(islice(documents, most), tokenizer_of(target)):
            ids = torch.tensor([encoded.ids[: target.context]], device=target.device)
            reply = torch.tensor(encoded.mask[1 : target.context], device=target.device)
            logits = target.model(input_ids=ids).logits[0, :-1].float()
            total += float(F.cross_entropy(logits, ids[0, 1:], reduction="none")[reply].sum())
            count += int(reply.sum())
        losses[kind] = round(total / max(1, count), 4)
    return losses


def samples(
    target: Target, prompts: list[list[int]], sample: bool = False, longest: int = 160
) -> list[tuple[str, str]]:
    """Prompts and what the target makes of them."""
    tokenizer = tokenizer_of(target)
    replies = answers(target, prompts, longest, sample)
    asked, said = (tokenizer.batch_decode(x, skip_special_tokens=True) for x in (prompts, replies))
    return list(zip(asked, said, strict=True))


def heldout_prompts(
    target: Target, data: Path | str, each: int, tasks: int = 0
) -> dict[str, list[list[int]]]:
    """Prompts that nothing was trained on, by kind: chats up to their last reply, texts' openings.

    data   a folder of text, or the name of a data set
    tasks  more than none for prompts of generated tasks, too
    """
    if isinstance(data, str):
        documents = iter(Rows(data).heldout(4 * each))
    else:
        documents = corpus.epoch(sources.load(data), 0, 0, "heldout", 12 * each if tasks else 0)
    found: dict[str, list[list[int]]] = defaultdict(list)
    for document in documents:
        if len(found.get(document.kind, ())) == each:
            continue
        # None of it where a template refuses such a chat.
        for ids, mask in corpus.encode_many([document], tokenizer_of(target)):
            starts = [n for n in range(1, len(mask)) if mask[n] and not mask[n - 1]]
            if mask[0]:
                starts = [min(PLAIN_START, len(ids) // 2)]
            if starts and 0 < starts[-1] < target.context - 128:
                found[document.kind].append(ids[: starts[-1]])
    return dict(found)


def acceptance(
    target: Target,
    drafter: Drafter,
    prompts: dict[str, list[list[int]]],
    tree: TreeSettings,
    max_new_tokens: int = 128,
) -> dict[str, Any]:
    """Acceptance length by kind and over all, and speed, of greedy decoding.

    tau  tokens gained per target forward after the prefill, bonus included
    """
    settings = Settings(max_new_tokens, tree, eos_ids=target.eos_ids)
    gained: dict[str, int] = defaultdict(int)
    calls: dict[str, int] = defaultdict(int)
    tokens, seconds = 0, 0.0
    for kind, of_kind in prompts.items():
        for ids in of_kind:
            trace = Trace(events=list(decode(target, drafter, ids, settings)))
            gained[kind] += sum(trace.accepted_lengths)
            calls[kind] += len(trace.accepted_lengths)
            tokens += len(trace.output_ids) - 1
            seconds += sum(v for phase, v in trace.seconds.items() if phase != "prefill")
    return {
        "tree": asdict(tree),
        "tau": round(sum(gained.values()) / max(1, sum(calls.values())), 3),
        "tau_by_kind": {kind: round(gained[kind] / max(1, calls[kind]), 3) for kind in gained},
        "tokens_per_second": round(tokens / seconds, 1),
        "prompts": sum(map(len, prompts.values())),
    }


def best_tree(
    target: Target, drafter: Drafter, prompts: dict[str, list[list[int]]], trees: list[TreeSettings]
) -> list[dict[str, Any]]:
    """Every tree measured, the one of most tokens per second first."""
    results = [acceptance(target, drafter, prompts, tree) for tree in trees]
    return sorted(results, key=lambda result: -result["tokens_per_second"])
