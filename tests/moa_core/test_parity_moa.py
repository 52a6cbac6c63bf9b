"""MoA gives the numbers, trees and texts of the authors' released code."""

import json
import shutil

import pytest
import torch
from torch import Tensor

from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Drafted, Trace, Verified
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.moa import MoADrafter
from moa_core.loading.load import load_drafter
from tests import released
from tests.released import CLOSE, EOS, NEAR_TIE, check_nodes, check_tree, recorded

TREES = {
    "d7b8t62": TreeSettings(depth=6, breadth=8, budget=62),
    "d4b3t10": TreeSettings(depth=3, breadth=3, budget=10),
    "chain_d7b1": TreeSettings(depth=6, breadth=1, budget=6),
}
CHAIN = TREES["chain_d7b1"]
RUNS = released.numbers("moa_generations")


def generate(drafter: MoADrafter, key: str) -> Trace:
    """Decode as one of the released runs did."""
    _, tree, kind = key.split(".")
    settings = Settings(
        max_new_tokens=int(kind[7:]) if kind.startswith("max_new") else 40,
        tree=TREES[tree],
        eos_ids=(RUNS[key].get("eos_token_id", EOS),),
    )
    prompt = released.prompt(kind if kind.startswith("prompt") else "prompt1_len24")
    return Trace(events=list(decode(released.target(), drafter, prompt, settings)))


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
    drafter, logits = released.ready(drafter, released.prompt())
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
        check_tree(draft.tree, cycle)
        assert list(result.choices) == cycle["target_argmax"]


def test_runs_cover_what_the_release_covers():
    """3 prompts, an eos and 3 lengths on 3 trees for 3 N; the eos on the large tree only."""
    assert len(RUNS) == 3 * (3 * 3 + 1 + 3 * 3)
    assert {RUNS[k]["eos_token_id"] for k in RUNS if "eos_mid" in k} == {72}
    sizes = [key.split(".")[1] for key in RUNS if "cycles" in RUNS[key]]
    assert set(sizes) == set(TREES)


def test_published_format_is_the_same_drafter(tmp_path):
    shutil.copy(released.FOLDER / "moa_n0_published" / "config.json", tmp_path)
    shutil.copy(released.FOLDER / "moa_n0" / "model.safetensors", tmp_path)
    published = load_drafter(str(tmp_path), released.target())
    assert isinstance(published, MoADrafter)
    sizes = json.loads((tmp_path / "config.json").read_text())
    for prefix, part in (
        ("self_attention", published.net.config.sa),
        ("cross_attention", published.net.config.ca),
        ("layer_self_attention", published.net.config.lsa),
    ):
        assert part is not None
        assert part.kv_heads == sizes[f"{prefix}_num_key_value_heads"]
        assert part.inner == sizes[f"{prefix}_intermediate_size"]
    assert published.net.config == released.moa(0).net.config
    key = "n0.d4b3t10.prompt1_len24"
    check_text(generate(published, key), key)
