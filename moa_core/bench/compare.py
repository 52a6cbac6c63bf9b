"""`bench` without a link: every method decodes each prompt in turn."""

import argparse

from moa_core.arguments import chosen_preset, target_of
from moa_core.bench.methods import PEERS, Method, load_methods, needs_files
from moa_core.bench.records import head, write
from moa_core.bench.results import figures, table
from moa_core.bench.run import measure, one_tree
from moa_core.bench.suites import SETS, load_suite
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.names import VANILLA, listed
from moa_core.loading.catalog import DEFAULT_DRAFTER, known_drafters
from moa_core.model.target import Target

METHODS = (VANILLA, "ngram", "eagle2", DEFAULT_DRAFTER)
EACH = 10  # prompts of each question set


def run(options: argparse.Namespace) -> None:
    options.tree = options.tree or "auto"
    options.limit = options.limit or (EACH if options.suite == SETS else None)
    prompts, folder = load_suite(options.suite, options.limit), options.out
    target, methods = _loaded(options, one_tree(options.tree))
    facts, runs = measure(options, target, methods, prompts, folder)
    about = {name: method.about() for name, method in methods.items()}
    measured = figures(runs, about, options.temperature == 0)
    results = head("bench", options.given, **facts, methods=measured)
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
