"""Measure decoding methods side by side: acceptance, speed and where the time goes.

Every method decodes each prompt in turn, so that a change of the machine's speed meets all alike.
A run that was cut off goes on where it was: give the same command again.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moa_core.arguments import add_target, chosen_preset, target_of
from moa_core.bench import command
from moa_core.errors import UserError
from moa_core.loading.names import listed
from moa_core.loading.presets import PRESETS

if TYPE_CHECKING:
    from moa_core.bench.methods import Method
    from moa_core.bench.run import Contender, Decoding
    from moa_core.bench.suites import Prompt
    from moa_core.model.target import Target

METHODS = "vanilla,eagle2,moa-n1"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to compare, on which prompts, and how."""
    add_target(parser)
    parser.add_argument(
        "--methods",
        help="comma separated: vanilla, ngram, eagle, moa-auto, bundled drafters, folders; "
        f"hf-generate, hf-assisted, hf-lookup; default: {METHODS}",
    )
    parser.add_argument(
        "--suite",
        default="bundled",
        help="bundled, mt_bench, humaneval, gsm8k, alpaca, sum, qa, or a file of JSON lines with "
        "kind and prompt",
    )
    parser.add_argument("--limit", type=int, help="prompts of each kind; default: all")
    parser.add_argument("--repeat", type=int, default=3, help="passes over all prompts")
    parser.add_argument("--max-new-tokens", type=int, default=128)
    parser.add_argument("--temperature", type=float, default=0.0, help="0: greedy")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ignore-eos", action="store_true", help="go on after the end of turn")
    parser.add_argument(
        "--tree",
        help="auto, the default: each cycle's sized by measured costs and gains; same: 5-4-12 for "
        "all, so that acceptance lengths can be compared; best: for each method the one at which "
        "it is fastest, found on other prompts; or depth-breadth-budget for all. Default over a "
        "link: same; in a profile: each drafter's own",
    )
    parser.add_argument("--grid", help="trees that --tree best tries, comma separated")
    parser.add_argument("--threads", type=int, help="CPU threads; default: the quickest")
    parser.add_argument("--out", type=Path, help="folder for results.json, summary.json ...")
    parser.add_argument(
        "--make-suite", type=Path, metavar="DATA", help="instead: write the bundled suite anew"
    )
    command.add_arguments(parser)
    _add_profile(parser)


def _add_profile(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "where the time goes",
        "a cycle by its parts, and the operators that take most of it; one prompt of each kind if "
        "--limit is not given; --out FILE.json keeps the figures",
    )
    group.add_argument("--profile", action="store_true", help="instead of the usual benchmark")
    group.add_argument(
        "--contexts", help="with --profile: a cycle after so many tokens, as in 256,1024,4096,8192"
    )
    group.add_argument(
        "--shape",
        choices=sorted(PRESETS),
        help="with --profile: a published pair's sizes with random weights; nothing is downloaded",
    )


def run(options: argparse.Namespace) -> None:
    """Measure, write the results, print a table. options.given: the command's own words."""
    if options.make_suite:
        return _make_suite(options)
    other = command.chosen(options)
    if other and options.profile:
        raise UserError("--profile is a run of its own: leave out --link and the like.")
    if other:
        if options.preset or options.bits or options.device_map:
            raise UserError("--preset, --load-in-... and --device-map are for the usual benchmark.")
        options.tree = options.tree or "same"
        return other(options)
    _check(options)
    from moa_core.runtime import quiet

    quiet()
    if options.profile:
        return _profile(options)
    from moa_core.bench.suites import load_suite, suite_ids

    options.tree = options.tree or "auto"
    prompts = load_suite(options.suite, options.limit)
    target, methods = _loaded(options)
    ids = suite_ids(prompts, target)
    _measure(options, target, methods, prompts, ids)


def _loaded(options: argparse.Namespace) -> tuple[Target, dict[str, Method]]:
    from moa_core.bench.methods import load_methods, needs_files
    from moa_core.runtime import settle

    preset = chosen_preset(options)
    if preset and options.methods is None:
        options.methods = ",".join(["vanilla", *preset.by_method])
    names = _specs(options)
    specs = {one: preset.drafter(one) if preset and needs_files(one) else one for one in names}
    target = target_of(options, [spec for name, spec in specs.items() if needs_files(name)])
    settle(target, options.threads)
    return target, load_methods(names, target, specs)


def _profile(options: argparse.Namespace) -> None:
    from moa_core.bench import profile
    from moa_core.bench.suites import load_suite, suite_ids
    from moa_core.runtime import settle

    profile.check(options)
    if options.shape:
        names, lengths = _specs(options), profile.contexts(options.contexts) or [256]
        context = lengths[-1] + options.max_new_tokens
        given = (context, options.dtype, options.device, options.eager)
        target, methods = profile.random_methods(options.shape, names, *given)
        settle(target, options.threads)
        prompts = [profile.random_ids(lengths[0], target)]
    else:
        target, methods = _loaded(options)
        chosen = [] if options.contexts else load_suite(options.suite, options.limit or 1)
        prompts = suite_ids(chosen, target)
    profile.run(options, target, methods, prompts)


def _specs(options: argparse.Namespace) -> list[str]:
    given = METHODS if options.methods is None else options.methods
    from moa_core.bench.methods import PEERS
    from moa_core.loading.catalog import known_drafters

    return listed(given, [*PEERS, *known_drafters()])


def _check(options: argparse.Namespace) -> None:
    """Before any model is loaded."""
    for name in ("contexts", "shape"):
        if getattr(options, name) is not None and not options.profile:
            raise UserError(f"--{name} goes with --profile.")
    for name in ("repeat", "threads", "limit"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise UserError(f"--{name} must be a whole number, at least 1.")
    if options.profile:
        return
    if options.out is None:
        raise UserError("Say where the results go: --out FOLDER.")
    out = options.out.expanduser()
    if out.is_file():
        raise UserError(f"{out} is a file: --out names a folder.")


def _make_suite(options: argparse.Namespace) -> None:
    from moa_core.bench.suites import make_suite

    for path in make_suite(options.make_suite.expanduser(), seed=options.seed):
        print(path)


def _measure(
    options: argparse.Namespace,
    target: Target,
    methods: dict[str, Method],
    prompts: list[Prompt],
    ids: list[list[int]],
) -> None:
    from moa_core.bench.machine import commit, machine
    from moa_core.bench.results import figures, table, write_all
    from moa_core.bench.run import Decoding, keep_settings, run_all

    eos_ids = () if options.ignore_eos else target.eos_ids
    decoding = Decoding(options.max_new_tokens, options.temperature, options.seed, eos_ids)
    decoding.settings(None, 0, 0)  # a word about wrong numbers before the work begins
    plan = _trees(options)
    folder = options.out.expanduser()
    settings = _settings(options, target, methods, prompts)
    where = machine(target.device)
    commits = keep_settings(folder, {**settings, "machine": where}, commit())
    contenders = _contenders(plan, options, target, methods, decoding)
    runs = run_all(contenders, prompts, ids, options.repeat, decoding, folder / "runs.jsonl")
    about = _about_methods(options, contenders)
    measured = figures(runs, about, options.temperature == 0)
    facts = _facts(options.given, settings, where, commits, target)
    write_all({**facts, "methods": measured, "runs": runs}, folder)
    print(table(measured))
    print(
        f"\nCharts: python app.py, the Benchmarks tab, Open a recording: {folder / 'summary.json'}"
    )


def _trees(options: argparse.Namespace) -> list[Any]:
    """The tree for all, or with --tree best the ones to try."""
    from moa_core.bench.tuning import GRID, SAME, one_tree

    if options.tree == "best":
        return [one_tree(text) for text in (options.grid or GRID).split(",")]
    if options.grid:
        raise UserError("--grid names the trees that --tree best tries: give both or neither.")
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
    return best_trees(methods, trees, prompts, ids, decoding, options.out.expanduser())


def _settings(
    options: argparse.Namespace, target: Target, methods: dict[str, Method], prompts: list[Prompt]
) -> dict[str, Any]:
    """What a resumed run must share with its beginning."""
    from moa_core.bench.machine import versions
    from moa_core.bench.methods import checksum
    from moa_core.bench.suites import suite_hash
    from moa_core.loading.memory import form_name

    names = (
        "suite", "limit", "repeat", "max_new_tokens", "temperature", "seed", "ignore_eos", "tree",
        "grid",
    )  # fmt: skip
    weights = {name: method.weights() for name, method in methods.items()}
    return {
        **{name: getattr(options, name) for name in names},
        "methods": list(methods),
        "prompts": suite_hash(prompts),
        "target": target.name,
        "dtype": form_name(target.dtype, options.bits),
        "weights": {"target": checksum([target.head.weight, target.embed.weight]), **weights},
        "versions": versions(),
    }


def _about_methods(
    options: argparse.Namespace, contenders: dict[str, Contender]
) -> dict[str, dict[str, Any]]:
    from moa_core.bench.methods import training_of, tree_dict

    return {
        name: {
            **contender.method.about(),
            "tree": tree_dict(contender.tree),
            "training": training_of(spec),
        }
        for spec, (name, contender) in zip(_specs(options), contenders.items(), strict=True)
    }


def _facts(
    given: Sequence[str],
    settings: dict[str, Any],
    where: dict[str, Any],
    commits: list[str],
    target: Target,
) -> dict[str, Any]:
    """The head of results.json."""
    from datetime import UTC, datetime

    from moa_core.bench.command import command_line, without_folders
    from moa_core.bench.machine import Meter
    from moa_core.bench.run import WARM_UP
    from moa_core.loading.memory import parameters

    kept = ("repeat", "limit", "max_new_tokens", "temperature", "seed", "ignore_eos", "tree")
    return {
        "version": 1,
        "command": command_line(given),
        "suite": without_folders(settings["suite"]),
        "settings": {name: settings[name] for name in kept},
        "warm_up": f"{WARM_UP} prompts per method before the first run, not counted",
        "energy": Meter(target.device).source,
        "target": {
            "name": target.name,
            "parameters": parameters(target.model),
            "layers": len(target.layers),
            "dtype": settings["dtype"],
        },
        "machine": where,
        "versions": settings["versions"],
        "commit": ", then ".join(commits) or None,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
