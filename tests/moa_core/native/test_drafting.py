"""Drafting with compiled kernels: the target's own text, accepted as often as torch's drafts."""

import logging
import subprocess
import sys
from functools import partial
from time import sleep
from types import ModuleType

import pytest
import torch

from moa_core.decoding.decode import Settings, about, decode
from moa_core.decoding.trace import Trace
from moa_core.decoding.tree import AUTO, TreeSettings
from moa_core.drafters.base import Drafter
from moa_core.loading.load import load_drafter, load_target
from moa_core.model.target import Target
from moa_core.native import switch
from moa_core.native.blocks import serves
from moa_core.native.switch import replaced, switched
from moa_core.text import prompt_ids
from tests.moa_core.native.shared import Calls, round_weights
from tests.models import plain_greedy, tiny_target, useful

METHODS = ("moa-n0", "moa-n1", "moa-n2", "eagle2", "glide", "independent", "medusa")
FAMILIES = ("llama", "qwen2", "qwen3", "mistral")
MARGIN = 0.05  # share of acceptance that rounding may cost; drafts of noise cost up to 0.8
PROMPT = [5, 9, 33, 7, 21, 40, 11]


def traced(target: Target, drafter: Drafter, tree: TreeSettings, ids: list[int]) -> Trace:
    return Trace(events=list(decode(target, drafter, ids, Settings(40, tree, eos_ids=()))))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("method", METHODS)
def test_the_same_text_and_acceptance_as_torch(
    kernels: ModuleType, method: str, family: str
) -> None:
    """Trees may differ: a processor's order of sums decides between drafts that nearly tie."""
    target = tiny_target(family=family)
    drafter = useful(method, target)
    drafter.precision = "int8"
    round_weights(drafter.net)
    round_weights(target.model)
    expected = plain_greedy(target, PROMPT, 40)
    quick, slow = Trace(), Trace()
    for tree in (TreeSettings(), TreeSettings(6, 1, 6), TreeSettings(3, 5, 14)):
        for trace, on in ((quick, True), (slow, False)):
            with switched(on):
                found = traced(target, drafter, tree, PROMPT)
            assert found.output_ids == expected
            trace.events += found.events
    assert quick.tau == pytest.approx(slow.tau, rel=MARGIN)


@pytest.mark.parametrize("tree", [AUTO, TreeSettings(), TreeSettings(12, 3, 30)], ids=str)
@pytest.mark.parametrize("method", ["moa-n0", "moa-n2", "eagle2", "moa-auto", "glide"])
def test_the_bundles_text_is_the_targets(
    kernels: ModuleType, method: str, tree: TreeSettings
) -> None:
    target = load_target()
    drafter = load_drafter(method, target)
    ids = prompt_ids(target.tokenizer, "Tell me a story about a dog and a red ball.")
    calls = Calls(kernels)
    with replaced(lambda _: calls):
        trace = traced(target, drafter, tree, ids)
    assert set(calls.names) >= {"chain", "best"}
    with switched(False):
        assert (
            trace.output_ids == traced(target, load_drafter("none", target), tree, ids).output_ids
        )
    assert about(target, drafter, Settings())["machine"]["draft_precision"] == "int8"


def test_nobody_waits_where_people_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    from threading import Event

    held, done = Event(), Event()

    def slow() -> None:
        held.wait(30)
        done.set()

    with switched(True):
        monkeypatch.setattr(switch, "_thread", None)
        monkeypatch.setattr(switch, "_later", False)
        monkeypatch.setattr(switch, "_load", slow)
        switch.prepare(later=True)
        switch.prepare()  # what loads a drafter
        assert not done.is_set()
        held.set()
        assert done.wait(30)


def test_who_waits_is_told_why(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with switched(True):
        monkeypatch.setattr(switch, "_later", False)
        monkeypatch.setattr(switch, "UNTOLD", 0.1)
        for seconds in (0.0, 0.5):
            monkeypatch.setattr(switch, "_thread", None)
            monkeypatch.setattr(switch, "_load", partial(sleep, seconds))
            switch.prepare()
            assert ("Compiling kernels" in capsys.readouterr().err) == (seconds > 0)


def test_without_kernels_torch_drafts(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with switched(True), caplog.at_level(logging.INFO):
        monkeypatch.setattr(switch, "_thread", None)
        monkeypatch.setattr(switch, "_kernels", None)
        monkeypatch.setattr(switch, "import_module", lambda name: 1 / 0)
        switch.prepare()
        assert "No compiled kernels: division by zero" in caplog.text
        assert switch.kernels() is None
        target = load_target()
        drafter = load_drafter("moa-n1", target)
        trace = traced(target, drafter, TreeSettings(), [5, 6, 7])
        assert len(trace.output_ids) == 40
        assert about(target, drafter, Settings())["machine"]["draft_precision"] == "float32"


def test_without_numba_all_goes_on() -> None:
    code = """
import sys
sys.modules["numba"] = None
from moa_core.loading.load import load_drafter, load_target
from moa_core.decoding.decode import Settings, decode
from moa_core.native.switch import kernels
target = load_target()
drafter = load_drafter("moa-n0", target)
assert kernels() is None
print(sum(1 for _ in decode(target, drafter, [5, 6, 7], Settings(8, eos_ids=()))))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and int(done.stdout) > 4, done.stderr


@pytest.mark.parametrize("method", METHODS)
def test_drafts_in_float32_are_torchs(kernels: ModuleType, method: str) -> None:
    target, calls = tiny_target(), Calls(kernels)
    drafter = useful(method, target)
    drafter.precision = "int8"
    traced(target, drafter, TreeSettings(), PROMPT)
    drafter.precision = "float32"
    with replaced(lambda _: calls):
        traced(target, drafter, TreeSettings(), PROMPT)
    assert set(calls.names) <= {"best"}  # which chooses as torch does


def test_whom_kernels_serve() -> None:
    target = tiny_target().fork("int8")
    assert serves(target) and not serves(target.fork("float32"))
    target.model.to(torch.bfloat16)
    assert not serves(target)
