"""The published pair of a preset: by folder and by Hub id, unconverted; and other pairs refused.

The checkpoints have the published key names, config keys and numbers of heads, at a 32nd of the
widths and with random weights: the true ones are gated, and far too large for a test.
"""

import io
import json
import re
from pathlib import Path

import pytest

from moa_core.__main__ import main
from moa_core.arguments import on_terminal
from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Trace
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.eagle import EagleDrafter
from moa_core.drafters.moa import MoADrafter
from moa_core.errors import UserError
from moa_core.link.process import ServerProcess
from moa_core.loading.checkpoints import load_drafter, load_target
from moa_core.loading.formats import read_tensors
from moa_core.loading.names import tli_of
from moa_core.loading.presets import LLAMA3, LLAMA3_EAGLE, LLAMA3_MOA, PRESETS, preset
from moa_core.loading.strangers import PICKLES
from moa_core.text import prompt_ids
from tests import released
from tests.hub import Hub
from tests.models import plain_greedy
from tests.published import save_published

SHORT = ("--prompt", "The fox", "--max-new-tokens", "12", "--ignore-eos", "--json")


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return save_published(tmp_path_factory.mktemp("published"))


@pytest.fixture
def stocked(hub: Hub, folders: dict[str, Path]) -> Hub:
    """The Hub with the preset's repositories, each at the pinned commit."""
    for spec, folder in folders.items():
        name, _, commit = spec.partition("@")
        hub.put(name, folder, commit=commit)
    return hub


def test_what_is_pinned_is_a_commit_of_a_repository() -> None:
    for each in PRESETS.values():
        for spec in (each.target, *each.by_method.values()):
            assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", spec)
        assert set(each.configs) == {each.target, *each.by_method.values()}
    assert tli_of("moa-n3") == 3 and tli_of("eagle2") == tli_of("moa-no-sa") == 0
    with pytest.raises(UserError, match="no preset 'llama9': choose from llama3-8b"):
        preset("llama9")


def test_the_tensors_have_the_published_names(folders: dict[str, Path]) -> None:
    """Those of the authors' own files; EAGLE's carries a copy of the embeddings as well."""
    moa = read_tensors(folders[LLAMA3_MOA])
    assert set(moa) == set(read_tensors(released.FOLDER / "moa_n0"))
    assert {"self_attention.self_attn.q_proj.weight", "Ekv2E.bias"} < set(moa)
    eagle, theirs = (
        read_tensors(folders[LLAMA3_EAGLE], pickles=True),
        released.FOLDER / "eagle2_head",
    )
    assert set(eagle) == {*read_tensors(theirs), "fc.bias", "embed_tokens.weight"}


def check_methods(target_spec: str, specs: dict[str, str]) -> None:
    target = load_target(target_spec, "float32", "cpu")
    ids = prompt_ids(target.tokenizer, "The fox ran home.")
    expected = plain_greedy(target, ids, 30)
    for method, spec in {"vanilla": "none", **specs}.items():
        drafter = load_drafter(spec, target)
        wanted = {"moa-n0": MoADrafter, "eagle2": EagleDrafter}.get(method, object)
        assert isinstance(drafter, wanted)
        settings = Settings(30, TreeSettings(6, 8, 62), eos_ids=target.eos_ids)
        trace = Trace(events=list(decode(target, drafter, ids, settings)))
        assert trace.output_ids == expected, method


def test_they_load_by_folder_and_by_id_unconverted(
    folders: dict[str, Path], stocked: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = PRESETS["llama3-8b"]
    by_folder = {method: str(folders[spec]) for method, spec in chosen.by_method.items()}
    with monkeypatch.context() as allowed:  # EAGLE's is a pickle, and a folder may be anybody's
        allowed.setenv(PICKLES, "1")
        check_methods(str(folders[LLAMA3]), by_folder)
    check_methods(LLAMA3, chosen.by_method)
    assert all("/main" not in path for path in stocked.asked), "what is pinned is asked for"


def test_a_wrong_pair_is_refused_by_the_number_that_differs(stocked: Hub, tmp_path: Path) -> None:
    others = {
        "wider": ({"hidden_size": 160, "num_attention_heads": 40}, "hidden size is 128, .* 160"),
        "fewer kv heads": ({"num_key_value_heads": 4}, "K and V .* token is 64, .* 32"),
        "other vocabulary": ({"vocab_size": 300}, "vocabulary is 280, the target's is 300"),
    }
    for number, (sizes, words) in enumerate(others.values()):
        folder = tmp_path / f"pair{number}"
        folder.mkdir()
        other = load_target(str(save_published(folder, **sizes)[LLAMA3]), "float32", "cpu")
        with pytest.raises(UserError, match=f"MOASpec-Llama-3-8B-Instruct.* {words}"):
            load_drafter(LLAMA3_MOA, other)
    wider = load_target(str(tmp_path / "pair0" / "0"), "float32", "cpu")
    with pytest.raises(UserError, match=r"EAGLE-LLaMA3-Instruct-8B@02d97adb .* is 128, .* is 160"):
        load_drafter(LLAMA3_EAGLE, wider)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> dict:
    capsys.readouterr()
    assert main(words) == 0, capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def test_generate_takes_a_preset(stocked: Hub, capsys: pytest.CaptureFixture[str]) -> None:
    command = ("generate", "--preset", "llama3-8b", *SHORT)
    texts = [run(capsys, *command, *more)["output_ids"] for more in ((), ("--drafter", "eagle2"))]
    texts.append(run(capsys, *command, "--drafter", "none")["output_ids"])
    assert texts[0] == texts[1] == texts[2] and len(texts[0]) == 12


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--tli", "2"), r"for TLI N = 2 \(trained: 0\).* --target meta-llama.* --methods moa-n2"),
        (("--drafter", "moa-n1"), r"for TLI N = 1 \(trained: 0\)"),
        (("--target", "a/b"), "name --preset or --target, not both"),
        (
            ("--drafter", "eagle"),
            r"moa-n0, eagle2, ngram, vanilla \(did you mean eagle2",
        ),
        (
            ("--server", "ws://x:1", "--load-in-8bit"),
            "--load-in-... and --device-map are for serve",
        ),
    ],
)
def test_what_a_preset_has_not_is_refused(
    stocked: Hub, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    assert main(("generate", "--preset", "llama3-8b", *SHORT, *words)) == 2
    assert re.search(said, capsys.readouterr().err)
    assert not any("safetensors" in path for path in stocked.asked)


def test_bench_compares_a_presets_methods(
    stocked: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    suite = tmp_path / "suite.jsonl"
    suite.write_text('{"kind": "one", "prompt": "The fox"}\n')
    out = tmp_path / "out"
    words = ("--suite", str(suite), "--repeat", "1", "--max-new-tokens", "8", "--out", str(out))
    assert main(("bench", "--preset", "llama3-8b", *words)) == 0, capsys.readouterr().err
    results = json.loads((out / "results.json").read_text())
    assert list(results["methods"]) == ["vanilla", "moa-n0", "eagle2"]
    assert results["target"]["name"] == "meta-llama/Meta-Llama-3-8B-Instruct@8afb486c"
    assert main(("bench", "--preset", "llama3-8b", "--link", "4g", "--out", str(out))) == 2


@pytest.mark.slow
def test_serve_takes_a_preset(
    stocked: Hub,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A server and its client, each with the preset: the server has the target, both a drafter."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("MOA_CACHE", str(tmp_path / "client"))
    local = run(capsys, "generate", "--preset", "llama3-8b", *SHORT)
    server = ServerProcess("--preset", "llama3-8b", "--device", "cpu")
    try:
        monkeypatch.setenv("MOA_TOKEN", server.token)
        place = ("--server", server.address().url, "--numbers", "f32")
        for method in ("moa-n0", "eagle2", "none"):
            words = ("--preset", "llama3-8b", "--drafter", method, *place)
            found = run(capsys, "generate", *words, *SHORT)
            assert found["output_ids"] == local["output_ids"], method
    finally:
        server.stop()


def test_progress_on_a_terminal_and_in_a_log(capsys: pytest.CaptureFixture[str]) -> None:
    report = on_terminal()
    for done in (0.1, 0.2, 0.3, 1.1, 2.0):
        report(f"Downloading a/b: {done} of 2.0 GB.")
    report("Loading a/b.")
    said = capsys.readouterr().err.splitlines()
    assert [line.split()[2] for line in said[:-1]] == ["0.1", "0.2", "1.1", "2.0"]
    assert said[-1] == "Loading a/b."


def test_progress_on_a_screen_takes_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class Screen(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stderr", screen := Screen())
    report = on_terminal()
    for words in ("Looking.", "Downloading a/b: 0.1 of 2.0 GB.", "Downloading a/b: 2.0 of 2.0 GB."):
        report(words)
    report("Loading a/b.")
    assert screen.getvalue() == (
        "Looking.\n\r\x1b[KDownloading a/b: 0.1 of 2.0 GB."
        "\r\x1b[KDownloading a/b: 2.0 of 2.0 GB.\nLoading a/b.\n"
    )
