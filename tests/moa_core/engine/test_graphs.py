"""Graphs say what the torch modules they were made from say, and write the target's own text."""

import copy
import mmap
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from moa_core.decoding.tree import DraftTree, Frontier
from moa_core.drafters.base import Drafter
from moa_core.engine import accelerate, accelerate_drafter, drafters
from moa_core.engine import target as targets
from moa_core.engine.int8 import turn
from moa_core.engine.session import give_back
from moa_core.engine.target import OnnxTarget
from moa_core.model.cache import KVCache
from moa_core.model.target import Target
from moa_core.train.drafters import fresh
from tests import models
from tests.models import BUSH, tiny_target, traced, variant

PROMPT = [(i * i + 3) % 60 for i in range(21)]
CLOSE = {"atol": 2e-5, "rtol": 1e-4}
SHAPES: dict[str, dict[str, Any]] = {
    **{name: models.SHAPES[name] for name in ("llama", "llama, 6 heads on 3", "mistral")},
    "llama, 5 heads on 1": models.SHAPES["llama, 5 heads on 1"],
    "llama, heads of 16": {"head_dim": 16},
    "llama, all biases": {**models.SHAPES["llama, all biases"], "head_dim": 16},
    "llama, yarn": {"head_dim": 16, "rope_parameters": models.YARN},
    "llama, tied": {"tie_word_embeddings": True, "rms_norm_eps": 0.1},
    "qwen2": {"family": "qwen2", "head_dim": 16},
    "qwen3": {"family": "qwen3", "head_dim": 24},
}  # fmt: skip
METHODS = (
    "moa-n0", "moa-n1", "moa-n2", "moa-n3", "mean of LSA", "without LSA",
    "eagle2", "eagle3", "tandem", "independent",
)  # fmt: skip


@torch.no_grad()
def loud(method: str, target: Target, whole: bool = False) -> Drafter:
    """A drafter whose every part says much. whole: with weights that eight bits hold exactly."""
    drafter = variant(method, target)
    torch.manual_seed(1)
    for weight in drafter.net.parameters():
        weight.normal_(1.0 if weight.ndim == 1 else 0.0, 0.1 if whole else 0.2)
    for part in (drafter.net, target.model) if whole else ():
        for linear in (one for one in part.modules() if isinstance(one, nn.Linear)):
            turned = turn(linear.weight)
            scales = turned.abs().amax(1, keepdim=True) / 127
            linear.weight.copy_(turn((turned / scales).round() * scales))
    return drafter


@pytest.mark.parametrize("shape", SHAPES)
@torch.inference_mode()
def test_the_target_reads_and_verifies_as_torch_does(shape, monkeypatch):
    monkeypatch.setattr(targets, "CHUNK", 8)  # a prompt of three parts
    slow = tiny_target(**SHAPES[shape])
    quick = accelerate(slow)
    assert type(quick) is OnnxTarget
    said = []
    for run in (slow.fork(), quick.fork()):
        logits, seen = run.prefill(PROMPT, 64)
        parts = [logits, seen.hidden, seen.keys_values().clone()]
        for path in ((2, 6), (1, 3, 5, 7), ()):  # the last two behind a cache that was closed up
            parts.append(run.verify(BUSH))
            seen = run.keep(path)
            parts += [seen.hidden, seen.keys_values().clone()]
        run.rewind(len(PROMPT) + 2)
        parts.append(run.verify(DraftTree.only_root(5)))
        for taps in ((1,), (0, 2), ()):  # layers that are tapped later are told as well
            run.taps = taps
            parts.append(run.prefill(PROMPT, 64)[1].hidden)
        said.append(parts)
    for one, other in zip(*said, strict=True):
        torch.testing.assert_close(one, other, **CLOSE)


@pytest.mark.parametrize(
    ("method", "shape", "int8"),
    [
        *((method, "llama", bool(at % 2)) for at, method in enumerate(METHODS)),
        ("moa-n1", "llama", False), ("moa-n2", "llama, all biases", True),
        ("moa-n2", "qwen2", False), ("moa-n2", "qwen3", True),
        ("eagle2", "llama, all biases", False), ("eagle2", "qwen3", True),
        ("tandem", "llama", True), ("tandem", "llama, 6 heads on 3", False),
    ],
)  # fmt: skip
@torch.inference_mode()
def test_every_level_says_what_torch_says(method, shape, int8, monkeypatch):
    monkeypatch.setattr(drafters, "LSA_CHUNK", 8)
    with torch.inference_mode(False):
        target = tiny_target(**SHAPES[shape])
        slow = loud(method, target, whole=int8)
    quick = accelerate_drafter(slow, target, int8)
    assert quick.precision == ("int8" if int8 else "float32") and type(quick) is not type(slow)
    assert quick.tli == slow.tli and quick.name == slow.name and quick.net is slow.net
    off = 0.1 if int8 else 1e-3  # in eight bits inputs are rounded, too
    for one, other in zip(levels_of(target, quick), levels_of(target, slow), strict=True):
        assert (one - other).norm() < off * other.norm()  # of each level as a whole


@pytest.mark.parametrize("int8", [False, True])
@torch.inference_mode()
def test_medusas_heads_say_what_torch_says(int8):
    with torch.inference_mode(False):
        target = tiny_target(**SHAPES["llama"])
        slow = loud("medusa", target, whole=int8)
    quick, said = accelerate_drafter(slow, target, int8), []
    for drafter in (slow, quick):
        drafter.open(target, 80)
        said.append(drafter.ahead(torch.linspace(-1, 1, target.config.hidden_size)[None]))
    assert type(quick) is not type(slow)
    assert (said[1] - said[0]).norm() < (0.1 if int8 else 1e-5) * said[0].norm()


def levels_of(target: Target, drafter: Drafter) -> list[Tensor]:
    """What a drafter says of the root and of two levels, in two cycles."""
    target, drafter, said = target.fork(), drafter.fork(), []
    drafter.open(target, 80)
    _, seen = target.prefill(PROMPT, 80)
    for token in (5, 8):
        drafter.observe(seen.ids, drafter.server_outputs(seen))
        drafter.root(token)
        drafter.forget()
        said.append(drafter.root(token)[None])  # asked for anew
        nodes = torch.eye(3, dtype=torch.bool)
        for level, parents in enumerate([[0, 0, 0], [0, 0, 2]], 1):
            tokens, above = torch.tensor([3, 9, 14 + level]), torch.tensor(parents)
            nodes = nodes if level == 1 else torch.cat([nodes[above], torch.eye(3).bool()], 1)
            said.append(drafter.expand(Frontier(tokens, above, nodes, level)))
        drafter.forget()
        target.verify(DraftTree((token, 7), (-1, 0), (0, 1), (0.0, 0.0)))
        seen = target.keep((1,))
    return said


@torch.inference_mode()
def test_what_was_trained_or_moved_is_noticed():
    with torch.inference_mode(False):
        slow = tiny_target()
        quick = accelerate(slow)
        other = copy.deepcopy(quick)
    before, _ = first = quick.fork().prefill(PROMPT, 32)
    for weight in (slow.layers[1].mlp.down_proj.weight, slow.embed.weight):
        weight.mul_(2)
        after, _ = quick.fork().prefill(PROMPT, 32)
        assert (after - before).abs().max() > 1e-3
        torch.testing.assert_close(after, slow.fork().prefill(PROMPT, 32)[0], **CLOSE)
        before = after
    torch.testing.assert_close(other.fork().prefill(PROMPT, 32)[0], first[0], **CLOSE)
    other.model.to(torch.bfloat16)  # then torch runs it
    assert other.fork().prefill(PROMPT, 32)[0].dtype == torch.bfloat16


def test_what_has_no_graph_stays_torchs(monkeypatch, caplog):
    plain = tiny_target()
    drafter = fresh("moa-n1", plain, 0)
    for sizes in ({"hidden_act": "gelu"}, {"head_dim": 12}):
        other = tiny_target(**sizes)
        assert accelerate(other) is other
        one = fresh("moa-n1", other, 0)
        assert accelerate_drafter(one, other, True) is one and one.precision == "float32"
    scaled = copy.deepcopy(plain.model)
    scaled.set_input_embeddings(type("Scaled", (nn.Embedding,), {})(64, 32))
    other = Target(scaled)
    assert accelerate(other) is other and accelerate_drafter(drafter, other, True) is drafter
    for change in (torch.bfloat16, torch.device("meta")):
        other = copy.deepcopy(plain)
        other.model.to(change)
        assert accelerate(other) is other
    monkeypatch.setattr("moa_core.engine.session.free_bytes", lambda _: 1000)
    assert caplog.text.count("Torch runs tiny-llama-0: its layers") == 2
    assert accelerate(plain) is plain and accelerate_drafter(drafter, plain, True) is drafter
    assert "Torch runs this model, because onnxruntime would need" in caplog.text


def test_weights_stay_torchs_and_a_head_is_shared():
    target = tiny_target()
    graph = accelerate(target)._graph()
    linears = [one for one in target.decoder.modules() if isinstance(one, nn.Linear)]
    ours = {array.ctypes.data for array in graph.weights.values()}
    assert {linear.weight.data_ptr() for linear in linears} <= ours
    assert len(graph.model()) < 1.5e5  # names of weights, not weights
    sessions = []
    for method in ("moa-n0", "eagle2"):
        drafter = accelerate_drafter(fresh(method, target, 0), target, False)
        sessions.append(targets.head_session(drafter.head_for(target), False))
    assert sessions == [targets.head_session(target.head, False)] * 2


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux")
def test_pages_of_files_are_given_back_and_come_again(tmp_path):
    numbers = torch.arange(1 << 16, dtype=torch.float32)
    save_file({"one": numbers}, tmp_path / "file.safetensors")
    mapped = load_file(tmp_path / "file.safetensors")["one"]
    assert give_back([mapped.numpy()]) >= numbers.nbytes - 2 * mmap.PAGESIZE
    assert give_back([numbers.numpy()]) == 0  # no file holds these
    assert torch.equal(mapped, numbers)


def test_torch_leaves_the_processor_to_the_graphs(monkeypatch):
    target, counts, keep = accelerate(tiny_target()), [], KVCache.keep

    def counted(cache: KVCache, slots: Sequence[int]) -> None:
        counts.append(torch.get_num_threads())
        keep(cache, slots)

    monkeypatch.setattr(KVCache, "keep", counted)
    torch.set_num_threads(2)
    try:
        traced(target, "moa-n0", PROMPT, max_new_tokens=8)
        assert torch.get_num_threads() == 2 and set(counts) == {1}
    finally:
        torch.set_num_threads(1)


def test_the_engine_keeps_no_events_to_send(tmp_path):
    """On Linux onnxruntime's import alone would write a device id and events to send."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    env |= {"HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    env.pop("ORT_DISABLE_TELEMETRY", None)
    code = "import moa_core.engine, onnxruntime"
    subprocess.run([sys.executable, "-c", code], env=env, check=True, timeout=120)
    assert not list(tmp_path.rglob("*"))
