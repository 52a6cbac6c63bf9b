"""The Hub repository: what is in it, and that plain transformers drafts with it, alone."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from moa_core.checkpoints import load_drafter
from moa_core.export.hub import NEEDS, OTHER, code, without_types
from moa_core.export.source import read_source
from moa_core.export.write import export
from tests.moa_core.export.shared import drafts, saved
from tests.models import save_target, tiny_target, useful

RUNNER = Path(__file__).with_name("fresh_process.py")
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_every_module_lies_beside_the_one_that_imports_it() -> None:
    files = code()
    assert {"generate.py", "decode.py", "drafters_moa.py", "requirements.txt"} <= files.keys()
    for name, text in files.items():
        if not name.endswith(".py"):
            continue
        assert not OTHER.search(text), name
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ImportFrom) and node.level:
                assert node.level == 1 and f"{node.module}.py" in files, (name, node.module)
            elif isinstance(node, ast.ImportFrom | ast.Import):
                found = getattr(node, "module", None) or node.names[0].name
                assert not found.startswith("moa_core"), (name, found)


def test_the_code_is_the_packages_own() -> None:
    import moa_core.tree

    text = code()["tree.py"]
    original = Path(moa_core.tree.__file__).read_text(encoding="utf-8")
    here = re.sub(r"from moa_core\.(\w+)(?:\.(\w+))?", _beside, original)
    assert text.partition("\n")[2] == here != original


def _beside(found: re.Match[str]) -> str:
    return "from ." + "_".join(part for part in found.groups() if part)


def test_what_is_imported_for_annotations_alone_stays_behind() -> None:
    text = """from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from moa_core.bench.runs import (
        Something,
    )

X = 1
"""
    assert (
        without_types(text)
        == "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    pass\n\nX = 1\n"
    )
    assert without_types("X = 1\n") == "X = 1\n"


def test_nothing_needed_by_training_or_the_link_goes_along() -> None:
    assert not [name for name in code() if name.startswith(("train", "link", "bench", "check"))]


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
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment |= {"HF_HOME": str(folder / "home"), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-I", str(RUNNER), str(folder / "target"), *exports, "somebody/moa"],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_plain_transformers_writes_the_same_with_fewer_forwards(report: dict) -> None:
    assert report["importable"] is False
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
    assert (tmp_path / "out" / "custom_generate" / "requirements.txt").read_text().split() == list(
        NEEDS
    )
