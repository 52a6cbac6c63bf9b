"""llama.cpp as a row of the benchmark: the same weights, the same text."""

import sys

import numpy as np
import pytest

from moa_core.bench.llama_cpp import interleaved
from moa_core.bench.methods import load_methods
from moa_core.decoding.decode import Settings
from moa_core.decoding.verify import Sampling
from moa_core.errors import UserError
from moa_core.loading.load import load_target
from tests.models import tiny_target

PROMPT = [5, 9, 33, 7, 21, 40, 11]


def test_halves_of_a_head_become_neighbours() -> None:
    rows = np.repeat(np.arange(8, dtype=np.float32)[:, None], 3, 1)  # two heads of four rows
    assert interleaved(rows, 2)[:, 0].tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


def test_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "llama_cpp", None)
    with pytest.raises(UserError, match="pip install llama-cpp-python gguf"):
        load_methods(["llama-cpp"], tiny_target())


def test_it_writes_what_plain_decoding_writes() -> None:
    pytest.importorskip("llama_cpp", reason="needs llama-cpp-python")
    pytest.importorskip("gguf", reason="needs gguf")
    target = load_target()
    methods = load_methods(["vanilla", "llama-cpp"], target)
    ours, theirs = (method.run(PROMPT, Settings(40, eos_ids=())) for method in methods.values())
    assert ours["output"] == theirs["output"] and theirs["target_calls"] == 40
    with pytest.raises(UserError, match="temperature 0"):
        methods["llama-cpp"].run(PROMPT, Settings(4, sampling=Sampling(1.0)))
