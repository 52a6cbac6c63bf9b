"""Speeds of drafting methods inside one vLLM: `python bench.py`, on one thread of a CPU.

Text is greedy, in float32, so that it does not depend on the batch. Speeds are by the clock and by
processor time; the latter counts on a machine that does other work as well.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

os.environ |= {
    "OMP_NUM_THREADS": "1",
    "KMP_BLOCKTIME": "0",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # so that processor time is this process's
    "VLLM_NO_USAGE_STATS": "1",
    **os.environ,
}

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from transformers import AutoTokenizer
from vllm import LLM, SamplingParams

from moa_core.assets import ASSETS
from moa_core.loading.catalog import files_of, locate
from moa_core.loading.drafter_files import unpacked
from moa_core.untrusted import read_config, read_tensors

METHODS = ("plain", "ngram", "eagle3", "moa")


@dataclass
class Row:
    """One method in batches of one size. Speeds in tokens per second."""

    method: str
    batch: int
    clock: float
    processor: float
    tau: float | None  # tokens per call of the target, prompts aside
    accepted: list[float]  # share of drafts accepted, by position
    same: bool  # whether the text is that of plain decoding, one by one


def speculative(method: str, options: argparse.Namespace, work: Path) -> Any:
    """vLLM's settings for a method."""
    count = {"num_speculative_tokens": options.drafts}
    match method:
        case "plain":
            return {}
        case "ngram":
            found = {"method": "ngram", "prompt_lookup_min": 2, "prompt_lookup_max": 4}
        case "eagle3":
            write_eagle3(files_of(locate(options.eagle3)), options.target, work)
            found = {"method": "eagle3", "model": str(work)}
        case _:
            found = {"method": "custom_class", "model": "moa_vllm.MoAProposer"}
    drafter = {"additional_config": {"moa": {"drafter": options.moa}}} if method == "moa" else {}
    return {"speculative_config": {**found, **count}, **drafter}


def write_eagle3(source: Path, target: Path, folder: Path) -> None:
    """Our EAGLE-3 head in vLLM's format, with the target's rows for its draft vocabulary."""
    config, own = read_config(source), read_config(target)
    tensors = unpacked(read_tensors(source), source.name)
    tensors["d2t"] = tensors["d2t"].long()
    words = tensors["d2t"] + torch.arange(len(tensors["d2t"]))
    with safe_open(target / "model.safetensors", framework="pt") as file:
        tied = "lm_head.weight" not in set(file.keys())
        name = "model.embed_tokens.weight" if tied else "lm_head.weight"
        tensors["lm_head.weight"] = file.get_tensor(name)[words].contiguous()
    shape = "intermediate_size", "num_attention_heads", "num_key_value_heads"
    sizes = {key: config[key] for key in shape}
    layers = config["drafter"]["layers"]
    more = {
        "architectures": ["LlamaForCausalLMEagle3"], "num_hidden_layers": 1,
        "tie_word_embeddings": False, "draft_vocab_size": len(words),
        "eagle_aux_hidden_state_layer_ids": layers,
        **{key: config.get(key, False) for key in ("norm_before_residual", "norm_output")},
        "norm_before_fc": "input_norm.weight" in tensors, "fc_norm": "fc_norm.0.weight" in tensors,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps({**own, **sizes, **more}))
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})


def prompts(target: Path, count: int) -> list[list[int]]:
    """Token ids of questions, in turn from each of the paper's sets."""
    chat = AutoTokenizer.from_pretrained(target).apply_chat_template
    sets = [
        sorted((json.loads(line)["turns"][0] for line in path.read_text().splitlines()), key=len)
        for path in sorted((ASSETS / "questions").glob("*.jsonl"))
    ]
    turns = [questions[place] for place in range(count) for questions in sets][:count]
    return [
        chat([{"role": "user", "content": turn}], add_generation_prompt=True)["input_ids"]
        for turn in turns
    ]


def counters(engine: LLM) -> list[float]:
    """Since the start: chains drafted, and tokens accepted at each position."""
    found = {one.name: one for one in engine.get_metrics() if "spec_decode" in one.name}
    if not found:
        return []
    drafts: Any = found["vllm:spec_decode_num_drafts"]
    places: Any = found["vllm:spec_decode_num_accepted_tokens_per_pos"]
    return [drafts.value, *places.values]


def measure(
    engine: LLM, method: str, batch: int, asked: Sequence[list[int]], tokens: int
) -> tuple[Row, list[list[int]]]:
    sampling = SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True)
    engine.reset_prefix_cache()
    before, clock, processor = counters(engine), time.perf_counter(), time.process_time()
    texts: list[list[int]] = []
    for start in range(0, len(asked), batch):
        some = [{"prompt_token_ids": one} for one in asked[start : start + batch]]
        found = engine.generate(some, sampling, use_tqdm=False)
        texts += [list(one.outputs[0].token_ids) for one in found]
    clock, processor = time.perf_counter() - clock, time.process_time() - processor
    drafts, *accepted = [
        now - then for now, then in zip(counters(engine), before or [0.0] * 99, strict=False)
    ] or [0.0]
    count = sum(map(len, texts))
    shares = [round(one / drafts, 3) for one in accepted] if drafts else []
    tau = 1 + sum(accepted) / drafts if drafts else None
    return Row(method, batch, count / clock, count / processor, tau, shares, False), texts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", type=Path, help="a transformers folder; default: smollm2-135m")
    parser.add_argument("--moa", default="moa-n0", help="a MoA drafter, as in `moa generate`")
    parser.add_argument("--eagle3", default="eagle3", help="an EAGLE-3 head of ours, a folder")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--batches", default="1,4,16")
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=48, help="per prompt")
    parser.add_argument("--drafts", type=int, default=5, help="tokens per chain")
    options = parser.parse_args()
    options.target = options.target or files_of("smollm2-135m")
    asked = prompts(options.target, options.prompts)
    first: list[list[int]] | None = None
    for method in options.methods.split(","):
        with TemporaryDirectory() as work:
            engine = LLM(
                str(options.target), dtype="float32", max_model_len=1024, max_num_seqs=16,
                enforce_eager=True, disable_log_stats=False,
                **speculative(method, options, Path(work)),
            )  # fmt: skip
        measure(engine, method, 1, asked[:1], 4)  # warm
        for batch in map(int, options.batches.split(",")):
            row, texts = measure(engine, method, batch, asked, options.tokens)
            first = first or texts
            row.same = texts == first
            print(json.dumps(asdict(row)), flush=True)
        del engine


if __name__ == "__main__":
    main()
