"""The EAGLE-2 drafter gives the numbers, trees and texts of SafeAILab's code."""

import shutil
from pathlib import Path

import pytest
import torch

from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Drafted, Trace
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.eagle import EagleDrafter
from moa_core.loading.load import load_drafter
from moa_core.loading.untrusted import PICKLES
from tests import released
from tests.released import CLOSE, EOS, NEAR_TIE, check_nodes, recorded

RUNS = released.numbers("eagle2_generations")
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
    found = {key.split(".")[0]: run["settings"] for key, run in RUNS.items()}[name]
    return TreeSettings(found["depth"] + 1, found["top_k"], found["total_token"] - 1)


def generate(drafter: EagleDrafter, key: str) -> Trace:
    name, prompt = key.split(".")
    settings = Settings(40, shape(name), eos_ids=(EOS,))
    return Trace(events=list(decode(released.target(), drafter, released.prompt(prompt), settings)))


@pytest.mark.usefixtures("plain_torch")
@pytest.mark.parametrize("name", ["t10_d3_k3", "t60_d7_k10", "chain_t7_d5_k1"])
def test_every_tensor_of_the_first_cycle(name, eagle, monkeypatch):
    expected = released.tensors(f"eagle2_{name}_first_cycle")
    drafter, logits = released.ready(eagle, released.prompt())
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
    generate(eagle, "t60_d7_k10.prompt1_len24")
    second = layer[shape("t60_d7_k10").depth][1][0]
    assert len(second) > 1
    torch.testing.assert_close(second, expected["cycle1.call0.out_hidden"], **CLOSE)


@pytest.mark.parametrize("key", RUNS)
def test_texts_accepted_lengths_and_first_trees(key):
    """Target calls are not compared: their code writes on past the length asked for."""
    expected, drafter = RUNS[key], load_drafter(str(HEAD), released.target())
    assert isinstance(drafter, EagleDrafter)
    trace = generate(drafter, key)
    ours = trace.accepted_lengths[:-1]
    assert trace.output_ids == expected["output_ids_40"]
    assert ours and ours == expected["accepted_lengths"][: len(ours)]
    if expected["cut_gap"] > NEAR_TIE:
        check_nodes(trace.of(Drafted)[0].tree, expected["cycles"][0])
