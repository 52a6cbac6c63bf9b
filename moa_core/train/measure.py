"""What a trained target can do: held-out tasks right, held-out loss per kind, samples."""

from __future__ import annotations

import random
from collections import defaultdict
from itertools import islice
from pathlib import Path

import torch
import torch.nn.functional as F

from moa_core.target import Target
from moa_core.text import prompt_ids
from moa_core.train import corpus, sources, tasks
from moa_core.train.own_text import answers

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
        prompts = [prompt_ids(target.tokenizer, task.prompt) for task in posed]
        replies = answers(target, prompts, 120)
        texts = target.tokenizer.batch_decode(replies, skip_special_tokens=True)
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
        for encoded in corpus.encode_many(islice(documents, most), target.tokenizer):
            ids = torch.tensor([encoded.ids[: target.context]], device=target.device)
            reply = torch.tensor(encoded.mask[1 : target.context], device=target.device)
            logits = target.model(input_ids=ids).logits[0, :-1].float()
            total += float(F.cross_entropy(logits, ids[0, 1:], reduction="none")[reply].sum())
            count += int(reply.sum())
        losses[kind] = round(total / max(1, count), 4)
    return losses


def samples(target: Target, sample: bool = False, longest: int = 160) -> list[tuple[str, str]]:
    """A few prompts and what the target makes of them."""
    prompts = [prompt_ids(target.tokenizer, prompt) for prompt in SAMPLES]
    replies = answers(target, prompts, longest, sample)
    texts = target.tokenizer.batch_decode(replies, skip_special_tokens=True)
    return list(zip(SAMPLES, texts, strict=True))
