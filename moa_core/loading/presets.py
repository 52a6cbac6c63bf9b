"""Published targets with their published drafters, at fixed revisions."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from moa_core.drafters.names import family, matched, no_such, tli_of
from moa_core.errors import UserError

# Commits named in public scripts and manifests. For another one: --target id@revision.
LLAMA3 = "meta-llama/Meta-Llama-3-8B-Instruct@8afb486c1db24fe5011ec46dfbe5b5dccdb575c2"
LLAMA3_MOA = "huawei-noah/MOASpec-Llama-3-8B-Instruct@2398649caeba2141e4d600ae12802a3adabadcaf"
LLAMA3_EAGLE = "yuhuili/EAGLE-LLaMA3-Instruct-8B@02d97adb0cacd1a50d4af8db61f4aca424ba2531"
QWEN3 = "Qwen/Qwen3-8B@b968826d9c46dd6066d109eabc6255188de91218"
QWEN3_EAGLE3 = "RedHatAI/Qwen3-8B-speculator.eagle3@08610ffa01dd9f16731fe8f627b85905b6aa51c4"


def untrained(tli: int, trained: Iterable[int], target: str = "") -> str:
    """Why there is no MoA drafter for an N, and how to get one. target: "" for the bundled one."""
    stops = ", ".join(str(stop) for stop in sorted(trained))
    named = f" --target {target.partition('@')[0]}" if target else ""
    return (
        f"No MoA drafter is trained for TLI N = {tli}"
        + (f" (trained: {stops}): choose another N, or" if stops else ":")
        + f" train one: python -m moa_core train drafters{named} --methods moa-n{tli} "
        "--prompts FILE --minutes 60 --out FOLDER"
    )


@dataclass(frozen=True)
class Preset:
    """A published target and drafters for it, as id@revision.

    by_method  the Hub id of each method's drafter; the first is the default
    tree       the authors' depth, breadth and budget, which suit a GPU
    config     what the target's config.json says about sizes
    needs      each drafter's memory, as the fields of `Drafting`
    """

    target: str
    by_method: Mapping[str, str]
    tree: tuple[int, int, int]
    config: Mapping[str, Any]
    needs: tuple[tuple[Any, ...], ...]

    def drafter(self, name: str | None) -> str:
        """The Hub id of a method's drafter; a folder or a Hub id is returned unchanged.

        None: the first. UserError, with the available names, for another name.
        """
        from moa_core.drafters.registry import without_weights  # imports torch, which --help avoids

        wanted = name or next(iter(self.by_method))
        names = [*self.by_method, *without_weights()]
        if found := matched(wanted, names):
            return self.by_method.get(found, found)
        if "/" in wanted or os.path.isdir(os.path.expanduser(wanted)):
            return wanted
        if family(wanted) == "moa":
            trained = [tli_of(method) for method in self.by_method if family(method) == "moa"]
            raise UserError(untrained(tli_of(wanted), trained, self.target))
        raise UserError(no_such(wanted, names, "drafter of this preset called"))


_LLAMA3 = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096,
    "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192,
    "rope_theta": 500000.0, "rms_norm_eps": 1e-5, "hidden_act": "silu",
    "tie_word_embeddings": False,
}  # fmt: skip
_QWEN3 = {
    "model_type": "qwen3", "architectures": ["Qwen3ForCausalLM"], "hidden_size": 4096,
    "intermediate_size": 12288, "num_hidden_layers": 36, "num_attention_heads": 32,
    "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936,
    "max_position_embeddings": 40960, "rope_theta": 1000000.0, "rms_norm_eps": 1e-6,
    "hidden_act": "silu", "tie_word_embeddings": False,
}  # fmt: skip
PRESETS = {
    "llama3-8b": Preset(
        LLAMA3,
        {"moa-n0": LLAMA3_MOA, "eagle2": LLAMA3_EAGLE},
        (6, 8, 62),
        _LLAMA3,
        ((264_265_728, 2048, (2048, 3072)), (251_666_432, 2048)),
    ),
    "qwen3-8b": Preset(  # it needs no account; nobody has published MoA for it
        QWEN3, {"eagle3": QWEN3_EAGLE3}, (7, 10, 60), _QWEN3, ((268_483_840, 2048),)
    ),
}


def pinned(spec: str | Path) -> bool:
    """Whether an id is in a preset, at the commit named here, so that its pickle may be opened. A
    folder never is."""
    return any(spec in (one.target, *one.by_method.values()) for one in PRESETS.values())
