"""MoA and EAGLE-2 give the numbers, trees and texts of the authors' released code."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from torch import Tensor

from moa_core.decoding.trace import Drafted, Trace, Verified
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.eagle import EagleDrafter
from moa_core.drafters.moa import MoADrafter
from moa_core.loading.load import load_drafter
from moa_core.untrusted import PICKLES
from tests import released
from tests.models import having_read, traced
from tests.released import CLOSE, EOS, NEAR_TIE, check_nodes, recorded

TREES = {
    "d7b8t62": TreeSettings(depth=6, breadth=8, budget=62),
    "d4b3t10": TreeSettings(depth=3, breadth=3, budget=10),
    "chain_d7b1": TreeSettings(depth=6, breadth=1, budget=6),
}
CHAIN = TREES["chain_d7b1"]
RUNS = released.numbers("moa_generations")


def generate(drafter: MoADrafter, key: str) -> Trace:
    _, tree, kind = key.split(".")
    count = int(kind[7:]) if kind.startswith("max_new") else 40
    prompt = released.prompt(kind if kind.startswith("prompt") else "prompt1_len24")
    how = {"tree": TREES[tree], "eos_ids": (RUNS[key].get("eos_token_id", EOS),)}
    return traced(released.target(), drafter, prompt, max_new_tokens=count, **how)


def check_text(trace: Trace, key: str) -> None:
    """Ids, target calls, and every accepted length but the last, which the authors cut."""
    expected = RUNS[key]
    assert trace.output_ids == expected["output_ids"]
    assert trace.accepted_lengths[:-1] == expected["accepted_lengths"][:-1]
    assert trace.target_calls == expected["target_calls"]


def check_all(found: dict[str, Tensor], expected: dict[str, Tensor], at: str) -> None:
    """Every tensor of numbers that was recorded of a place, and no other."""
    numbers = {name for name, tensor in expected.items() if tensor.is_floating_point()}
    assert {f"{at}.{name}" for name in found} == {
        one for one in numbers if one.startswith(f"{at}.")
    }
    for name, tensor in found.items():
        torch.testing.assert_close(tensor, expected[f"{at}.{name}"], **CLOSE)


@pytest.mark.usefixtures("plain_torch")
@pytest.mark.parametrize("tli", [0, 1, 3])
def test_every_tensor_of_the_prefill_and_of_the_first_chain(tli, monkeypatch):
    expected = released.tensors(f"moa_n{tli}_first_cycle")
    drafter = released.moa(tli)
    lsa = recorded(monkeypatch, drafter.net.layer_self_attention)
    to_width = recorded(monkeypatch, drafter.net.Ekv2E)
    drafter, logits = having_read(drafter, released.target(), released.prompt())
    keys, values = drafter.memory.read(0, len(released.prompt()))[0]
    found = {"target_logits_last": logits, "ca_k": keys, "ca_v": values}
    found |= {"lsa_in": lsa[0][0], "lsa_out": lsa[0][1]}
    found |= {"lsa_mean": to_width[0][0], "ekv2e": to_width[0][1]}
    check_all(found, expected, "prefill")
    text = recorded(monkeypatch, drafter.net.self_attention)
    memory = recorded(monkeypatch, drafter.net.cross_attention, "attend")
    head = recorded(monkeypatch, released.target().head)
    tree = released.propose(drafter, int(logits.argmax()), CHAIN)
    assert len(text) == len(memory) == len(head) == CHAIN.depth
    for step in range(CHAIN.depth):
        found = {
            "sa_in": text[step][0][0],
            "sa_out": text[step][1][0],
            "ca_in": memory[step][0][0],
            "ca_out": memory[step][1][0],
            "final_hidden": head[step][0][0],
            "logits": head[step][1][0, 0],
        }
        check_all(found, expected, f"step{step + 1}")
        assert tree.tokens[step + 1] == int(expected[f"step{step + 1}.logits"].argmax())
    text_ids = expected["step1.input_ids"].tolist()
    assert [*released.prompt(), tree.tokens[0]] == text_ids


@pytest.mark.parametrize("key", RUNS)
def test_texts_accepted_lengths_target_calls_and_trees(key):
    expected, trace = RUNS[key], generate(released.moa(int(key[1])), key)
    check_text(trace, key)
    drafted, cycles = trace.of(Drafted), expected.get("cycles", [])
    if "d7b8" in key:  # the authors' size: the first tree, its nodes in any order of near ties
        if cycles and expected["cut_gap"] >= NEAR_TIE:
            check_nodes(drafted[0].tree, cycles[0])
        return
    assert len(drafted) >= len(cycles) and (not cycles or expected["cut_gap"] > NEAR_TIE)
    for cycle, draft, result in zip(cycles, drafted, trace.of(Verified), strict=False):
        found = [list(draft.tree.tokens), list(draft.tree.parents)]  # in the same order
        assert found == [cycle["tokens"], cycle["parents"]]
        assert draft.tree.log_probs == pytest.approx(cycle["scores"], abs=1e-4)
        assert list(result.choices) == cycle["target_argmax"]


def test_published_format_is_the_same_drafter(tmp_path):
    shutil.copy(released.FOLDER / "moa_n0_published" / "config.json", tmp_path)
    shutil.copy(released.FOLDER / "moa_n0" / "model.safetensors", tmp_path)
    published = load_drafter(str(tmp_path), released.target())
    sizes = json.loads((tmp_path / "config.json").read_text())
    for prefix, part in (
        ("self_attention", published.net.config.sa),
        ("cross_attention", published.net.config.ca),
        ("layer_self_attention", published.net.config.lsa),
    ):
        assert part.kv_heads == sizes[f"{prefix}_num_key_value_heads"]
        assert part.inner == sizes[f"{prefix}_intermediate_size"]
    assert published.net.config == released.moa(0).net.config
    key = "n0.d4b3t10.prompt1_len24"
    check_text(generate(published, key), key)


EAGLE_RUNS = released.numbers("eagle2_generations")
HEAD = released.FOLDER / "eagle2_head"


@pytest.fixture(params=["model.safetensors", "pytorch_model.bin"])
def eagle(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> EagleDrafter:
    """The head from either kind of file, the other one not being there."""
    monkeypatch.setenv(PICKLES, "1")
    for name in ("config.json", request.param):
        shutil.copy(HEAD / name, tmp_path)
    drafter = load_drafter(str(tmp_path), released.target())
    assert isinstance(drafter, EagleDrafter)
    return drafter


def shape(name: str) -> TreeSettings:
    """Their settings in our counting: a level more than `depth`, and the root not counted."""
    found = {key.split(".")[0]: run["settings"] for key, run in EAGLE_RUNS.items()}[name]
    return TreeSettings(found["depth"] + 1, found["top_k"], found["total_token"] - 1)


def eagle_run(drafter: EagleDrafter, key: str) -> Trace:
    name, prompt = key.split(".")
    how = {"max_new_tokens": 40, "tree": shape(name), "eos_ids": (EOS,)}
    return traced(released.target(), drafter, released.prompt(prompt), **how)


@pytest.mark.usefixtures("plain_torch")
@pytest.mark.parametrize("name", ["t10_d3_k3", "t60_d7_k10", "chain_t7_d5_k1"])
def test_every_tensor_of_eagle_s_first_cycle(name, eagle, monkeypatch):
    expected = released.tensors(f"eagle2_{name}_first_cycle")
    drafter, logits = having_read(eagle, released.target(), released.prompt())
    torch.testing.assert_close(logits, expected["target_prefill_logits_last"], **CLOSE)
    joined = recorded(monkeypatch, drafter.net, "join")
    layer = recorded(monkeypatch, drafter.net.layers[0])
    head = recorded(monkeypatch, released.target().head)
    embedded = recorded(monkeypatch, released.target().embed)
    released.propose(drafter, int(logits.argmax()), shape(name))
    assert len(layer) == len(head) == len(joined) == shape(name).depth
    for call in range(shape(name).depth):
        theirs = {k.split(".")[1]: v for k, v in expected.items() if k.startswith(f"call{call}.")}
        assert embedded[call][0].tolist() == theirs["input_ids"].tolist()
        torch.testing.assert_close(layer[call][1][0], theirs["out_hidden"], **CLOSE)
        rows = len(theirs["logits"])
        torch.testing.assert_close(head[call][1].reshape(rows, -1), theirs["logits"], **CLOSE)


@pytest.mark.usefixtures("plain_torch")
def test_second_cycle_starts_from_the_accepted_features(eagle, monkeypatch):
    """Rows of drafted features are replaced by those of the true ones."""
    expected = released.tensors("eagle2_t60_d7_k10_first_cycle")
    layer = recorded(monkeypatch, eagle.net.layers[0])
    eagle_run(eagle, "t60_d7_k10.prompt1_len24")
    second = layer[shape("t60_d7_k10").depth][1][0]
    assert len(second) > 1
    torch.testing.assert_close(second, expected["cycle1.call0.out_hidden"], **CLOSE)


@pytest.mark.parametrize("key", EAGLE_RUNS)
def test_eagle_texts_accepted_lengths_and_first_trees(key):
    """Target calls are not compared: their code writes on past the length asked for."""
    expected = EAGLE_RUNS[key]
    trace = eagle_run(load_drafter(str(HEAD), released.target()), key)
    ours = trace.accepted_lengths[:-1]
    assert trace.output_ids == expected["output_ids_40"]
    assert ours and ours == expected["accepted_lengths"][: len(ours)]
    if expected["cut_gap"] > NEAR_TIE:
        check_nodes(trace.of(Drafted)[0].tree, expected["cycles"][0])
