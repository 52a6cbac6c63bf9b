"""The precision of drafts: what was asked for, and else int8 for bundled models alone."""

import shutil
from pathlib import Path
from types import ModuleType

import pytest

from moa_core.decoding.decode import Settings, about, decode
from moa_core.decoding.trace import Drafted, Trace
from moa_core.errors import UserError
from moa_core.loading.load import Plan, load_drafter, load_target
from moa_core.model.target import Target
from moa_core.native import switch
from moa_core.native.switch import replaced, switched
from tests.moa_core.native.shared import Calls

PROMPT = [5, 9, 33, 7, 21, 40, 11]


def precision(target: Target, spec: str) -> str | None:
    found: str | None = about(target, load_drafter(spec, target), Settings())["machine"][
        "draft_precision"
    ]
    return found


@pytest.fixture
def folders(tmp_path: Path, bundle: Path) -> Path:
    """Copies of the bundle's models, as anyone's checkpoints."""
    shutil.copytree(bundle, tmp_path / "mine")
    return tmp_path / "mine"


@pytest.mark.parametrize(
    ("target", "drafter", "options", "wanted"),
    [
        (None, "moa-n1", {}, "int8"),
        (None, "moa-n1", {"dtype": "float32"}, "float32"),
        (None, "moa-n1", {"dtype": "float32", "plan": Plan(drafts="int8")}, "int8"),
        (None, "moa-n1", {"plan": Plan(drafts="float32")}, "float32"),
        (None, "moa-n1", {"dtype": "bfloat16"}, "bfloat16"),
        (None, "MINE/moa-n1", {}, "float32"),
        (None, "MINE/moa-n1", {"plan": Plan(drafts="int8")}, "int8"),
        ("MINE/tiny", "moa-n1", {}, "float32"),
        (None, "vanilla", {}, None),
        (None, "ngram", {}, None),
    ],
)
def test_drafts_have_the_precision_that_was_asked_for(
    kernels: ModuleType, folders: Path, target: str, drafter: str, options: dict, wanted: str
) -> None:
    mine = target and target.replace("MINE", str(folders))
    loaded = load_target(mine, **options)
    assert precision(loaded, drafter.replace("MINE", str(folders))) == wanted


@pytest.mark.parametrize("method", ["moa-n0", "moa-n1", "eagle2"])
def test_a_checkpoint_from_a_folder_drafts_as_torch_does(
    kernels: ModuleType, folders: Path, method: str
) -> None:
    target, calls = load_target(), Calls(kernels)
    drafter = load_drafter(str(folders / method), target)

    def trees() -> list:
        run = decode(target, drafter, PROMPT, Settings(24, drafter.tree))
        return [event.tree for event in Trace(events=list(run)).of(Drafted)]

    with replaced(lambda _: calls):
        found = trees()
    assert set(calls.names) <= {"best"}  # which chooses as torch does
    with switched(False):
        for one, other in zip(found, trees(), strict=True):
            assert (one.tokens, one.parents) == (other.tokens, other.parents)
            assert one.log_probs == pytest.approx(other.log_probs, abs=1e-5)


def test_int8_that_cannot_be_is_refused(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="float32 target on a processor"):
        load_target(dtype="bfloat16", plan=Plan(drafts="int8"))
    with pytest.raises(UserError, match="auto, int8, float32, not 'int4'"):
        Plan(drafts="int4")
    target = load_target(plan=Plan(drafts="int8"))
    with switched(True):
        monkeypatch.setattr(switch, "_thread", None)
        monkeypatch.setattr(switch, "_kernels", None)
        monkeypatch.setattr(switch, "import_module", lambda name: 1 / 0)
        with pytest.raises(UserError, match="numba makes none on this machine"):
            load_drafter("moa-n1", target)
