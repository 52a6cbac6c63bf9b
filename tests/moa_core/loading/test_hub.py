"""From the Hub: the right revision, or what to do."""

from pathlib import Path

import pytest

from moa_core.errors import UserError
from moa_core.loading.hub import fetch_config, fetch_weights, short_name
from moa_core.loading.load import load_target
from tests.moa_core.conftest import MAIN, Hub, lead_to

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
def test_a_refusal_says_what_to_do(stocked, saved_bundle, monkeypatch, spec, token, words):
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
