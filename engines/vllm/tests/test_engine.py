"""Inside vLLM: the same K and V, the same drafts, the same text, and nothing left behind."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers import (
    CHAIN,
    COUNT,
    Chain,
    Recorded,
    check,
    free_blocks,
    make,
    scheduler,
    texts,
)
from moa_vllm.kv import token_vectors
from moa_vllm.proposer import MoAProposer
from vllm import LLM, SamplingParams

from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Drafted
from moa_core.drafters.moa import MoADrafter
from moa_core.model.target import Target


def test_keys_and_values_are_those_of_transformers(
    engine: LLM, model: Any, prompts: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[int, torch.Tensor] = {}
    own = MoAProposer._observe

    def observe(self: Any, tokens: Any, table: Any, starts: list[int], ends: list[int]) -> None:
        own(self, tokens, table, starts, ends)
        for row, end in enumerate(ends):
            slots = self._slots(table[row : row + 1], torch.arange(end)[None])[0]
            seen[int(tokens[row, :9].sum())] = token_vectors(self._drafter._layers, slots)

    monkeypatch.setattr(MoAProposer, "_observe", observe)
    asked = prompts[:1]
    (text,) = texts(engine, asked)
    (found,) = seen.values()  # [n, L, W] after the last step
    ids = (asked[0] + text)[: len(found)]
    assert len(ids) > len(asked[0]) + 20
    with torch.no_grad():
        cache = model(torch.tensor([ids]), use_cache=True).past_key_values
    for place, layer in enumerate(cache.layers):
        wanted = torch.stack([layer.keys[0], layer.values[0]], 1)  # [G, 2, n, d]
        wanted = wanted.permute(2, 0, 1, 3).flatten(1)
        torch.testing.assert_close(found[:, place], wanted, rtol=1e-4, atol=2e-4)


def test_drafts_are_those_of_moa_core(
    engine: LLM, own: tuple[Target, MoADrafter], prompts: list[list[int]], recorded: Recorded
) -> None:
    target, drafter = own
    for prompt in prompts[::2]:
        recorded.clear()
        texts(engine, [prompt], max_tokens=16)
        events = decode(target, drafter, prompt, Settings(16, CHAIN, eos_ids=()))
        cycles = [list(event.tree.tokens) for event in events if isinstance(event, Drafted)]
        found = [[step.text[-1], *step.drafts] for step in recorded]
        # Neither drafts more than the text has room for, but vLLM learns of its end a step later.
        assert len(found) - 1 <= len(cycles) <= len(found)
        for theirs, ours in zip(found, cycles, strict=False):
            assert theirs[: len(ours)] == ours


def test_tau_is_that_of_generate(engine: LLM, prompts: list[list[int]], recorded: Recorded) -> None:
    lengths: list[int] = []
    some, tokens = prompts[::10], 32
    for prompt in some:
        ids = ",".join(map(str, prompt))
        command = [
            sys.executable, "-m", "moa_core", "generate", "--prompt-ids", ids,
            "--tree", f"{COUNT}-1-{COUNT}", "--max-new-tokens", str(tokens), "--ignore-eos",
            "--drafter", "moa-n0", "--dtype", "float32", "--threads", "1", "--json",
        ]  # fmt: skip
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        lengths += json.loads(done.stdout)["accepted_lengths"]
    texts(engine, some, max_tokens=tokens)
    calls = len(recorded) - len(some)  # after each prompt nothing was verified yet
    tau = 1 + sum(step.accepted for step in recorded) / calls
    assert tau == pytest.approx(sum(lengths) / len(lengths), rel=0.02)


def test_the_greedy_text_is_vllms_own(
    engine: LLM, plain: LLM, prompts: list[list[int]], recorded: Recorded
) -> None:
    assert texts(engine, prompts, max_tokens=24) == texts(plain, prompts, max_tokens=24)
    accepted = sum(step.accepted for step in recorded)
    assert 40 < accepted < len(recorded) * COUNT / 2  # both happened


def test_chunks_of_a_prompt_and_a_shared_prefix(
    folder: Path, plain: LLM, prompts: list[list[int]], recorded: Recorded, chain: Chain
) -> None:
    few = make(folder, max_num_batched_tokens=40, max_num_seqs=4)
    shared = [token for prompt in prompts[:3] for token in prompt]
    asked = [shared + prompt for prompt in prompts[6:9]]
    wanted = texts(plain, asked, max_tokens=16)
    free = free_blocks(few)
    assert texts(few, asked, max_tokens=16) == wanted
    check(recorded, chain, 6)
    recorded.clear()
    again = few.generate(
        [{"prompt_token_ids": one} for one in asked],
        SamplingParams(temperature=0, max_tokens=16, ignore_eos=True),
        use_tqdm=False,
    )
    assert min(one.num_cached_tokens for one in again) > len(shared) // 2
    assert [list(one.outputs[0].token_ids) for one in again] == wanted
    check(recorded, chain, 6)
    assert free_blocks(few) == free


def test_preemption_when_space_is_short(
    folder: Path, plain: LLM, prompts: list[list[int]], recorded: Recorded, chain: Chain
) -> None:
    small = make(folder, num_gpu_blocks_override=12, max_model_len=256, block_size=32)
    free, asked = free_blocks(small), prompts[:8]
    found = texts(small, asked, max_tokens=40)
    assert found == texts(plain, asked, max_tokens=40)
    stats = {one.name: getattr(one, "value", 0) for one in small.get_metrics()}
    assert stats["vllm:num_preemptions"] > 0
    check(recorded, chain, 8)
    assert free_blocks(small) == free


def test_sixteen_at_once_and_some_aborted(
    engine: LLM, plain: LLM, prompts: list[list[int]], recorded: Recorded, chain: Chain
) -> None:
    free, core = free_blocks(engine), engine.llm_engine
    wanted = SamplingParams(temperature=0, max_tokens=24, ignore_eos=True)
    for place, prompt in enumerate(prompts[:16]):
        core.add_request(f"moa-{place}", {"prompt_token_ids": prompt}, wanted)
    found: dict[str, list[int]] = {}
    for step in range(200):
        if step == 6:
            core.abort_request([f"moa-{place}" for place in range(0, 16, 3)])
        for one in core.step():
            if one.finished and one.outputs[0].finish_reason != "abort":
                found[one.request_id] = list(one.outputs[0].token_ids)
        if not core.has_unfinished_requests():
            break
    kept = [place for place in range(16) if place % 3]
    expected = texts(plain, [prompts[place] for place in kept], max_tokens=24)
    assert found == {f"moa-{place}": ids for place, ids in zip(kept, expected, strict=True)}
    check(recorded, chain, 8)
    assert free_blocks(engine) == free and not scheduler(engine).requests


def test_texts_up_to_the_models_limit(
    folder: Path, prompts: list[list[int]], recorded: Recorded, chain: Chain
) -> None:
    length = max(map(len, prompts[:4])) + 20
    short = make(folder, max_model_len=length)
    found = texts(short, prompts[:4], max_tokens=length)
    assert [len(prompt) + len(ids) for prompt, ids in zip(prompts, found, strict=False)] == [
        length
    ] * 4
    check(recorded, chain, 8)  # also for those whose neighbour was nearly full
    assert any(len(step.drafts) < COUNT for step in recorded)


def test_sampled_text_follows_the_targets_distribution(
    engine: LLM, model: Any, recorded: Recorded
) -> None:
    """On a processor nothing is drafted for it: see docs/vllm.md."""
    count, length = 160, 2
    prompt = engine.get_tokenizer().encode("The capital of France is the city of")
    ends = texts(engine, [prompt] * count, temperature=1.0, max_tokens=length)
    found = Counter(map(tuple, ends))
    assert not recorded
    likely: dict[tuple[int, ...], float] = {(): count}  # texts expected five times or more
    for _ in range(length):
        longer: dict[tuple[int, ...], float] = {}
        for text, times in likely.items():
            with torch.no_grad():
                chances = model(torch.tensor([[*prompt, *text]])).logits[0, -1].softmax(-1)
            often = (chances * times >= 5).nonzero()[:, 0].tolist()
            longer |= {(*text, token): float(chances[token]) * times for token in often}
        likely = longer
    bins = [(found[text], times) for text, times in likely.items()]
    rest = count - sum(times for _, times in bins)
    bins.append((count - sum(seen for seen, _ in bins), rest))
    statistic = sum((seen - times) ** 2 / times for seen, times in bins)  # Pearson's
    assert rest > 5 and len(bins) > 3
    assert statistic < len(bins) + 4 * (2 * len(bins)) ** 0.5


def test_an_exception_ends_no_request(
    engine: LLM, plain: LLM, prompts: list[list[int]], monkeypatch: pytest.MonkeyPatch,
    said: list[str], recorded: Recorded, chain: Chain,
) -> None:  # fmt: skip
    drafter = engine_drafter(engine)
    own, calls = drafter.observe, []

    def observe(*given: Any) -> None:
        calls.append(0)
        if 3 <= len(calls) <= 5:
            raise RuntimeError("no room")
        own(*given)

    monkeypatch.setattr(drafter, "observe", observe)
    assert texts(engine, prompts[:4]) == texts(plain, prompts[:4])
    assert said == ["MoA drafts nothing in this step: RuntimeError: no room"]
    check(recorded, chain, 8)  # what was missed is made up for
    said.clear()


def engine_drafter(engine: LLM) -> Any:
    worker = engine.llm_engine.engine_core.engine_core.model_executor.driver_worker
    return getattr(worker, "worker", worker).model_runner.drafter._drafter
