"""From the Hub: the revision meant, words on the way, and sentences that say what to do."""

import shutil
from pathlib import Path

import huggingface_hub
import pytest

import moa_core.loading.hub as module
from moa_core.errors import UserError
from moa_core.loading.checkpoints import load_drafter, load_target, locate
from moa_core.loading.hub import amounts, fetch, fetch_config, fetch_weights, short_name, split
from moa_core.loading.loading import Plan
from tests.hub import MAIN, Hub

NAME = "somebody/tiny"


@pytest.fixture
def stocked(hub: Hub, saved_bundle: Path) -> Hub:
    hub.put(NAME, saved_bundle / "tiny")
    return hub


def weights_asked(hub: Hub) -> list[str]:
    return [path for path in hub.asked if path.startswith("GET") and "safetensors" in path]


def test_a_spec_may_name_a_revision() -> None:
    assert split("a/b") == ("a/b", None) and split("a/b@main") == ("a/b", "main")
    assert short_name("a/b@v1") == "a/b@v1" and short_name("a/b") == "a/b"
    assert short_name(f"a/b@{MAIN}") == "a/b@11111111"
    assert locate("a/b@main") == "a/b@main"
    with pytest.raises(UserError, match="neither"):
        locate("a/b@")


def test_a_target_comes_by_its_id_and_says_so(stocked: Hub) -> None:
    said: list[str] = []
    target = load_target(NAME, plan=Plan(report=said.append))
    assert target.name == NAME and target.tokenizer is not None
    assert said[0].startswith(f"{NAME} will need ") and said[-1] == f"Loading {NAME}."
    assert any(words.startswith(f"Downloading {NAME}: ") for words in said)
    stocked.asked.clear()
    again = load_target(NAME)
    assert not weights_asked(stocked) and again.need == target.need


def test_a_pinned_revision_is_the_one_that_comes(stocked: Hub, saved_bundle: Path) -> None:
    target = load_target(f"{NAME}@{MAIN}")
    assert target.name == f"{NAME}@11111111"
    stocked.repositories[NAME].commit = "2" * 40  # main moves on
    assert fetch_config(f"{NAME}@{MAIN}").name == MAIN
    assert fetch_config(NAME).name == "2" * 40
    with pytest.raises(UserError, match=r"somebody/tiny has no revision 'v9': look at http"):
        load_target(f"{NAME}@v9")


def test_a_gated_model_says_where_its_licence_is(
    stocked: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    stocked.repositories[NAME].gated = True
    with pytest.raises(UserError, match="accept its licence at") as caught:
        load_target(NAME)
    said = str(caught.value)
    assert f"{stocked.url}/{NAME}" in said and "set HF_TOKEN" in said and "/settings/tokens" in said
    stocked.known |= {"hf_without", "hf_with"}
    stocked.granted.add("hf_with")
    monkeypatch.setenv("HF_TOKEN", "hf_without")
    with pytest.raises(UserError, match="the account of this HF_TOKEN has no access yet"):
        load_target(NAME)
    monkeypatch.setenv("HF_TOKEN", "hf_forged")
    with pytest.raises(UserError, match="does not know the token in HF_TOKEN"):
        load_target(NAME)
    monkeypatch.setenv("HF_TOKEN", "hf_with")
    assert load_target(NAME).name == NAME


def test_a_wrong_id_is_said_with_and_without_a_token(
    stocked: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match=r"There is no somebody/else on the Hub .* check the id"):
        load_target("somebody/else")
    stocked.known.add("hf_any")
    monkeypatch.setenv("HF_TOKEN", "hf_any")
    with pytest.raises(UserError, match="There is no somebody/else on the Hub"):
        load_target("somebody/else")
    with pytest.raises(UserError, match="is no Hub id: those look like owner/name"):
        fetch_config("--odd--/..name")


def test_a_cut_download_goes_on_where_it_stopped(
    stocked: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub.file_download.time.sleep", lambda seconds: None)
    monkeypatch.setattr("huggingface_hub.constants.DOWNLOAD_CHUNK_SIZE", 1000)
    repository = stocked.repositories[NAME]
    whole = repository.files["model.safetensors"]
    repository.cut = 0  # the connection ends before a byte has come, however often
    with pytest.raises(UserError, match=r"could not be downloaded \(.*goes on where it"):
        fetch_weights(NAME)
    repository.cut = len(whole) // 3  # by itself it goes on, from where each cut was
    folder = fetch_weights(NAME)
    assert (folder / "model.safetensors").read_bytes() == whole
    assert sum("bytes=" in path for path in stocked.asked) >= 2


def test_without_a_way_to_the_hub_the_cache_does(
    stocked: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    load_target(NAME)
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nobody listens there
    assert load_target(f"{NAME}@{MAIN}").name.startswith(NAME)
    with pytest.raises(UserError, match=r"other is not whole in this machine's cache .* reached"):
        load_target("somebody/other")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert load_target(NAME).name == NAME
    with pytest.raises(UserError, match="HF_HUB_OFFLINE forbids downloads"):
        load_target("somebody/other")


@pytest.mark.parametrize("share", [0.0, 0.7])
def test_too_small_a_disk_is_noticed_before_the_download(
    stocked: Hub, monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    weights = len(stocked.repositories[NAME].files["model.safetensors"])
    usage = shutil.disk_usage("/")._replace(free=int(share * weights))
    monkeypatch.setattr(module.shutil, "disk_usage", lambda place: usage)
    with pytest.raises(UserError, match=r"take .* GB, and .* has 0.0 GB left: free some"):
        fetch_weights(NAME)
    assert not weights_asked(stocked)


def test_an_answer_that_says_later_is_passed_on(
    stocked: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = huggingface_hub.errors.HfHubHTTPError("x", response=_Response(503))

    def busy(*args: object, **kwargs: object) -> None:
        raise error

    monkeypatch.setattr("huggingface_hub.snapshot_download", busy)
    with pytest.raises(UserError, match=r"it answered 503\. Try again later"):
        fetch(NAME, ["*"])


class _Response:
    request = None

    def __init__(self, status_code: int) -> None:
        self.status_code, self.headers = status_code, {}


def test_amounts_are_in_a_unit_that_suits_them() -> None:
    assert amounts(3_200_000_000, 16_060_000_000) == "3.2 of 16.1 GB"
    assert amounts(500_000, 2_000_000) == "0.5 of 2.0 MB"


def test_pickles_come_only_where_there_is_nothing_better(stocked: Hub, saved_bundle: Path) -> None:
    both = stocked.put("somebody/head", saved_bundle / "eagle2")
    both.files["pytorch_model.bin"] = b"never opened"
    target = load_target(NAME)
    assert load_drafter("somebody/head", target).name == "somebody/head"
    assert not any("pytorch_model" in path for path in stocked.asked if "GET" in path)


def test_pickles_are_not_fetched_unasked(stocked: Hub, saved_bundle: Path) -> None:
    old = stocked.put("somebody/old", saved_bundle / "eagle2")
    old.files["pytorch_model.bin"] = old.files.pop("model.safetensors")
    fetch_weights("somebody/old")
    assert not any("pytorch_model" in path for path in stocked.asked if "GET" in path)
    assert (fetch_weights("somebody/old", pickles=True) / "pytorch_model.bin").exists()
