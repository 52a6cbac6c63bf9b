"""Methods: all write the target's own greedy text; what is counted, and what is said of them."""

import sys

import numpy as np
import pytest

from moa_core.bench.methods import HuggingFace, load_methods, written
from moa_core.bench.programs import interleaved
from moa_core.bench.results import tau
from moa_core.bench.run import seeded
from moa_core.decoding.decode import Settings
from moa_core.decoding.tree import TreeSettings
from moa_core.decoding.verify import Sampling
from moa_core.errors import UserError
from moa_core.loading.hub import DEFAULT
from tests.models import plain_greedy, speaking_target

IDS = [[5, 9, 33, 5, 9], [7, 8, 12]]
TREE = TreeSettings(3, 2, 6)


def test_all_methods_write_the_targets_own_text(target, bundle):
    twin = target.fork()
    ours = ["vanilla", "eagle2", "ngram", "moa-n1"]
    methods = load_methods([*ours, "hf-generate", "hf-lookup"], target)
    for ids, ends in zip(IDS, (True, False), strict=True):
        stop = (plain_greedy(target, ids, 8)[7],) if ends else ()  # an end within reach
        twin.eos_ids = stop
        expected = written(plain_greedy(twin, ids, 20), len(ids))
        for name, method in methods.items():
            record = method.run(ids, Settings(20, TREE, eos_ids=stop))
            assert {key: record[key] for key in expected} == expected, name


def test_a_peers_acceptance_length_is_counted_from_outside(target):
    settings = Settings(20, TREE)
    plain = load_methods(["hf-generate"], target)["hf-generate"].run(IDS[0], settings)
    assert plain["target_calls"] == 20 and tau([plain]) == 1
    assert plain["gained_after_prefill"] == 19
    assert plain["seconds"]["prefill"] > 0 and plain["seconds"]["decode"] > 0
    # A perfect assistant, the target itself: its first forward verifies drafts already.
    itself = HuggingFace("itself", target, {"assistant_model": speaking_target().model})
    made = itself.run(IDS[0], settings)
    assert made["output"] == plain["output"]
    assert made["target_calls"] < 20 and made["gained_after_prefill"] < 19
    assert not target.model._forward_hooks and not target.model._forward_pre_hooks


def test_sampled_texts_are_alike_for_all_methods_and_new_each_repeat(target, bundle):
    methods, texts = load_methods(["vanilla", "eagle2", "moa-n0"], target), set()
    for repeat in range(3):
        settings = seeded(Settings(20, sampling=Sampling(1.0), eos_ids=()), TREE, repeat, 1)
        outputs = {method.run(IDS[0], settings)["output"] for method in methods.values()}
        assert len(outputs) == 1
        texts |= outputs
    assert len(texts) == 3


def test_a_context_that_is_too_short_ends_every_text(target, bundle):
    methods = load_methods(["vanilla", "moa-n0", "hf-generate", "hf-lookup"], target)
    precisions = [method.about()["draft_precision"] for method in methods.values()]
    assert precisions == [None, "float32", None, None]
    assert [method.weights() > 0 for method in methods.values()] == [False, True, False, False]
    long = [5, 9, 33] * 80
    settings = Settings(100, TREE, Sampling(0.8), eos_ids=())
    for method in methods.values():
        assert method.run(long, settings)["new_tokens"] == target.context - len(long)


def test_halves_of_a_head_become_neighbours():
    rows = np.repeat(np.arange(8, dtype=np.float32)[:, None], 3, 1)  # two heads of four rows
    assert interleaved(rows, 2)[:, 0].tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


@pytest.mark.parametrize(
    ("method", "name", "words"),
    [
        ("llama-cpp", DEFAULT, "pip install xllamacpp"),
        ("openvino", DEFAULT, "pip install openvino-genai"),
        ("openvino", "another", "compared on smollm2-135m alone"),
    ],
)
def test_what_another_program_needs_is_said(method, name, words, target, monkeypatch):
    for module in ("xllamacpp", "openvino_genai"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(target, "name", name)
    with pytest.raises(UserError, match=words):
        load_methods([method], target)
