"""The methods of a benchmark: our decode loop with each drafter, and other programs."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn

from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Drafted, Trace
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.base import Drafter, Vanilla
from moa_core.drafters.names import VANILLA
from moa_core.errors import UserError
from moa_core.loading.load import load_drafter
from moa_core.model.target import Target, draft_precision, parameters

STREAM = "stream"  # plain API streaming: the server pushes each token as it writes it
PEERS = (
    "hf-generate", "hf-lookup", "llama-cpp", "llama-cpp-q8", "llama-cpp-q8-ngram", "llama-cpp-q4",
    "openvino",
)  # fmt: skip
Record = dict[str, Any]  # the result of one run of one prompt


class Method(ABC):
    """One way to decode. tree: of its drafts; None where it has none."""

    tree: TreeSettings | None = None
    precision: str | None = None  # of drafts in our loop
    timed = True  # whether its times are kept, so that it has to warm up

    def __init__(self, name: str, target: Target, drafter: Drafter | None = None) -> None:
        self.name, self.target, self.drafter = name, target, drafter
        self._net: nn.Module | None = getattr(drafter, "net", None)

    @abstractmethod
    def run(self, ids: Sequence[int], settings: Settings) -> Record:
        """Decode one prompt."""

    def about(self) -> dict[str, Any]:
        return {
            "trainable_parameters": 0 if self._net is None else parameters(self._net),
            "draft_precision": self.precision,
            "tree": self.tree and self.tree.as_dict(),
        }

    def weights(self) -> float:
        """A checksum: a run must not be resumed with other weights."""
        return 0.0 if self._net is None else checksum(self._net.parameters())


class Ours(Method):
    """Any drafter in moa_core's decode loop, or plain decoding."""

    drafter: Drafter

    def __init__(
        self, name: str, target: Target, drafter: Drafter, tree: TreeSettings | None = None
    ) -> None:
        super().__init__(name, target, drafter)
        self.tree = None if isinstance(drafter, Vanilla) else tree
        self.precision = draft_precision(target, drafter)

    def run(self, ids: Sequence[int], settings: Settings) -> Record:
        trace = Trace(events=list(decode(self.target, self.drafter, ids, settings)))
        return {
            **written(trace.output_ids, len(ids)),
            "reason": trace.reason,
            "target_calls": trace.target_calls,
            "seconds": {phase: round(spent, 6) for phase, spent in trace.seconds.items()},
            "cycles": {
                "gained": trace.accepted_lengths,
                "drafted": [len(event.tree) - 1 for event in trace.of(Drafted)],
            },
        }


class HuggingFace(Method):
    """transformers' generate: plain or with prompt lookup."""

    def __init__(self, name: str, target: Target, options: dict[str, Any]) -> None:
        super().__init__(name, target)
        self._options = options

    def run(self, ids: Sequence[int], settings: Settings) -> Record:
        model, known, times = self.target.model, list[int](), list[float]()

        def before(_model: Any, _args: Any, kwargs: dict[str, Any]) -> None:
            cache = kwargs.get("past_key_values")
            known.append(0 if cache is None else int(cache.get_seq_length()))

        def after(*_: Any) -> None:
            if len(known) == 1:
                times.append(self._now())

        times.append(self._now())
        # `generate` does not say when its forwards end, nor how many there are.
        with (
            model.register_forward_pre_hook(before, with_kwargs=True),
            model.register_forward_hook(after),
        ):
            new = self._generate(ids, settings)
        times.append(self._now())
        # The first forward may verify drafts already. The second one finds in the cache the prompt
        # and what the first one accepted, without its bonus token.
        first = known[1] - len(ids) + 1 if len(known) > 1 else len(new)
        start, prefilled, end = times
        return {
            **written(new, len(ids)),
            "target_calls": len(known),
            "seconds": {"prefill": prefilled - start, "decode": end - prefilled},
            "gained_after_prefill": len(new) - first,
        }

    def _now(self) -> float:
        if self.target.device.type == "cuda":
            torch.cuda.synchronize(self.target.device)
        return perf_counter()

    def _generate(self, ids: Sequence[int], settings: Settings) -> list[int]:
        target, sampling = self.target, settings.sampling
        prompt = torch.tensor([list(ids)], device=target.device)
        drawn: dict[str, Any] = {"do_sample": not sampling.greedy}
        if not sampling.greedy:  # generate's own default is top-k 50
            temperature = float(sampling.temperature)
            drawn |= {"temperature": temperature, "top_p": sampling.top_p, "top_k": sampling.top_k}
        torch.manual_seed(sampling.seed)
        output = target.model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=min(settings.max_new_tokens, target.context - len(ids)),
            pad_token_id=0,
            eos_token_id=list(settings.eos_ids or ()) or None,
            **drawn,
            **self._options,
        )
        new: list[int] = output[0, len(ids) :].tolist()
        return new


def needs_files(name: str) -> bool:
    return name != VANILLA and name not in PEERS


def load_methods(
    specs: Sequence[str], target: Target, places: Mapping[str, str] | None = None,
    tree: TreeSettings | None = None,
) -> dict[str, Method]:  # fmt: skip
    """Methods by name, in order. UserError for an unknown one, or two folders with one name.

    places  where the drafters of some methods are, if not where their names say
    """
    found: dict[str, Method] = {}
    for spec in specs:
        name = Path(spec).name if "/" in spec else spec
        if name in found:
            raise UserError(f"--methods names {name} twice.")
        found[name] = _load((places or {}).get(spec, spec), name, target, tree)
    return found


def _load(spec: str, name: str, target: Target, tree: TreeSettings | None) -> Method:
    if spec in PEERS[:2]:
        lookup = {"prompt_lookup_num_tokens": 10} if spec == "hf-lookup" else {}
        return HuggingFace(name, target, lookup)
    if spec in PEERS:
        from moa_core.bench.programs import LlamaCpp, OpenVino  # they build on this module

        return (OpenVino if spec == "openvino" else LlamaCpp)(name, target)
    return Ours(name, target, load_drafter(spec, target), tree)


def written(ids: Sequence[int], prompt_tokens: int) -> Record:
    """Facts about a text: its length, and a hash for comparisons."""
    return {
        "prompt_tokens": prompt_tokens,
        "new_tokens": len(ids),
        "output": hashlib.sha256(",".join(map(str, ids)).encode()).hexdigest()[:12],
    }


def checksum(tensors: Iterable[Tensor]) -> float:
    """A number that changes when any of these tensors is trained; those on disk are left out."""
    sums = (float(one.detach().double().abs().sum()) for one in tensors if not one.is_meta)
    return float(f"{sum(sums):.9g}")
