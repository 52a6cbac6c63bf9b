"""A published pair at its full shape, with random weights: does it run, how fast, in how much?

python -m moa_core.bench.full_shape --preset llama3-8b --out figures.json

Times and memory are those of the true weights; acceptance is not: random drafters are made so that
they are sometimes right, and what they gain says nothing of the published ones. No download.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoModelForCausalLM, PretrainedConfig

from moa_core.bench import targets
from moa_core.bench.hf_generate import generate
from moa_core.bench.machine import commit, machine, versions
from moa_core.bench.profile_rates import LARGE, copied
from moa_core.bench.targets import Split
from moa_core.checkpoints import pick_device, pick_dtype
from moa_core.decode import Settings, decode
from moa_core.drafters.base import Drafter, Vanilla
from moa_core.drafters.eagle import EagleDrafter
from moa_core.drafters.moa import MoADrafter
from moa_core.errors import UserError
from moa_core.exactness import compare_with_plain
from moa_core.loading import Plan, check_room
from moa_core.memory import Need, planned
from moa_core.peers import parameters
from moa_core.presets import PRESETS, Preset, preset
from moa_core.shapes import bare_net, config_of
from moa_core.target import Target
from moa_core.trace import Trace
from moa_core.tree import TreeSettings

WIDTHS = ("hidden_size", "intermediate_size", "kv_hidden_size")  # and every ..._intermediate_size
WHISPER = 0.02  # how much layers say, beside what they pass on


def resized(published: Mapping[str, Any], shrink: int, **sizes: Any) -> dict[str, Any]:
    """A published config with every width divided, and every number of heads as it was."""
    narrow = {
        key: value // shrink
        for key, value in published.items()
        if key in WIDTHS or key.endswith("_intermediate_size")
    }
    return {**published, **narrow, **sizes}


def random_target(config: PretrainedConfig, dtype: torch.dtype, device: torch.device) -> Target:
    """A target of random weights whose next token is mostly far from a tie."""
    torch.manual_seed(0)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="sdpa")
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith(("o_proj.weight", "down_proj.weight")):
                weight.mul_(WHISPER)
        model.get_input_embeddings().weight.normal_(std=1.0)
        model.get_output_embeddings().weight.normal_(std=6 / config.hidden_size**0.5)
    return Target(model.requires_grad_(False), name="random weights")


def random_net(
    published: Mapping[str, Any],
    target: PretrainedConfig,
    dtype: torch.dtype = torch.float32,
    device: str | torch.device = "cpu",
) -> nn.Module:
    """A drafter's net by its published config, which hands on the embeddings it is given."""
    torch.manual_seed(3)
    net = bare_net(published, target).to(dtype).to_empty(device=device)
    width = target.hidden_size
    with torch.no_grad():
        for name, weight in net.named_parameters():
            if weight.ndim == 1:
                weight.fill_(float("norm" in name))
            else:
                quiet = name.endswith(("o_proj.weight", "down_proj.weight"))
                weight.normal_(std=weight.shape[1] ** -0.5 * (WHISPER if quiet else 1))
        if "fc.weight" in net.state_dict():
            eye = torch.eye(width, dtype=dtype, device=device)
            net.get_parameter("fc.weight").copy_(torch.cat([eye, 0.3 * eye], 1))
    return net.requires_grad_(False).eval()


def drafters(
    chosen: Preset, configs: Mapping[str, Any], target: Target, stops: list[int]
) -> dict[str, Drafter]:
    """Plain decoding, MoA for each N with the same net, and EAGLE-2."""

    def net(spec: str) -> Any:
        return random_net(configs[spec], target.config, target.dtype, target.device)

    moa = net(chosen.drafters[min(chosen.drafters)])
    made: dict[str, Drafter] = {"vanilla": Vanilla()}
    made |= {f"moa-n{stop}": MoADrafter(moa, target, stop) for stop in stops}
    return {**made, "eagle2": EagleDrafter(net(chosen.baseline), target)}


def measure(
    target: Target, methods: Mapping[str, Drafter], prompt: list[int], settings: Settings, runs: int
) -> dict[str, Any]:
    """Every method on one prompt: the fastest of some runs after one more, and its text."""
    figures: dict[str, Any] = {}
    plain: list[int] = []
    for name, drafter in methods.items():
        traces = [
            Trace(events=list(decode(target, drafter, prompt, settings))) for _ in range(runs + 1)
        ]
        best = min(traces[1:], key=lambda trace: sum(trace.seconds.values()))
        plain = plain or best.output_ids
        found = compare_with_plain(target, prompt, best.output_ids, plain)
        figures[name] = {
            "tokens_per_second": best.tokens_per_second,
            "decode_tokens_per_second": best.decode_tokens_per_second,
            "tau": best.tau,
            "target_calls": best.target_calls,
            "seconds": best.seconds,
            "draft_ms": 1e3 * best.seconds["draft"] / max(len(best.cycles), 1),
            "verify_ms": 1e3
            * (best.seconds["verify"] + best.seconds["other"])
            / max(len(best.cycles), 1),
            "weights": parameters(getattr(drafter, "net", nn.Module())),
            "text": "as plain" if found.same else asdict(found),
        }
    return figures


def generate_step(target: Target, prompt: list[int], settings: Settings, runs: int) -> float:
    """Seconds of a token of transformers' `generate`, eager, after the first: the fastest run's."""
    made = [generate(target, prompt, settings, {}) for _ in range(runs + 1)][1:]
    return min((one.seconds - one.prefill) / max(len(one.ids) - 1, 1) for one in made)


def peak(device: torch.device) -> int:
    """Most bytes held so far: by tensors on a GPU, else by this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which shape, how much of it, and how long to decode."""
    parser.add_argument("--preset", choices=sorted(PRESETS), default=min(PRESETS))
    parser.add_argument("--layers", type=int, help="instead of all")
    parser.add_argument("--vocabulary", type=int, help="instead of all of it")
    parser.add_argument("--shrink", type=int, default=1, help="divide every width by this")
    parser.add_argument("--tli", default="0,1,3", help="MoA's N, comma separated")
    parser.add_argument("--tree", default="6-8-62", help="depth-breadth-budget")
    parser.add_argument("--prompt-tokens", type=int, default=256)
    parser.add_argument("--max-new-tokens", type=int, default=128)
    parser.add_argument("--repeat", type=int, default=3, help="runs, of which the fastest counts")
    parser.add_argument("--dtype", default="auto", help="auto, float32, bfloat16 or float16")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, mps")
    parser.add_argument("--eager", action="store_true", help="on a GPU, do without CUDA graphs")
    parser.add_argument("--out", type=Path, required=True, help="JSON file")


def run(options: argparse.Namespace) -> dict[str, Any]:
    """Build, decode, write the figures. UserError if it cannot fit."""
    for name in ("layers", "vocabulary", "shrink", "prompt_tokens", "max_new_tokens", "repeat"):
        if (value := getattr(options, name)) is not None and value < 1:
            raise UserError(f"--{name.replace('_', '-')} must be a whole number, at least 1.")
    chosen, device = preset(options.preset), pick_device(options.device)
    dtype = pick_dtype(options.dtype, device)
    configs = _configs(chosen, options)
    config = config_of(configs[chosen.target])
    parts = [planned(configs[spec], config) for spec in chosen.by_method.values()]
    need = check_room(f"{options.preset} with random weights", config, dtype, device, Plan(), parts)
    print(f"needs {need}", flush=True)
    target = random_target(config, dtype, device)
    target.graphs = not options.eager
    methods = drafters(chosen, configs, target, [int(stop) for stop in options.tli.split(",")])
    prompt = torch.randint(config.vocab_size, (options.prompt_tokens,)).tolist()
    settings = Settings(options.max_new_tokens, _tree(options.tree))
    figures = measure(target, methods, prompt, settings, options.repeat)
    step = generate_step(target, prompt, settings, options.repeat)
    report = {**_report(options, target, need, figures), "generate_ms": 1e3 * step}
    options.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    _print(figures, report["floor_ms"], report["generate_ms"])
    return report


def _configs(chosen: Preset, options: argparse.Namespace) -> dict[str, dict[str, Any]]:
    less = {"num_hidden_layers": options.layers, "vocab_size": options.vocabulary}
    found = {}
    for spec, published in chosen.configs.items():
        mine = {key: value for key, value in less.items() if value}
        if spec != chosen.target:
            mine.pop("num_hidden_layers", None)
        found[spec] = resized(published, options.shrink, **mine)
    return found


def _tree(text: str) -> TreeSettings:
    from moa_core.bench.tuning import one_tree

    return one_tree(text)


def _report(
    options: argparse.Namespace, target: Target, need: Need, figures: dict[str, Any]
) -> dict[str, Any]:
    names = ("preset", "layers", "vocabulary", "shrink", "tree", "prompt_tokens", "max_new_tokens")
    return {
        "about": "random weights of the published shape: times and memory mean something, "
        "acceptance does not",
        "settings": {name: getattr(options, name) for name in (*names, "repeat")},
        "target": {
            "parameters": parameters(target.model),
            "layers": len(target.layers),
            "hidden_size": target.config.hidden_size,
            "vocabulary": target.config.vocab_size,
            "dtype": str(target.dtype).removeprefix("torch."),
        },
        "memory": {**asdict(need), "expected": need.total, "peak": peak(target.device)},
        "floor_ms": 1e3 * floor(target, options.prompt_tokens + options.max_new_tokens // 2),
        "methods": figures,
        "machine": machine(target.device),
        "versions": versions(),
        "commit": commit(),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def floor(target: Target, context: int) -> float:
    """Seconds in which memory can hand over what a step of plain decoding reads: weights, K, V."""
    tied = target.config.tie_word_embeddings
    read: int = sum(weight.nbytes for weight in target.model.parameters())
    read -= 0 if tied else target.embed.weight.nbytes
    read += context * len(target.layers) * target.kv_width * target.dtype.itemsize
    return read / copied(target.device, LARGE.get(target.device.type, LARGE["cpu"]))


def _print(figures: Mapping[str, Any], floor_ms: float, generate_ms: float) -> None:
    print("| method | tokens/s | of decoding | tau | text |\n|---|---|---|---|---|")
    for name, one in figures.items():
        keys = ("tokens_per_second", "decode_tokens_per_second", "tau")
        whole, pace, tau = (one[key] or 0 for key in keys)
        text = (
            one["text"] if isinstance(one["text"], str) else f"parts, gap {one['text']['gap']:.2g}"
        )
        print(f"| {name} | {whole:.1f} | {pace:.1f} | {tau:.2f} | {text} |")
    cycles = {name: Split(one["draft_ms"], one["verify_ms"]) for name, one in figures.items()}
    heads, lines = targets.table(cycles, floor_ms, generate_ms)
    print("\n| " + " | ".join(heads) + " |\n|---|---|---|")
    for line in lines:
        print("| " + " | ".join(line) + " |")


def main() -> int:
    """The command line. 0 when it went well, 2 with one sentence when a person was mistaken."""
    parser = argparse.ArgumentParser(
        prog="python -m moa_core.bench.full_shape", description=__doc__
    )
    add_arguments(parser)
    try:
        run(parser.parse_args())
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
