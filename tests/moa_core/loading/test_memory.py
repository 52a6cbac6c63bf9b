"""The memory that a target needs is known before it is loaded, and is right."""

import importlib.util
from itertools import accumulate
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch.profiler import ProfilerActivity, profile
from transformers import AutoConfig

from moa_core import runtime
from moa_core.__main__ import main
from moa_core.errors import UserError
from moa_core.loading import memory
from moa_core.loading.load import load_drafter, load_target
from moa_core.loading.memory import Drafting, check_room, estimate, of_shapes, stored
from moa_core.loading.presets import LLAMA3, LLAMA3_EAGLE, LLAMA3_MOA, PRESETS
from moa_core.model.target import Target, parameters
from moa_core.runtime import free_bytes
from moa_core.untrusted import PICKLES
from tests.models import SHAPES, save_target, tiny_target
from tests.published import published_nets, save_published

PRESET = PRESETS["llama3-8b"]
LLAMA = AutoConfig.for_model(**PRESET.config)
DRAFTERS = [Drafting(*need) for need in PRESET.needs]
TIED = "llama, tied embeddings and a vocabulary of 40"
WIDE = {"hidden_size": 256, "intermediate_size": 768, "num_attention_heads": 8}
MODELS: dict[str, dict[str, Any]] = {**SHAPES, "wide": WIDE}
FORMS = [
    (TIED, "float32", None), ("qwen2", "bfloat16", None), ("qwen3", "float32", None),
    ("wide", "bfloat16", None), ("wide", "float32", 4), ("wide", "bfloat16", 8),
]  # fmt: skip


def held(target: Target) -> int:
    """Bytes of a loaded target's weights, scales included."""
    total = sum(weight.nbytes for weight in target.model.parameters())
    for weight in target.model.parameters():
        state = getattr(weight, "quant_state", None)
        total += sum(part.nbytes for part in (state.absmax, state.code)) if state else 0
        scales = getattr(weight, "SCB", None)
        total += 0 if scales is None else scales.nbytes
    return total


@pytest.mark.parametrize(("name", "dtype", "bits"), FORMS)
def test_bytes_of_weights_are_right(name, dtype, bits, tmp_path):
    if bits and importlib.util.find_spec("bitsandbytes") is None:
        pytest.skip("no bitsandbytes")
    save_target(tmp_path, tiny_target(**MODELS[name]))
    target = load_target(str(tmp_path), dtype, "cpu", bits=bits)
    assert target.need.weights == pytest.approx(held(target), rel=0.02 if bits else 0)
    assert target.need.form.startswith(f"{bits}-bit" if bits else dtype)


@pytest.fixture
def pickles(monkeypatch: pytest.MonkeyPatch) -> None:
    """EAGLE's published file is one, and a folder may be anybody's."""
    monkeypatch.setenv(PICKLES, "1")


def test_a_drafter_is_weighed_by_the_shapes_in_its_file(tmp_path, pickles):
    """The copy of the embeddings in EAGLE's pickle is the target's, and not loaded."""
    places = save_published(tmp_path)
    moa = str(places[LLAMA3_MOA])
    target = load_target(str(places[LLAMA3]), "float32", "cpu", drafters=[moa, "none"])
    for spec in (LLAMA3_MOA, LLAMA3_EAGLE):
        found = stored(places[spec])
        assert found.numbers == parameters(load_drafter(str(places[spec]), target).net)
    assert stored(places[LLAMA3_MOA]).lsa == (64, 96)
    assert target.need.drafters == 4 * stored(places[LLAMA3_MOA]).numbers
    (places[LLAMA3_MOA] / "model.safetensors").write_bytes(b"cut")
    assert stored(places[LLAMA3_MOA]) == Drafting(0)
    one = {"layer_self_attention.mlp.gate_proj.weight": torch.zeros(4)}  # no matrix
    save_file(one, places[LLAMA3_MOA] / "model.safetensors")
    assert stored(places[LLAMA3_MOA]) == Drafting(0)


def test_llama_3_8b_by_its_published_shapes():
    """8,030,261,248 numbers, and drafters of 264 and 252 million; K and V are 128 KiB a token."""
    for need, net in zip(DRAFTERS, published_nets(shrink=1).values(), strict=True):
        assert of_shapes({name: tuple(one.shape) for name, one in net.state_dict().items()}) == need
    need = estimate(LLAMA, torch.bfloat16, drafters=DRAFTERS)
    assert need.weights == 2 * 8_030_261_248 and need.context == 8192
    # Two layers' own K and V with four heads each are a thirty-second more.
    assert need.cache == 8192 * (128 * 1024 + 2 * 2048)
    assert estimate(LLAMA, torch.bfloat16, 8).weights / 1e9 == pytest.approx(9.08, abs=0.01)
    assert estimate(LLAMA, torch.bfloat16, 4).weights / 1e9 == pytest.approx(6.03, abs=0.01)
    long = AutoConfig.for_model(**{**PRESET.config, "max_position_embeddings": 131_072})
    assert estimate(long, torch.bfloat16).context == 8192
    assert str(need).startswith("20.1 GB (weights in bfloat16 16.1 GB, drafters 1.0 GB, K and V of")


def peak(run: profile) -> int:
    events = run.profiler.kineto_results.events()
    changes = [event.nbytes() for event in events if event.name() == "[memory]"]
    return max(accumulate(changes))


@torch.inference_mode()
@pytest.mark.parametrize("spec", [LLAMA3_MOA, LLAMA3_EAGLE])
def test_working_memory_is_above_what_a_long_prompt_takes(spec, tmp_path, pickles):
    places = save_published(tmp_path, max_position_embeddings=2048)
    target = load_target(str(places[LLAMA3]), "float32", "cpu", drafters=[str(places[spec])]).fork()
    drafter = load_drafter(str(places[spec]), target).fork()
    drafter.open(target, 2048)
    target.prefill([7], 8)  # joins matrices, in the place of those they are made of
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as run:
        _, seen = target.prefill([7] * 2040, 2048)
        drafter.observe(seen.ids, drafter.server_outputs(seen))
    expected = target.need.working + target.need.cache
    assert 0.5 * expected < peak(run) < expected, (peak(run), expected)


CPU, CARD = torch.device("cpu"), torch.device("cuda")


@pytest.mark.parametrize(
    ("free", "dtype", "device", "bits", "words"),
    [
        (24, torch.float32, CPU, None, r"^llama does not fit: it needs 40\.2 GB \(weights in "
         r"float32 32\.1 GB, .* and this machine has 24\.0 GB free, 16\.2 GB too little\. Try "),
        (9, torch.bfloat16, CPU, 4, r"10\.1 GB \(weights in 4-bit NF4"),
        (10, torch.bfloat16, CARD, None, r"the device cuda has 10\.0 GB"),
    ],
)  # fmt: skip
def test_a_shortfall_is_named(monkeypatch, free, dtype, device, bits, words):
    monkeypatch.setattr(memory, "free_bytes", lambda _: int(free * 1e9))
    with pytest.raises(UserError, match=words):
        check_room("llama", LLAMA, dtype, device, bits, DRAFTERS)


def test_no_weights_are_read_for_a_refusal(tmp_path, monkeypatch, capsys):
    LLAMA.save_pretrained(tmp_path)  # a config, and no weights at all
    monkeypatch.setattr(memory, "free_bytes", lambda _: 1)
    assert main(("generate", "--target", str(tmp_path), "--prompt-ids", "1")) == 2
    assert "does not fit: it needs" in capsys.readouterr().err


def test_free_memory_is_within_a_containers_limit(tmp_path, monkeypatch):
    machine = SimpleNamespace(available=10_000)
    monkeypatch.setattr("psutil.virtual_memory", lambda: machine)
    monkeypatch.setattr(runtime, "CONTAINER", tmp_path)
    assert free_bytes(CPU) == 10_000
    for name, text in {
        "memory.max": "900", "memory.current": "800", "memory.stat": "anon 1\ninactive_file 50\n",
    }.items():  # fmt: skip
        (tmp_path / name).write_text(text)
    assert free_bytes(CPU) == 150
    (tmp_path / "memory.max").write_text("max")
    assert free_bytes(CPU) == 10_000


def test_the_command_prints_a_table(bundle, capsys):
    assert main(("memory", "--preset", "llama3-8b")) == 0
    table = capsys.readouterr().out.splitlines()
    assert len(table) == 6 and "| K and V of 8,192 tokens |" in table[0]
    assert table[3] == "| bfloat16 | 16.1 GB | 1.0 GB | 1.1 GB | 1.9 GB | 20.1 GB |"
    tables = []
    for drafter in ((), ("--drafter", "moa-n0")):
        assert main(("memory", *drafter)) == 0
        tables.append(capsys.readouterr().out)
    assert "| float32 | " in tables[0] != tables[1]
