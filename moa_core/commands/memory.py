"""How much memory a target and its drafters need, by number format: nothing is loaded."""

import argparse

from moa_core.arguments import SPEC, TARGET, add_pickle, chosen_preset, on_terminal
from moa_core.errors import UserError
from moa_core.loading.presets import PRESETS

FORMATS = ((None, "float32"), (None, "bfloat16"), (8, "bfloat16"), (4, "bfloat16"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--preset", choices=sorted(PRESETS), help="by its published shapes alone")
    add_pickle(parser)
    parser.add_argument("--target", help=f"{SPEC}; default: {TARGET}")
    parser.add_argument("--drafter", action="append", default=[], help=f"{SPEC}; may repeat")


def run(options: argparse.Namespace) -> None:
    from transformers import AutoConfig

    from moa_core.loading.catalog import config_folder
    from moa_core.loading.hub import size
    from moa_core.loading.load import DTYPES, config_of, drafters_beside
    from moa_core.loading.memory import Drafting, estimate, form_name

    if preset := chosen_preset(options):
        config = AutoConfig.for_model(**preset.config)
        drafters = [Drafting(*need) for need in preset.needs]
    else:
        config, drafters = config_of(config_folder(options.target, on_terminal)), []
    for spec in options.drafter:
        drafters += (read := drafters_beside([spec]))
        if not all(one.numbers for one in read):
            raise UserError(f"{spec} has no weights that can be read.")
    needs = [estimate(config, DTYPES[dtype], bits, drafters) for bits, dtype in FORMATS]
    print(
        f"| format | weights | drafters | K and V of {needs[0].context:,} tokens | working | all |"
    )
    print("|---|---|---|---|---|---|")
    for need, (bits, dtype) in zip(needs, FORMATS, strict=True):
        parts = (need.weights, need.drafters, need.cache, need.working, need.total)
        print(f"| {form_name(DTYPES[dtype], bits)} | {' | '.join(map(size, parts))} |")
