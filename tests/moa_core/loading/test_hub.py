"""From the Hub: the right revision, or what to do; and a preset's published pair, unconverted.

The pair's checkpoints have the published key names, config keys and numbers of heads, at a 32nd of
the widths and with random weights: the true ones are gated, and far too large for a test.
"""

import json
import re
from pathlib import Path

import pytest

from moa_core.__main__ import main
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.eagle import EagleDrafter
from moa_core.drafters.known import WITHOUT_WEIGHTS
from moa_core.drafters.moa import MoADrafter
from moa_core.errors import UserError
from moa_core.loading.hub import fetch_config, fetch_weights, short_name
from moa_core.loading.load import load_drafter, load_target
from moa_core.loading.presets import LLAMA3, LLAMA3_EAGLE, LLAMA3_MOA, PRESETS
from moa_core.loading.untrusted import PICKLES
from moa_core.text import prompt_ids
from tests.moa_core.conftest import MAIN, Hub, lead_to
from tests.models import plain_greedy, traced
from tests.published import save_published

NAME = "somebody/tiny"


@pytest.fixture
def stocked(hub: Hub, saved_bundle: Path) -> Hub:
    hub.put(NAME, saved_bundle / "tiny")
    return hub


def got(hub: Hub, what: str) -> bool:
    return any(path.startswith("GET") and what in path for path in hub.asked)


def test_a_target_comes_by_its_id_once_and_reports_the_way(stocked):
    said: list[str] = []
    target = load_target(NAME, report=said.append)
    assert target.name == NAME and target.tokenizer is not None
    assert said[0].startswith(f"{NAME} will need ") and said[-1] == f"Loading {NAME}."
    amounts = [words for words in said if words.startswith(f"Downloading {NAME}: ")]
    assert amounts and all(" of " in words and words.endswith("MB.") for words in amounts)
    stocked.asked.clear()
    assert load_target(NAME).need == target.need and not got(stocked, "safetensors")


def test_a_pinned_revision_is_the_one_that_comes(stocked):
    assert load_target(f"{NAME}@{MAIN}").name == f"{NAME}@11111111"
    stocked.repositories[NAME].commit = "2" * 40  # main moves on
    assert fetch_config(f"{NAME}@{MAIN}").name == MAIN and fetch_config(NAME).name == "2" * 40
    assert [short_name(one) for one in ("a/b@v1", "a/b")] == ["a/b@v1", "a/b"]


@pytest.mark.parametrize(
    ("spec", "token", "words"),
    [
        (f"{NAME}@v9", None, r"has no revision 'v9': see http.*/commits/main"),
        ("somebody/else", None, r"There is no somebody/else on the Hub .* check the id"),
        ("--odd--/..name", None, "is not a Hub id, which looks like owner/name"),
        ("somebody/gated", None, r"accept its licence at http.*/somebody/gated.* set HF_TOKEN"),
        ("somebody/gated", "hf_known", "make a token that may read public gated repositories"),
        ("somebody/gated", "hf_forged", "does not know the token in HF_TOKEN"),
        ("somebody/gated", "hf_granted", None),
    ],
)
def test_a_refusal_of_the_hub_says_what_to_do(
    stocked, saved_bundle, monkeypatch, spec, token, words
):
    stocked.put("somebody/gated", saved_bundle / "tiny", gated=True)
    stocked.known |= {"hf_known", "hf_granted"}
    stocked.granted.add("hf_granted")
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    if words is None:
        assert (fetch_config(spec) / "config.json").exists()
        return
    with pytest.raises(UserError, match=words):
        fetch_config(spec)


def test_a_cut_download_goes_on_where_it_stopped(stocked, monkeypatch):
    monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda seconds: None)
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 1000)
    repository = stocked.repositories[NAME]
    whole = repository.files["model.safetensors"]
    repository.cut = 0  # the connection ends before a byte has come, however often
    with pytest.raises(UserError, match=r"could not be downloaded \(.*repeat the command to"):
        fetch_weights(NAME)
    repository.cut = len(whole) // 3  # it goes on by itself, from where each cut was
    assert (fetch_weights(NAME) / "model.safetensors").read_bytes() == whole
    assert sum("bytes=" in path for path in stocked.asked) >= 2


def test_without_a_way_to_the_hub_the_cache_serves(stocked, monkeypatch):
    fetch_weights(NAME)
    lead_to("http://127.0.0.1:9", monkeypatch)  # nobody listens there
    assert fetch_weights(f"{NAME}@{MAIN}").name == MAIN
    with pytest.raises(UserError, match=r"other is not complete in this .* cache .* reached"):
        fetch_config("somebody/other")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert load_target(NAME).name == NAME
    with pytest.raises(UserError, match=r"cannot be reached: .* HF_HUB_OFFLINE"):
        fetch_config("somebody/other")


def test_pickles_come_on_request_where_there_is_nothing_better(stocked, saved_bundle):
    both = stocked.put("somebody/head", saved_bundle / "eagle2")
    both.files["pytorch_model.bin"] = b"never opened"
    old = stocked.put("somebody/old", saved_bundle / "eagle2")
    old.files["pytorch_model.bin"] = old.files.pop("model.safetensors")
    fetch_weights("somebody/head", pickles=True)
    fetch_weights("somebody/old")
    assert not got(stocked, "pytorch_model")
    assert (fetch_weights("somebody/old", pickles=True) / "pytorch_model.bin").exists()


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
    expected = plain_greedy(target, ids, 30)
    for spec, kind in ((LLAMA3_MOA, MoADrafter), (LLAMA3_EAGLE, EagleDrafter)):
        drafter = load_drafter(place[spec], target)
        assert isinstance(drafter, kind)
        more = {"tree": TreeSettings(6, 8, 62), "eos_ids": target.eos_ids}
        trace = traced(target, drafter, ids, max_new_tokens=30, **more)
        assert trace.output_ids == expected, spec
    assert all("/main" not in path for path in pinned.asked), "what is pinned is asked for"


@pytest.mark.parametrize(
    ("sizes", "drafter", "words"),
    [
        (
            {"hidden_size": 160, "num_attention_heads": 40}, LLAMA3_MOA,
            r"MOASpec.*: Ekv2E.weight has the shape \(128, 64\), not \(160, 64\)",
        ),
        ({"vocab_size": 300}, LLAMA3_MOA, "vocabulary is 280, the target's is 300"),
        (
            {"hidden_size": 160, "num_attention_heads": 40}, LLAMA3_EAGLE,
            r"EAGLE-LLaMA3-Instruct-8B@02d97adb does not fit .* \(128, 256\), not \(160, 320\)",
        ),
    ],
)  # fmt: skip
def test_a_wrong_pair_is_refused_by_the_first_mismatch(pinned, tmp_path, sizes, drafter, words):
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
        ("--tli 2", r"for TLI N = 2 \(trained: 0\).* --target meta-llama.* --methods moa-n2"),
        ("--target a/b", "name --preset or --target, not both"),
        (
            "--drafter eagle",
            f"called 'eagle': choose from moa-n0, eagle2, {', '.join(WITHOUT_WEIGHTS)}",
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
