"""Measure decoding methods side by side: acceptance, speed and where the time goes.

Every method decodes each prompt in turn, so a change of the machine's speed affects all alike.
To continue an interrupted run, repeat the command.
"""

import argparse
from importlib import import_module

from moa_core.arguments import add_target, check_folder, path
from moa_core.errors import UserError
from moa_core.runtime import use_threads

MODES = ("link", "offline", "forced")  # each a run of its own, and a module of bench


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_target(parser)
    # fmt: off
    add = parser.add_argument
    add("--methods", help="comma separated: vanilla, ngram, bundled drafters, "
        "folders; hf-generate, hf-lookup, llama-cpp, llama-cpp-q8, llama-cpp-q8-ngram, "
        "llama-cpp-q4, openvino; over a link also stream, plain API streaming; default: those "
        "there are of vanilla,ngram,eagle2,moa-n0")
    add("--suite", default="questions", help="mt_bench, humaneval, gsm8k, alpaca, sum, qa; "
        "questions for these six; tuning; answers; or a file of JSON lines with kind and prompt")
    add("--limit", type=int, help="prompts of each kind; default: 10 of each set of questions (80 "
        "are all), else all")
    add("--repeat", type=int, default=3, help="passes over all prompts")
    add("--max-new-tokens", type=int, default=128, help="the longest text to write")
    add("--temperature", type=float, default=0.0, help="0: greedy")
    add("--seed", type=int, default=0, help="of sampling")
    add("--ignore-eos", action="store_true", help="go on after the end of turn")
    add("--tree", help="auto, the default: each cycle's sized by measured costs and gains; same: "
        "5-4-11 for all, so that acceptance lengths can be compared; or depth-breadth-budget for "
        "all. Default over a link: same")
    add("--threads", type=int, help="CPU threads; default: one for each core")
    add("--out", type=path, help="folder for results.json and summary.json; FILE.json with --link, "
        "--offline and --forced")

    add = parser.add_argument_group("a server and its client", "two processes, the link emulated; "
                                    "--out FILE.json").add_argument
    add("--link", action="append", metavar="LINK", help="measure over this one: a preset, "
        "rtt=60,down=9,up=1.5, or direct; again for more")

    add = parser.add_argument_group("a client alone", "--out FILE.json").add_argument
    add("--offline", action="store_true", help="what drafters write once the link is cut for ever")
    add("--forced", action="store_true", help="how often drafts are right if they are fed the "
        "target's own text, and if they are fed their own")
    # fmt: on


def run(options: argparse.Namespace) -> None:
    modes = [mode for mode in MODES if getattr(options, mode)]
    _check(options, modes)
    if modes:
        options.tree = options.tree or "same"
    from moa_core.decoding.decode import Settings
    from moa_core.decoding.verify import Sampling
    from moa_core.runtime import quiet

    quiet()
    Settings(options.max_new_tokens, sampling=Sampling(options.temperature))  # wrong numbers
    import_module(f"moa_core.bench.{modes[0] if modes else 'compare'}").run(options)


def _check(options: argparse.Namespace, modes: list[str]) -> None:
    """UserError for options that do not go together, before any model is loaded."""
    if len(modes) > 1:
        raise UserError(f"Choose one of --{' and --'.join(modes)}: each is a run of its own.")
    if modes and (options.preset or options.bits):
        raise UserError("--preset and --load-in-... are for the usual benchmark.")
    alone = options.offline or options.forced
    if alone and (options.tree or options.temperature or options.ignore_eos):
        raise UserError(
            "What drafters write alone is greedy: leave out --tree, --temperature and --ignore-eos."
        )
    for name in ("repeat", "limit"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise UserError(f"--{name} must be a whole number, at least 1.")
    use_threads(options.threads)
    if not modes:
        if options.out is None:
            raise UserError("Say where the results go: --out FOLDER.")
        check_folder(options.out)
