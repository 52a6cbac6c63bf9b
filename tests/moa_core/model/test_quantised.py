"""Targets in 4 and 8 bits decode on a CPU, and what they write is their own greedy text.

In 8 bits without a threshold for outliers each row is rounded by itself, so that a tree's nodes
come out as they would alone. In 4 bits the weights are unpacked to the float format of the rest,
and another number of rows may be added up in another order.
"""

import importlib.util
import logging
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Trace
from moa_core.decoding.tree import TreeSettings
from moa_core.errors import UserError
from moa_core.link.client_weights import open_target, write
from moa_core.link.connection import Address
from moa_core.link.remote import Remote
from moa_core.loading.load import load_drafter, load_target
from moa_core.model.target import Target
from tests.models import gap_to, plain_greedy, save_pair, traced
from tests.serving import serving

needs_bitsandbytes = pytest.mark.skipif(
    importlib.util.find_spec("bitsandbytes") is None, reason="bitsandbytes is not installed"
)
METHODS = ("vanilla", "moa-n1", "eagle2")
PROMPTS = ([7], [5, 9, 33, 7, 21, 40, 11], [(i * i + 3) % 60 for i in range(40)])
TREE = TreeSettings(4, 3, 12)
NEAR_TIE = 1e-3  # of logits that are tens apart elsewhere


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    return save_pair(folder, METHODS[1:], hidden_size=64, intermediate_size=128)


def quantised(folder: Path, bits: int) -> Target:
    return load_target(str(folder / "target"), "float32", "cpu", bits=bits)


def written(target: Target, folder: Path, method: str, prompt: list[int], **how: Any) -> Trace:
    drafter = load_drafter(method if method == "vanilla" else str(folder / method), target)
    return traced(target, drafter, prompt, **{"max_new_tokens": 32, "tree": TREE, **how})


def check_texts(
    target: Target, folder: Path, near_tie: float, methods: Sequence[str] = METHODS,
    trees: Sequence[TreeSettings] = (TREE,), tokens: int = 32, least: int = 20,
) -> None:  # fmt: skip
    """Every method writes the target's own greedy text, but for near ties; `least` drafts pass."""
    accepted = 0
    for prompt in PROMPTS:
        expected = plain_greedy(target, prompt, tokens)
        for method, tree in product(methods, trees):
            trace = written(target, folder, method, prompt, tree=tree, max_new_tokens=tokens)
            accepted += sum(trace.accepted_lengths) - len(trace.accepted_lengths)
            gap = gap_to(target, prompt, trace.output_ids, expected)
            assert gap is None or abs(gap) < near_tie, (method, tree, gap)
    assert accepted > least


@needs_bitsandbytes
@pytest.mark.parametrize("bits", [8, 4])
def test_a_quantised_target_writes_its_own_greedy_text(saved, bits, caplog):
    caplog.set_level(logging.WARNING)
    target, whole = quantised(saved, bits), load_target(str(saved / "target"), "float32", "cpu")
    kinds = {type(module).__name__ for module in target.layers.modules()}
    assert ("Linear8bitLt" if bits == 8 else "Linear4bit") in kinds
    assert type(target.model.lm_head).__name__ == "Linear" and target.dtype == torch.float32
    check_texts(target, saved, 0 if bits == 8 else NEAR_TIE)
    texts = ([plain_greedy(one, prompt, 32) for prompt in PROMPTS] for one in (target, whole))
    assert next(texts) != next(texts), "rounded weights should write another text than whole ones"
    assert not [record for record in caplog.records if record.name.startswith("bitsandbytes")]


@needs_bitsandbytes
@pytest.mark.parametrize("bits", [8, 4])
def test_a_client_gets_plain_layers_of_a_quantised_target(saved, bits, tmp_path):
    """What the server computes with, to the rounding: so that TLI drafts as it does beside it."""
    target = quantised(saved, bits)
    write(target, 2, tmp_path)
    client = open_target(tmp_path)
    assert all(type(one).__name__ != "Linear4bit" for one in client.layers.modules())
    here = written(target, saved, "moa-n1", PROMPTS[1])
    with serving(target, lambda name: load_drafter(str(saved / name), target)) as (_, port):
        drafter = load_drafter(str(saved / "moa-n1"), client)
        with Remote(Address(f"ws://127.0.0.1:{port}", "", "f32"), client, drafter) as remote:
            run = decode(client, drafter, PROMPTS[1], Settings(32, TREE), remote=remote)
            far = Trace(events=list(run))
    assert far.output_ids == here.output_ids
    assert far.tau == pytest.approx(here.tau, rel=0.15)


def test_without_bitsandbytes_it_is_asked_for(saved, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "bitsandbytes", None)
    with pytest.raises(UserError, match="--load-in-4bit needs bitsandbytes"):
        quantised(saved, 4)
