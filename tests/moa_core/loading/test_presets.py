"""The published pair of a preset: by folder and by Hub id, unconverted; and other pairs refused.

The checkpoints have the published key names, config keys and numbers of heads, at a 32nd of the
widths and with random weights: the true ones are gated, and far too large for a test.
"""

import json
import re
from pathlib import Path

import pytest

from moa_core.__main__ import main
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.eagle import EagleDrafter
from moa_core.drafters.moa import MoADrafter
from moa_core.drafters.registry import without_weights
from moa_core.errors import UserError
from moa_core.loading.load import load_drafter, load_target
from moa_core.loading.presets import LLAMA3, LLAMA3_EAGLE, LLAMA3_MOA, PRESETS
from moa_core.text import prompt_ids
from moa_core.untrusted import PICKLES
from tests.moa_core.conftest import Hub
from tests.models import lossless
from tests.published import save_published

SHORT = ("--prompt", "The fox", "--max-new-tokens", "12", "--ignore-eos", "--json")
COMMAND = ("generate", "--preset", "llama3-8b", *SHORT)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return save_published(tmp_path_factory.mktemp("published"))


@pytest.fixture
def pinned(hub: Hub, folders: dict[str, Path]) -> Hub:
    for spec, folder in folders.items():
        name, _, commit = spec.partition("@")
        hub.put(name, folder, commit=commit)
    return hub


@pytest.mark.parametrize("by", ["folder", "id"])
def test_they_load_unconverted(folders, pinned, monkeypatch, by):
    if by == "folder":  # EAGLE's is a pickle, and a folder may be anybody's
        monkeypatch.setenv(PICKLES, "1")
    place = {spec: str(folders[spec]) if by == "folder" else spec for spec in folders}
    target = load_target(place[LLAMA3], "float32", "cpu")
    ids = prompt_ids(target.tokenizer, "The fox ran home.")
    for spec, kind in ((LLAMA3_MOA, MoADrafter), (LLAMA3_EAGLE, EagleDrafter)):
        drafter = load_drafter(place[spec], target)
        assert isinstance(drafter, kind)
        lossless(target, drafter, ids, 30, tree=TreeSettings(6, 8, 62), eos_ids=target.eos_ids)
    assert all("/main" not in path for path in pinned.asked), "what is pinned is asked for"


@pytest.mark.parametrize(
    ("drafter", "words"),
    [
        (LLAMA3_MOA, r"MOASpec.*: Ekv2E.weight has the shape \(128, 64\), not \(160, 64\)"),
        (LLAMA3_EAGLE, r"EAGLE-LLaMA3-.*@02d97adb does not fit .*\(128, 256\), not \(160, 320\)"),
    ],
)  # fmt: skip
def test_a_wrong_pair_is_refused_by_the_first_mismatch(pinned, tmp_path, drafter, words):
    sizes = {"hidden_size": 160, "num_attention_heads": 40}
    other = load_target(str(save_published(tmp_path, **sizes)[LLAMA3]), "float32", "cpu")
    with pytest.raises(UserError, match=words):
        load_drafter(drafter, other)


def test_generate_takes_a_preset(pinned, capsys):
    texts = []
    for named in ((), ("--drafter", "eagle2"), ("--drafter", "none")):
        assert main((*COMMAND, *named)) == 0
        texts.append(json.loads(capsys.readouterr().out)["output_ids"])
    assert texts[0] == texts[1] == texts[2] and len(texts[0]) == 12


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "--drafter moa-n2",
            r"for TLI N = 2 \(trained: 0\).* --target meta-llama.* --methods moa-n2",
        ),
        ("--target a/b", "name --preset or --target, not both"),
        (
            "--drafter eagle",
            f"called 'eagle': choose from moa-n0, eagle2, {', '.join(without_weights())}",
        ),
        ("--server ws://x:1 --load-in-8bit", "--load-in-... is for serve"),
    ],
)
def test_what_a_preset_has_not_is_refused(pinned, capsys, words, said):
    assert main([*COMMAND, *words.split()]) == 2
    assert re.search(said, capsys.readouterr().err)
    assert not any("safetensors" in path for path in pinned.asked)


def test_bench_compares_a_presets_methods(pinned, tmp_path):
    (suite := tmp_path / "suite.jsonl").write_text('{"kind": "one", "prompt": "The fox"}\n')
    out = tmp_path / "out"
    words = ("--suite", str(suite), "--repeat", "1", "--max-new-tokens", "8", "--out", str(out))
    assert main(("bench", "--preset", "llama3-8b", *words)) == 0
    results = json.loads((out / "results.json").read_text())
    assert list(results["methods"]) == ["vanilla", *PRESETS["llama3-8b"].by_method]
