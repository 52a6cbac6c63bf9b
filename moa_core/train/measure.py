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

from moa_core.decode import Settings, decode
from moa_core.drafters.base import Drafter
from moa_core.target import Target
from moa_core.text import prompt_ids, tokenizer_of
from moa_core.trace import Trace
from moa_core.train import corpus, sources, tasks
from moa_core.train.hub_data import Rows
from moa_core.train.own_text import answers
from moa_core.tree import TreeSettings

SAMPLES = (
    "Write a story that begins: Once upon a time there was a little fox who",
    "Write a story with the words: boat, storm, brave.",
    "I'd like to find a restaurant for dinner tonight.",
    "Tom has 14 apples. He gets 9 more and then gives away 6. How many apples does he have now?",
)


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
def heldout_loss(target: Target, data: Path, most: int = 100) -> dict[str, float]:
    """Nats per reply token on held-out documents, by kind; at most so many documents of each."""
    by_kind: dict[str, list[corpus.Document]] = defaultdict(list)
    for document in corpus.epoch(sources.load(data), 0, 0, "heldout", 600):
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


def samples(target: Target, sample: bool = False, longest: int = 160) -> list[tuple[str, str]]:
    """A few prompts and what the target makes of them."""
    tokenizer = tokenizer_of(target)
    prompts = [prompt_ids(tokenizer, prompt) for prompt in SAMPLES]
    replies = answers(target, prompts, longest, sample)
    texts = tokenizer.batch_decode(replies, skip_special_tokens=True)
    return list(zip(SAMPLES, texts, strict=True))


def heldout_prompts(
    target: Target, data: Path | str, each: int, seed: int = 0
) -> dict[str, list[list[int]]]:
    """Prompts that nothing was trained on, by kind: chats up to their last reply.

    data  a folder of text, or the name of a data set
    """
    if isinstance(data, str):
        documents = iter(Rows(data).heldout(4 * each))
    else:
        documents = corpus.epoch(sources.load(data), seed, 0, "heldout", 12 * each)
    found: dict[str, list[list[int]]] = defaultdict(list)
    for document in documents:
        if document.messages is None or len(found[document.kind]) == each:
            continue
        # None of it where a template refuses such a chat.
        for ids, mask in corpus.encode_many([document], tokenizer_of(target)):
            starts = [n for n in range(1, len(mask)) if mask[n] and not mask[n - 1]]
            if starts and starts[-1] + 128 < target.context:
                found[document.kind].append(ids[: starts[-1]])
    return found


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
