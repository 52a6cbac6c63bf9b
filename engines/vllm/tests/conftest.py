"""Engines, prompts and `moa_core`'s own answers, for vLLM on one thread in float32.

In float32 alone is a text the same whatever else is in its batch.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

os.environ |= {
    "OMP_NUM_THREADS": "1",
    "KMP_BLOCKTIME": "0",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # so that tests see inside
    "VLLM_NO_USAGE_STATS": "1",
}

import pytest
import torch
from helpers import CHAIN, COUNT, Chain, Recorded, Step, make
from moa_vllm import proposer
from moa_vllm.proposer import MoAProposer
from transformers import AutoModelForCausalLM, AutoTokenizer
from vllm import LLM

from moa_core.assets import ASSETS
from moa_core.drafters.moa import MoADrafter
from moa_core.loading.catalog import files_of, locate
from moa_core.loading.drafter_files import build_drafter
from moa_core.model.target import Target
from moa_core.untrusted import read_config, read_tensors


@pytest.fixture(scope="session")
def folder() -> Path:
    """The default target as a transformers folder."""
    return files_of("smollm2-135m")


@pytest.fixture(scope="session")
def engine(folder: Path) -> LLM:
    """vLLM with MoA."""
    return make(folder)


@pytest.fixture(scope="session")
def plain(folder: Path) -> LLM:
    return make(folder, None)


@pytest.fixture(scope="session")
def prompts(folder: Path) -> list[list[int]]:
    """The token ids of 40 short questions."""
    tokenizer = AutoTokenizer.from_pretrained(folder)
    found: list[list[int]] = []
    chat = partial(tokenizer.apply_chat_template, add_generation_prompt=True)
    for name in ("qa", "alpaca"):
        lines = (ASSETS / "questions" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
        questions = sorted((json.loads(line)["turns"][0] for line in lines), key=len)[:20]
        for question in questions:
            found.append(chat([{"role": "user", "content": question}])["input_ids"])
    return found


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """Every text that was drafted for during the test, and its drafts."""
    found: Recorded = []
    own = MoAProposer.propose

    def propose(self: Any, new: Any, counts: Any, tokens: Any, slot_mappings: Any = None) -> Any:
        drafts = own(self, new, counts, tokens, slot_mappings)
        for row, draft in enumerate(drafts):
            if draft:
                found.append(Step(tokens[row, : counts[row]].tolist(), draft, len(new[row]) - 1))
        return drafts

    monkeypatch.setattr(MoAProposer, "propose", propose)
    return found


@pytest.fixture(scope="session")
def model(folder: Path) -> Any:
    """The target in transformers."""
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


@pytest.fixture(scope="session")
def own(folder: Path, model: Any) -> tuple[Target, MoADrafter]:
    """`moa_core`'s target and drafter, in torch."""
    target = Target(model.requires_grad_(False), AutoTokenizer.from_pretrained(folder), "own")
    place = locate("moa-n0")
    assert isinstance(place, Path)
    drafter = build_drafter(read_config(place), read_tensors(place), target, None, "moa-n0")
    assert isinstance(drafter, MoADrafter)
    return target, drafter


@pytest.fixture(scope="session")
def chain(own: tuple[Target, MoADrafter]) -> Chain:
    """`moa_core`'s drafts after a text, from nothing but the text."""

    @torch.inference_mode()
    def drafts(ids: list[int]) -> list[int]:
        target, drafter = own[0].fork(), own[1].fork()
        capacity = len(ids) + 2 * COUNT
        drafter.open(target, capacity)
        _, observed = target.prefill(ids[:-1], capacity)
        drafter.observe(observed.ids, drafter.server_outputs(observed))
        return list(drafter.propose(ids[-1], CHAIN).tokens[1:])

    return drafts


@pytest.fixture(autouse=True)
def said(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The lines that the proposer logged as errors: a test that expects some clears them."""
    lines: list[str] = []
    monkeypatch.setattr(proposer.logger, "error", lambda line, *values: lines.append(line % values))
    yield lines
    assert not lines
