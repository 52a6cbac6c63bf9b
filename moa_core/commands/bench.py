"""Measure decoding methods side by side: acceptance, speed and where the time goes.

Every method decodes each prompt in turn, so a change of the machine's speed affects all alike.
A run that was cut off goes on where it was: give the same command again.
"""

from __future__ import annotations

import argparse
from importlib import import_module
from typing import TYPE_CHECKING, Any

from moa_core.arguments import add_target, check_folder, chosen_preset, path, target_of
from moa_core.errors import UserError
from moa_core.loading.names import listed
from moa_core.runtime import check_threads

if TYPE_CHECKING:
    from moa_core.bench.methods import Method
    from moa_core.bench.run import Contender, Decoding
    from moa_core.bench.suites import Prompt
    from moa_core.model.target import Target

METHODS = "vanilla,eagle2,moa-n1"
MODES = ("link", "offline")  # each a run of its own, and a module of bench
KEPT = ("repeat", "limit", "max_new_tokens", "temperature", "seed", "ignore_eos", "tree")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to compare, on which prompts, and how."""
    add_target(parser)
    # fmt: off
    add = parser.add_argument
    add("--methods", help="comma separated: vanilla, ngram, eagle, moa-auto, bundled drafters, "
        "folders; hf-generate, hf-assisted, hf-lookup, llama-cpp; over a link also stream, "
        f"plain API streaming; default: {METHODS}")
    add("--suite", default="bundled", help="bundled, mt_bench, humaneval, gsm8k, alpaca, sum, qa, "
        "or a file of JSON lines with kind and prompt")
    add("--limit", type=int, help="prompts of each kind; default: all")
    add("--repeat", type=int, default=3, help="passes over all prompts")
    add("--max-new-tokens", type=int, default=128)
    add("--temperature", type=float, default=0.0, help="0: greedy")
    add("--seed", type=int, default=0)
    add("--ignore-eos", action="store_true", help="go on after the end of turn")
    add("--tree", help="auto, the default: each cycle's sized by measured costs and gains; same: "
        "5-4-11 for all, so that acceptance lengths can be compared; best: for each method the one "
        "at which it is fastest, found on other prompts; or depth-breadth-budget for all. Default "
        "over a link: same")
    add("--grid", help="trees that --tree best tries, comma separated")
    add("--threads", type=int, help="CPU threads; default: the quickest")
    add("--out", type=path, help="folder for results.json and summary.json; FILE.json with --link "
        "and --offline")

    add = parser.add_argument_group("a server and its client", "two processes, the link emulated; "
                                    "--out FILE.json").add_argument
    add("--link", action="append", metavar="LINK", help="measure over this one: a preset, "
        "rtt=60,down=9,up=1.5, or direct; again for more")

    add = parser.add_argument_group("a client alone", "--out FILE.json").add_argument
    add("--offline", action="store_true", help="what drafters write once the link is cut for ever")
    # fmt: on


def run(options: argparse.Namespace) -> None:
    """Measure, write the results, print a table. options.given: the command's own words."""
    mode = _mode(options)
    if mode:
        options.tree = options.tree or "same"
        import_module(f"moa_core.bench.{mode}").run(options)
        return
    from moa_core.runtime import quiet

    quiet()
    from moa_core.bench.run import Decoding
    from moa_core.bench.suites import load_suite, suite_ids

    options.tree = options.tree or "auto"
    prompts, trees = load_suite(options.suite, options.limit), _trees(options)
    Decoding(options.max_new_tokens, options.temperature).settings(None, 0, 0)
    target, methods = _loaded(options)
    _measure(options, trees, target, methods, prompts, suite_ids(prompts, target))


def _mode(options: argparse.Namespace) -> str:
    """Which run was asked for: "" for the usual one. UserError, before any model is loaded."""
    modes = [mode for mode in MODES if getattr(options, mode)]
    if len(modes) > 1:
        raise UserError(f"Choose one of --{' and --'.join(modes)}: each is a run of its own.")
    mode = modes[0] if modes else ""
    if mode and (options.preset or options.bits):
        raise UserError("--preset and --load-in-... are for the usual benchmark.")
    for name in ("repeat", "limit"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise UserError(f"--{name} must be a whole number, at least 1.")
    check_threads(options.threads)
    if options.grid is not None and (mode or options.tree != "best"):
        raise UserError("--grid names the trees that --tree best tries: give both or neither.")
    if not mode and options.out is None:
        raise UserError("Say where the results go: --out FOLDER.")
    if not mode:
        check_folder(options.out)
    return mode


def _loaded(options: argparse.Namespace) -> tuple[Target, dict[str, Method]]:
    from moa_core.bench.methods import PEERS, load_methods, needs_files
    from moa_core.loading.catalog import known_drafters
    from moa_core.runtime import settle

    preset = chosen_preset(options)
    if preset and options.methods is None:
        options.methods = ",".join(["vanilla", *preset.by_method])
    given = METHODS if options.methods is None else options.methods
    names = listed(given, [*PEERS, *known_drafters()])
    specs = {one: preset.drafter(one) if preset and needs_files(one) else one for one in names}
    target = target_of(options, [spec for name, spec in specs.items() if needs_files(name)])
    settle(target, options.threads)
    return target, load_methods(names, target, specs)


def _measure(
    options: argparse.Namespace,
    trees: list[Any],
    target: Target,
    methods: dict[str, Method],
    prompts: list[Prompt],
    ids: list[list[int]],
) -> None:
    from moa_core.bench.records import head, write
    from moa_core.bench.results import figures, table
    from moa_core.bench.run import Decoding, keep_settings, run_all

    eos_ids = () if options.ignore_eos else target.eos_ids
    decoding = Decoding(options.max_new_tokens, options.temperature, options.seed, eos_ids)
    folder = options.out
    settings = _settings(options, target, methods, prompts)
    facts = keep_settings(folder, settings, target.device)
    contenders = _contenders(trees, options, target, methods, decoding)
    runs = run_all(contenders, prompts, ids, options.repeat, decoding, folder / "runs.jsonl")
    about = {
        name: {**one.method.about(), "tree": one.tree and one.tree.as_dict()}
        for name, one in contenders.items()
    }
    measured = figures(runs, about, options.temperature == 0)
    known = {"name": target.name, "dtype": settings["dtype"]}
    results = head("bench", options.given, **facts, target=known, methods=measured)
    write({**results, "runs": runs}, folder / "results.json")
    summary = folder / "summary.json"
    write(results, summary)
    print(f"{table(measured)}\n\n{summary}")


def _trees(options: argparse.Namespace) -> list[Any]:
    """The tree for all, or with --tree best the ones to try."""
    from moa_core.bench.tuning import GRID, SAME, one_tree

    if options.tree == "best":
        grid = GRID if options.grid is None else options.grid
        return [one_tree(text) for text in grid.split(",")]
    return [SAME if options.tree == "same" else one_tree(options.tree)]


def _contenders(
    trees: list[Any],
    options: argparse.Namespace,
    target: Target,
    methods: dict[str, Method],
    decoding: Decoding,
) -> dict[str, Contender]:
    from moa_core.bench.suites import load_suite, readable
    from moa_core.bench.tuning import best_trees, same_trees

    if options.tree != "best":
        return same_trees(methods, trees[0])
    # Only to choose trees: a target with little context tunes on the shorter of them.
    prompts, ids = readable(load_suite("tuning", options.limit), target)
    return best_trees(methods, trees, prompts, ids, decoding, options.out)


def _settings(
    options: argparse.Namespace, target: Target, methods: dict[str, Method], prompts: list[Prompt]
) -> dict[str, Any]:
    """What a resumed run must share with its beginning."""
    from moa_core.bench.methods import checksum
    from moa_core.bench.suites import suite_hash
    from moa_core.loading.memory import form_name

    weights = {name: method.weights() for name, method in methods.items()}
    return {
        **{name: getattr(options, name) for name in (*KEPT, "grid")},
        "methods": list(methods),
        "prompts": suite_hash(prompts),
        "target": target.name,
        "dtype": form_name(target.dtype, options.bits),
        "weights": {"target": checksum([target.head.weight, target.embed.weight]), **weights},
    }
