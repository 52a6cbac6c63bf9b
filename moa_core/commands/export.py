"""Write a drafter and its target for other programs, in the formats of their authors.

The target becomes a transformers folder in float32. The drafter gets plain float32 tensors under
SafeAILab's names for EAGLE, and the MoA authors' names for MoA. An EAGLE-3 head with a vocabulary
of its own gets its rows of the target's head, as vLLM needs.
"""

import argparse
from typing import Any

from moa_core.arguments import SPEC, TARGET, add_pickle, check_new, path
from moa_core.errors import UserError, saying


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_pickle(parser)
    parser.add_argument("--drafter", help=f"{SPEC}; default: the target alone")
    parser.add_argument("--target", help=f"{SPEC}; default: {TARGET}")
    parser.add_argument("--to", type=path, required=True, help="a new or empty folder")


def run(options: argparse.Namespace) -> None:
    check_new(options.to)  # before anything is loaded
    import torch

    from moa_core.drafters.eagle3 import Eagle3Drafter
    from moa_core.drafters.trained import Trained
    from moa_core.loading.drafter_files import save_drafter
    from moa_core.loading.load import load_drafter, load_target
    from moa_core.runtime import quiet

    quiet()
    target = load_target(options.target, "float32", "cpu")
    drafter = load_drafter(options.drafter, target) if options.drafter else None
    if not isinstance(drafter, Trained | None):
        raise UserError(f"{drafter.name} has no files of its own: name a drafter that has.")
    with saying(f"{options.to} cannot be written to"):
        target.model.save_pretrained(options.to / "target")
        if target.tokenizer is not None:
            target.tokenizer.save_pretrained(options.to / "target")
        if drafter is not None:
            more = {"tree": drafter.tree.as_dict()}
            if isinstance(drafter, Eagle3Drafter) and drafter.vocabulary is not None:
                net: Any = drafter.net
                net.lm_head = drafter.head_for(target)
            save_drafter(options.to / "drafter", drafter, target, more, torch.float32)
    print(f"{options.to} has {' and '.join(one.name for one in sorted(options.to.iterdir()))}.")
