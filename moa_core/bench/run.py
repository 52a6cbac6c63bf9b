"""Runs methods over prompts in turn; every finished run is a line of a file, to resume from."""

import argparse
import json
import os
import platform
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import transformers
from tqdm import tqdm

from moa_core.bench.methods import Method, Record, checksum
from moa_core.bench.suites import Prompt, suite_hash, suite_ids
from moa_core.decoding.decode import Settings
from moa_core.decoding.tree import TreeSettings, named_tree
from moa_core.decoding.verify import Sampling
from moa_core.errors import UserError
from moa_core.loading.memory import form_name
from moa_core.model.target import Target
from moa_core.runtime import commit
from moa_core.untrusted import parsed, read_json

SAME = TreeSettings(5, 4, 11)
SETS = "amx_int8", "avx512_vnni", "avx_vnni", "avx2"  # of instructions, newest first
WARM_UP = 2  # prompts that every method decodes first, not counted
KEPT = ("repeat", "limit", "max_new_tokens", "temperature", "seed", "ignore_eos", "tree")
Key = tuple[str, int, int]  # of a run: method, repeat, and the prompt's line


def seeded(shared: Settings, tree: TreeSettings | None, repeat: int, prompt: int) -> Settings:
    """The settings of one run. Repeats of a prompt differ; all methods get the same seeds."""
    seed = random.Random(f"{shared.sampling.seed}/{repeat}/{prompt}").getrandbits(31)
    sampling = replace(shared.sampling, seed=seed)
    return replace(shared, tree=tree or TreeSettings(), sampling=sampling)


def measure(
    options: argparse.Namespace, target: Target, methods: Mapping[str, Method],
    prompts: Sequence[Prompt], folder: Path, **more: Any,
) -> tuple[dict[str, Any], list[Record]]:  # fmt: skip
    """Run whatever a folder lacks; the recording's header and all runs, oldest first.

    methods  by name; with `more`, by NAME@PLACE
    more     settings that a resumed run must share, besides the usual ones
    """
    named = {name.rpartition("@")[0] if more else name: of for name, of in methods.items()}
    weights = {name: method.weights() for name, method in named.items()}
    dtype = form_name(target.dtype, options.bits) if options.bits else target.precision
    settings = {
        **{name: getattr(options, name) for name in KEPT},
        "methods": list(named),
        "draft_precision": {name: method.precision for name, method in named.items()},
        "prompts": suite_hash(prompts),
        "target": target.name,
        "dtype": dtype,
        "weights": {"target": checksum([target.head.weight, target.embed.weight]), **weights},
        **more,
    }
    ids = suite_ids(prompts, target)
    facts = keep_settings(folder, settings, target.device)
    eos_ids = () if options.ignore_eos else target.eos_ids
    sampling = Sampling(options.temperature, seed=options.seed)
    shared = Settings(options.max_new_tokens, sampling=sampling, eos_ids=eos_ids)
    runs = run_all(methods, prompts, ids, options.repeat, shared, folder / "runs.jsonl")
    return {**facts, "target": {"name": target.name, "dtype": dtype}}, runs


def run_all(
    methods: Mapping[str, Method], prompts: Sequence[Prompt], ids: Sequence[Sequence[int]],
    repeats: int, shared: Settings, path: Path,
) -> list[Record]:  # fmt: skip
    """Run whatever the file lacks, a line per run, and return all runs, oldest first.

    A run has the result of `Method.run`, and method, repeat, prompt (its line) and kind.
    """
    texts = {one.number: (one.kind, its) for one, its in zip(prompts, ids, strict=True)}
    names = list(methods)
    wanted = [
        (names[(repeat + place + turn) % len(names)], repeat, prompt.number)
        for repeat in range(repeats)
        for place, prompt in enumerate(prompts)
        for turn in range(len(names))  # each repeat starts with another one
    ]
    done = read_runs(path)
    missing = [key for key in wanted if key not in done]
    if missing:
        _warm_up(methods, ids, shared)
    bar = tqdm(
        missing, desc="bench", unit="run", initial=len(wanted) - len(missing), total=len(wanted),
        disable=not missing,
    )  # fmt: skip
    with path.open("a", encoding="utf-8") as file:
        for name, repeat, number in bar:
            kind, its_ids = texts[number]
            settings = seeded(shared, methods[name].tree, repeat, number)
            record = methods[name].run(its_ids, settings)
            record = {"method": name, "repeat": repeat, "prompt": number, **record, "kind": kind}
            done[name, repeat, number] = record
            file.write(json.dumps(record, separators=(",", ":")) + "\n")
            file.flush()
    return [done[key] for key in wanted]


def _warm_up(methods: Mapping[str, Method], ids: Sequence[Sequence[int]], shared: Settings) -> None:
    timed = [method for method in methods.values() if method.timed]
    rounds = [(place, method) for place in range(WARM_UP) for method in timed]
    for place, method in tqdm(rounds, desc="warm-up", unit="run", leave=False):
        method.run(ids[place % len(ids)], seeded(shared, method.tree, 0, place))


def read_runs(path: Path) -> dict[Key, Record]:
    """The finished runs of a file. A truncated last line is removed and run again.

    UserError for any other invalid line.
    """
    if not path.exists():
        return {}
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{path} is damaged: name another folder with --out.") from None
    whole, _, rest = text.rpartition("\n")
    if rest:  # killed while writing; truncated in place, so that another kill cannot lose the rest
        os.truncate(path, path.stat().st_size - len(rest.encode()))
    found = {}
    for number, line in enumerate(whole.split("\n") if whole else [], 1):
        try:
            record = parsed(line)
            found[record["method"], record["repeat"], record["prompt"]] = record
        except (ValueError, KeyError, TypeError):
            raise UserError(f"Line {number} of {path} is no run of a benchmark.") from None
    return found


def keep_settings(folder: Path, given: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """Write settings.json, or check that the one there says the same.

    given  the settings that a resumed run must share
    Returns the recording's header. UserError, naming the difference, for a folder with a benchmark
    of other settings.
    """
    path = folder / "settings.json"
    facts = {"machine": machine(device), "versions": versions()}
    settings = json.loads(json.dumps({**given, **facts}))  # with lists, as when read back
    try:
        kept = read_json(path) if path.exists() else {"settings": settings, "commits": []}
        before, commits = dict(kept["settings"]), list(kept["commits"])
    except (ValueError, KeyError, TypeError):
        raise UserError(f"{path} is damaged: name another folder with --out.") from None
    differing = [
        f"{key} was {before.get(key)!r:.80} and is now {settings.get(key)!r:.80}"
        for key in {**before, **settings}
        if before.get(key) != settings.get(key)
    ]
    if differing:
        raise UserError(
            f"{folder} holds a benchmark of other settings ({'; '.join(differing)}): "
            "name another folder with --out, or give the same settings to resume it."
        )
    if (now := commit()) and now not in commits:
        commits.append(now)
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"settings": settings, "commits": commits}, indent=1)
    part = path.with_suffix(".part")  # replaced at once: a kill leaves the old or the new file
    part.write_text(text + "\n", encoding="utf-8")
    os.replace(part, path)
    return {"settings": given, "commit": ", then ".join(commits) or None, **facts}


def machine(device: torch.device) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "device": device.type,
        "processor": processor(),
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
    }
    if device.type == "cuda":
        facts["gpu"] = torch.cuda.get_device_name(device)
    return facts


def versions() -> dict[str, str]:
    """Versions of the libraries that decide speed and rounding."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "onnxruntime": version("onnxruntime"),
        "transformers": transformers.__version__,
    }


def processor() -> str:
    """This machine's: name, and newest instruction set of those that decide the speed of 8 bits."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        parts = (line.partition(":") for line in lines)
        facts = {key.strip(): value.strip() for key, _, value in parts}
        newest = next((name for name in SETS if name in facts.get("flags", "").split()), "")
        return f"{facts['model name']} ({newest.upper()})" if newest else facts["model name"]
    except (OSError, KeyError):
        return platform.processor() or platform.machine()


def one_tree(text: str) -> TreeSettings:
    """The tree that --tree names. UserError if it names none."""
    return SAME if text == "same" else named_tree(text, "auto, same")
