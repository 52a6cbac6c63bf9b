"""Engines, and what tests ask of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from vllm import LLM, SamplingParams

from moa_core.decoding.tree import TreeSettings

COUNT = 5  # drafts at a time
CHAIN = TreeSettings(COUNT, 1, COUNT)
MOA = {
    "method": "custom_class",
    "model": "moa_vllm.MoAProposer",
    "num_speculative_tokens": COUNT,
}
Chain = Callable[[list[int]], list[int]]  # `moa_core`'s drafts after a text


class Step(NamedTuple):
    """A text, its drafts, and how many of the drafts before were accepted."""

    text: list[int]
    drafts: list[int]
    accepted: int


Recorded = list[Step]


# In one process, an engine that goes takes the others' parallel groups with it.
KEPT: list[LLM] = []


def make(folder: Path, speculative: Any = MOA, **options: Any) -> LLM:
    sizes = {"max_model_len": 512, "max_num_seqs": 16, "seed": 0, **options}
    engine = LLM(
        str(folder),
        dtype="float32",
        enforce_eager=True,
        disable_log_stats=False,
        speculative_config=speculative,
        **sizes,
    )
    KEPT.append(engine)
    return engine


def texts(engine: LLM, prompts: Sequence[list[int]], **sampling: Any) -> list[list[int]]:
    """What an engine writes after each prompt; greedy unless told otherwise."""
    wanted = SamplingParams(**{"temperature": 0, "max_tokens": 32, "ignore_eos": True} | sampling)
    asked = [{"prompt_token_ids": prompt} for prompt in prompts]
    found = engine.generate(asked, wanted, use_tqdm=False)
    return [list(one.outputs[0].token_ids) for one in found]


def scheduler(engine: LLM) -> Any:
    return engine.llm_engine.engine_core.engine_core.scheduler


def free_blocks(engine: LLM) -> int:
    return scheduler(engine).kv_cache_manager.block_pool.get_num_free_blocks()


def check(recorded: Recorded, chain: Chain, count: int) -> None:
    """Some of the drafts, from the first to the last, are `moa_core`'s own."""
    some = recorded[:: max(1, len(recorded) // count)]
    assert some
    for step in some:
        assert step.drafts == chain(step.text)[: len(step.drafts)]
