"""`bench` without a link: every method decodes each prompt in turn."""

import argparse
from typing import Any

from moa_core.arguments import chosen_preset, target_of
from moa_core.bench.methods import PEERS, Method, checksum, load_methods, needs_files
from moa_core.bench.records import head, write
from moa_core.bench.results import figures, table
from moa_core.bench.run import Decoding, keep_settings, one_tree, run_all
from moa_core.bench.suites import SETS, Prompt, load_suite, suite_hash, suite_ids
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.names import VANILLA, listed
from moa_core.loading.catalog import DEFAULT_DRAFTER, known_drafters
from moa_core.loading.memory import form_name
from moa_core.model.target import Target
from moa_core.runtime import quiet

METHODS = (VANILLA, "ngram", "eagle2", DEFAULT_DRAFTER)
EACH = 10  # prompts of each question set
KEPT = ("repeat", "limit", "max_new_tokens", "temperature", "seed", "ignore_eos", "tree")


def run(options: argparse.Namespace) -> None:
    quiet()
    options.tree = options.tree or "auto"
    options.limit = options.limit or (EACH if options.suite == SETS else None)
    prompts = load_suite(options.suite, options.limit)
    tree = one_tree(options.tree)
    Decoding(options.max_new_tokens, options.temperature).settings(None, 0, 0)  # wrong numbers
    target, methods = _loaded(options, tree)
    ids, folder = suite_ids(prompts, target), options.out
    eos_ids = () if options.ignore_eos else target.eos_ids
    decoding = Decoding(options.max_new_tokens, options.temperature, options.seed, eos_ids)
    settings = _settings(options, target, methods, prompts)
    facts = keep_settings(folder, settings, target.device)
    runs = run_all(methods, prompts, ids, options.repeat, decoding, folder / "runs.jsonl")
    about = {name: method.about() for name, method in methods.items()}
    measured = figures(runs, about, options.temperature == 0)
    known = {"name": target.name, "dtype": settings["dtype"]}
    results = head("bench", options.given, **facts, target=known, methods=measured)
    write({**results, "runs": runs}, folder / "results.json")
    write(results, folder / "summary.json")
    print(f"{table(measured)}\n\n{folder / 'summary.json'}")


def _loaded(options: argparse.Namespace, tree: TreeSettings) -> tuple[Target, dict[str, Method]]:
    preset = chosen_preset(options)
    there = [VANILLA, *known_drafters()]
    names = [VANILLA, *preset.by_method] if preset else [one for one in METHODS if one in there]
    if options.methods is not None:
        names = listed(options.methods, [*PEERS, *known_drafters()])
    specs = {one: preset.drafter(one) if preset and needs_files(one) else one for one in names}
    target = target_of(options, [spec for name, spec in specs.items() if needs_files(name)])
    return target, load_methods(names, target, specs, tree)


def _settings(
    options: argparse.Namespace, target: Target, methods: dict[str, Method], prompts: list[Prompt]
) -> dict[str, Any]:
    """The settings that a resumed run must share."""
    weights = {name: method.weights() for name, method in methods.items()}
    return {
        **{name: getattr(options, name) for name in KEPT},
        "methods": list(methods),
        "prompts": suite_hash(prompts),
        "target": target.name,
        "dtype": form_name(target.dtype, options.bits) if options.bits else target.precision,
        "weights": {"target": checksum([target.head.weight, target.embed.weight]), **weights},
    }
