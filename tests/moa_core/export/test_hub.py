"""The Hub repository: what is in it, and that transformers drafts with it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from moa_core.export.hub import DISTRIBUTION, FILES
from moa_core.export.source import read_source
from moa_core.export.write import export
from moa_core.loading.checkpoints import load_drafter
from tests.moa_core.export.shared import drafts, saved
from tests.models import save_target, tiny_target, useful

ROOT = Path(__file__).parents[3]
RUNNER = Path(__file__).with_name("fresh_process.py")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_the_repository_has_no_code_of_its_own() -> None:
    import moa_core.export.generate

    made: dict[str, Any] = {}
    exec(FILES["custom_generate/generate.py"], made)
    assert made["generate"] is moa_core.export.generate.generate
    assert FILES["custom_generate/requirements.txt"].split() == [DISTRIBUTION]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict:
    """What one fresh process wrote: plainly, with exports in folders, and with one from the Hub."""
    folder = tmp_path_factory.mktemp("hub")
    target = tiny_target()
    save_target(folder / "target", target)
    exports = []
    for method in ("moa-n0", "moa-n2", "eagle2"):
        source = read_source(saved(folder / method, useful(method, target), target), target)
        export(source, "custom-generate", folder / f"{method}-out")
        exports.append(str(folder / f"{method}-out"))
    # A downloaded repository, as the Hub's cache keeps it: found by its id, without a network.
    cached = folder / "home" / "hub" / "models--somebody--moa"
    export(source, "custom-generate", cached / "snapshots" / COMMIT)
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text(COMMIT)
    # transformers asks for the distribution by name; here the source tree stands in for it.
    about = folder / f"{DISTRIBUTION.replace('-', '_')}-0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {DISTRIBUTION}\nVersion: 0\n")
    environment = {
        **os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{folder}", "HF_HOME": str(folder / "home"),
        "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, str(RUNNER), str(folder / "target"), *exports, "somebody/moa"],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_transformers_writes_the_same_with_fewer_forwards(report: dict) -> None:
    plain = report["runs"].pop("plain")
    assert len(plain["ids"]) == 46 and plain["forwards"] == 40
    assert len(report["runs"]) == 4
    for name, run in report["runs"].items():
        assert run["ids"] == plain["ids"], name
        assert run["forwards"] <= 25, name
        assert run["streamed"] == plain["streamed"] == plain["ids"]
        assert run["ended"]


def test_an_export_is_a_drafters_folder_of_ours_too(tmp_path: Path) -> None:
    target = tiny_target()
    source = read_source(saved(tmp_path / "mine", useful("moa-n2", target), target), target)
    export(source, "custom-generate", tmp_path / "out")
    back = load_drafter(str(tmp_path / "out"), target)
    assert back.tree == source.drafter.tree
    assert drafts(target, back, [5, 9, 3]) == drafts(target, source.drafter, [5, 9, 3])
