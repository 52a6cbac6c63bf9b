"""The layout of vllm-project/speculators: its config keys, and its CSV of acceptance.

Facts from speculators 0.9.0 (config.py, proposals/greedy.py, scripts/evaluate/perf_utils.py), and
for EAGLE heads 0.4.0 (models/eagle.py), the last but one release that has them. It has no MoA.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

from moa_core.bench.outputs import no_formula
from moa_core.drafters.eagle import EagleDrafter
from moa_core.drafters.moa import MoADrafter
from moa_core.errors import UserError
from moa_core.export.authors import Files, own_keys, target_keys
from moa_core.export.hub import custom_generate_files
from moa_core.export.source import Source

VERSION = {"moa": "0.9.0", "eagle": "0.4.0"}  # whose layout it is
EAGLE_NAMES = {"fc.": "fusion_fc.", "layers.0.": "transformer."}


def speculators_files(source: Source) -> Files:
    """Config and tensors in the layout of speculators. UserError for neither MoA nor EAGLE."""
    if isinstance(source.drafter, MoADrafter):
        return _moa(source)
    if isinstance(source.drafter, EagleDrafter):
        return _eagle(source, source.drafter)
    raise UserError(f"{source.name} is {source.kind}, which speculators has no layout for.")


def _moa(source: Source) -> Files:
    """Our own config, which our loader reads, with their keys around it; tensors as they are."""
    ours, tensors = custom_generate_files(source)
    del ours["model_type"]
    layer = target_keys(source.target) | {
        "num_hidden_layers": 1,
        "num_key_value_heads": ours["cross_attention_num_key_value_heads"],
        "intermediate_size": ours["cross_attention_intermediate_size"],
    }
    theirs = {"architectures": ["MoASpeculator"], **_shared(source, "moa", layer)}
    return ours | theirs, tensors


def _eagle(source: Source, drafter: EagleDrafter) -> Files:
    sizes = drafter.net.config
    layer = target_keys(source.target) | {
        "attention_bias": sizes.qkv_bias,
        "model_type": "llama",
        "num_hidden_layers": 1,
        "num_attention_heads": sizes.heads,
        "num_key_value_heads": sizes.kv_heads,
        "head_dim": sizes.head_dim,
        "intermediate_size": sizes.inner,
        "rms_norm_eps": sizes.eps,
        "rope_scaling": None,
    }
    config = {
        "architectures": ["EagleSpeculator", "LlamaDecoderLayer"],
        **_shared(source, "eagle", layer),
        "transformer_layer_architecture": "LlamaDecoderLayer",
        "layernorms": False,
        "fusion_bias": sizes.fc_bias,
    }
    return config | own_keys(source), {
        eagle_name(name): tensor for name, tensor in source.tensors.items()
    }


def eagle_name(name: str) -> str:
    """A tensor of SafeAILab's head, by speculators' name for it."""
    for theirs, new in EAGLE_NAMES.items():
        if name.startswith(theirs):
            return new + name.removeprefix(theirs)
    return name


def _shared(source: Source, kind: str, layer: dict[str, Any]) -> dict[str, Any]:
    """What every config of theirs says. `greedy`, a chain, is their one way to propose."""
    proposal = {
        "proposal_type": "greedy",
        "speculative_tokens": source.drafter.tree.depth,
        "verifier_accept_k": 1,
        "accept_tolerance": 0.0,
    }
    verifier = {
        "name_or_path": source.verifier,
        "architectures": [type(source.target.model).__name__],
    }
    return {
        "speculators_model_type": kind,
        "speculators_version": VERSION[kind],
        "speculators_config": {
            "algorithm": kind,
            "proposal_methods": [proposal],
            "default_proposal_method": "greedy",
            "verifier": verifier,
        },
        "transformer_layer_config": layer,
    }


def acceptance_rows(results: Path, method: str) -> list[dict[str, str]]:
    """One method's rows of a benchmark's acceptance.csv: theirs have no column for the method.

    results  the folder that was given to `bench --out`. UserError if the method is not in it.
    """
    path = results / "acceptance.csv"
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, ValueError, csv.Error):
        raise UserError(
            f"There is no acceptance.csv in {results}: name a folder of bench --out."
        ) from None
    mine = [row for row in rows if row.pop("method", None) == method]
    if not mine:
        raise UserError(f"{path} has no rows of {method}: name the method with --method.")
    return mine


def write_acceptance(rows: list[dict[str, str]], path: Path) -> None:
    """Rows under speculators' columns."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        for row in rows:
            writer.writerow({name: no_formula(value) for name, value in row.items()})
