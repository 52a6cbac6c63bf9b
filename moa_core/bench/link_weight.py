"""`bench --weigh`: what a client must hold to draft for a target that it does not have.

rows: target, last (N of TLI), method; target_mb: of the target's embeddings, head, final norm and
last N layers; parcel_mb: of all files that the server sends for them, where there is a server;
drafter_mb: of a MoA drafter; dtype: in which they are counted. MB are 10^6 bytes.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from typing import Any

from accelerate import init_empty_weights
from transformers import AutoModelForCausalLM, LlamaConfig

from moa_core.bench.link_files import check_out, head, write
from moa_core.bench.machine import commit, machine
from moa_core.checkpoints import bundled_drafters, load_drafter, load_target
from moa_core.drafters.moa import MoANet
from moa_core.link.parcel import as_if, client_weights, nbytes, parcel
from moa_core.peers import parameters
from moa_core.target import Target
from moa_core.train.fresh import moa_config

STOPS = range(4)  # N of TLI
EIGHT_B = "Llama-3-8B"


def run(options: argparse.Namespace) -> None:
    """Weigh, write, print."""
    path = check_out(options.out)
    target = load_target(options.target, options.dtype, options.device)
    rows = [*bundle_rows(target), *shape_rows(EIGHT_B, eight_b())]
    facts = head(
        "client-weight", options.given, [commit() or ""], machine=machine(target.device),
        target={"name": target.name}, settings={},
    )  # fmt: skip
    write({**facts, "rows": rows}, path)
    for row in rows:
        print(
            f"{row['target']:<12} N={row['last']}  target's part {row['target_mb']:>9,.2f} MB, "
            f"drafter {row['drafter_mb']:>7,.2f} MB, {row['dtype']}"
        )
    print(path)


def eight_b() -> LlamaConfig:
    """The shape of Llama-3-8B, by its published config."""
    rope: dict[str, Any] = {"rope_theta": 500_000.0}
    return LlamaConfig(
        vocab_size=128_256, hidden_size=4096, intermediate_size=14_336, num_hidden_layers=32,
        num_attention_heads=32, num_key_value_heads=8, max_position_embeddings=8192,
        tie_word_embeddings=False, **rope,
    )  # fmt: skip


def bundle_rows(target: Target) -> Iterator[dict[str, Any]]:
    """What a server of this target sends, and what its MoA drafters weigh, as loaded."""
    names = {info.tli: info.name for info in bundled_drafters() if info.method == "moa"}
    for last in STOPS:
        if last not in names:
            continue
        drafter = load_drafter(names[last], target)
        size = next(drafter.net.parameters()).element_size()
        yield {
            "target": target.name, "last": last, "method": drafter.name,
            "target_mb": nbytes(client_weights(target, last)) / 1e6,
            "parcel_mb": sum(len(piece.data) for piece in parcel(target, last)) / 1e6,
            "drafter_mb": parameters(drafter.net) * size / 1e6,
            "dtype": str(target.dtype).removeprefix("torch."),
        }  # fmt: skip


def shape_rows(name: str, config: LlamaConfig) -> Iterator[dict[str, Any]]:
    """The same in bfloat16 for a target of which only the shape is known: no weights, no server."""
    with init_empty_weights():
        target = Target(AutoModelForCausalLM.from_config(config))
        drafter = parameters(MoANet(moa_config(target)))
    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        for last in STOPS:
            yield {
                "target": name, "last": last, "method": f"moa-n{last}",
                "target_mb": as_if(folder, last) / 1e6, "parcel_mb": None,
                "drafter_mb": 2 * drafter / 1e6, "dtype": "bfloat16",
            }  # fmt: skip
