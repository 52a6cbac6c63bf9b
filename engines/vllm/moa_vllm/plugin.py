"""vLLM's entry point: a wrapper that tells the proposer which batch it drafts for.

vLLM gives a proposer of method "custom_class" only token ids. MoA also reads the block table, which
the runner has.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

VLLM = "0.32"  # the version whose source this package was written against
ARGUMENTS = (
    "self", "scheduler_output", "sampled_token_ids", "sampling_metadata", "hidden_states",
    "sample_hidden_states", "aux_hidden_states", "spec_decode_metadata", "common_attn_metadata",
    "slot_mappings",
)  # fmt: skip


def register() -> None:
    """Install the wrapper, if this vLLM is the one it was written for. May be called again.

    Otherwise vLLM stays as it is, and MoA refuses to start: see `problem`.
    """
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    own = GPUModelRunner.propose_draft_token_ids
    arguments = tuple(inspect.signature(own).parameters)
    if _another() or hasattr(own, "moa") or arguments != ARGUMENTS:
        return

    @functools.wraps(own)
    def propose(self: Any, scheduler_output: Any, *rest: Any) -> Any:
        if hasattr(self.drafter, "begin"):
            self.drafter.begin(self, scheduler_output)
        return own(self, scheduler_output, *rest)

    propose.moa = True
    GPUModelRunner.propose_draft_token_ids = propose


def problem() -> str | None:
    """A sentence if MoA cannot run in this vLLM."""
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    if said := _another():
        return said
    if not hasattr(GPUModelRunner.propose_draft_token_ids, "moa"):
        return (
            "vLLM did not load the plug-in moa, or changed what it wraps: leave VLLM_PLUGINS "
            f"unset, and install vLLM {VLLM} as published."
        )
    return None


def _another() -> str | None:
    """A sentence if this is another version of vLLM."""
    from vllm import __version__

    if __version__.split("+")[0].rpartition(".")[0] == VLLM:
        return None
    return f"moa_vllm needs vLLM {VLLM}, and this is {__version__}."
