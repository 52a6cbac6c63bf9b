"""Plain greedy decoding by OpenVINO GenAI, as a baseline."""

from collections.abc import Sequence

import numpy as np
import torch

from moa_core.bench.methods import Method, Record, written
from moa_core.decoding.decode import Settings
from moa_core.errors import UserError
from moa_core.loading.hub import DEFAULT, default_file
from moa_core.model.target import Target


class OpenVino(Method):
    """Its pipeline on the default target's published file (4 bits), with torch's number of threads;
    its own timings."""

    def __init__(self, name: str, target: Target) -> None:
        super().__init__(name, target)
        if target.name != DEFAULT:
            raise UserError(f"{name} is compared on {DEFAULT} alone: leave it out.")
        try:
            import openvino_genai
        except ImportError:
            raise UserError(
                f"{name} needs a package that nothing else does: pip install openvino-genai"
            ) from None
        self._genai, threads = openvino_genai, torch.get_num_threads()
        self._pipeline = openvino_genai.LLMPipeline(
            str(default_file()), "CPU", INFERENCE_NUM_THREADS=threads
        )

    def run(self, ids: Sequence[int], settings: Settings) -> Record:
        if not settings.sampling.greedy:
            raise UserError(f"{self.name} is compared at temperature 0 alone: leave it out.")
        from openvino import Tensor

        prompt = np.array([ids], np.int64)
        room = min(settings.max_new_tokens, self.target.context - len(ids))
        ends = settings.ends(self.target)
        found = self._pipeline.generate(
            self._genai.TokenizedInputs(Tensor(prompt), Tensor(np.ones_like(prompt))),
            self._genai.GenerationConfig(
                max_new_tokens=room, do_sample=False, ignore_eos=not ends, stop_token_ids=set(ends)
            ),
        )
        new, times = list(found.tokens[0]), found.perf_metrics
        first, whole = (
            spent.mean / 1e3 for spent in (times.get_ttft(), times.get_generate_duration())
        )
        return {
            **written(new, len(ids)),
            "target_calls": len(new),
            "seconds": {"prefill": first, "decode": whole - first},
            "gained_after_prefill": len(new) - 1,
        }
