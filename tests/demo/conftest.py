"""An engine's surroundings without weights."""

from types import SimpleNamespace

import pytest
import torch

import demo.engine as module
from demo.common.methods import ordered
from demo.session import Visit
from demo.share import from_address
from demo.ui import IDS
from moa_core.decoding.trace import Drafted, Finished, Prefilled, Verified
from moa_core.decoding.tree import DraftTree, TreeSettings
from moa_core.drafters.base import Vanilla
from moa_core.drafters.registry import without_weights
from moa_core.loading.catalog import DrafterInfo, Installed
from tests.models import made_tokenizer

PROMPT = "once upon a time"
TREE = TreeSettings(3, 2, 6)
# What is offered with any target, in the page's order; adding a drafter breaks no test here.
WITHOUT_FILES = ordered("vanilla" if name == "none" else name for name in without_weights())


class FakeTarget:
    name, dtype, device, context = "fake", torch.float32, torch.device("cpu"), 512
    drafts, precision = "auto", "float32"

    def __init__(self, tokenizer):
        self.tokenizer = tokenizer
        self.embed = SimpleNamespace(weight=torch.zeros(len(tokenizer), 1))
        self.eos_ids = (5, 7)
        self.model = SimpleNamespace(parameters=list)
        self.need = None


@pytest.fixture(scope="module")
def tokenizer():
    return made_tokenizer(["once upon a time"], 300)


@pytest.fixture
def loads(monkeypatch, tokenizer):
    """An engine's surroundings without weights, each run of one time; collects what was loaded."""
    loaded = []

    def load_method(models, method, target, shared):
        info = models.drafters.get(method)
        loaded.append(info.name if info else method)
        return Vanilla()

    def decode(target, drafter, ids, settings, should_stop):
        loaded.append(settings)
        yield Prefilled(tuple(ids), 9, 0.5, 0.1)
        spent = {"prefill": 0.1, "draft": 0.1, "verify": 0.2, "other": 0.1}
        for cycle in range(settings.max_new_tokens - 1):
            if should_stop():
                break
            yield Drafted(cycle, 1, DraftTree.only_root(9), 0.01)
            yield Verified(cycle, (), 9, (9,), (0.5,), (1.0,), (9,), 0.01, 0)
        yield Finished("stopped" if should_stop() else "length", spent)

    there = {f"moa-n{tli}": DrafterInfo(f"moa-n{tli}", "moa", tli, TREE) for tli in (0, 1)}
    monkeypatch.setattr(module, "bundle", lambda: Installed("fake", there))
    monkeypatch.setattr(module, "load_method", load_method)
    monkeypatch.setattr(
        module, "load_target", lambda spec, **how: loaded.append(spec) or FakeTarget(tokenizer)
    )
    monkeypatch.setattr(module, "decode", decode)
    return loaded


@pytest.fixture
def breaks(loads, monkeypatch):
    """Once it is called, every run breaks after its prefill."""

    def broken(*_):
        yield Prefilled((1,), 9, 0.5, 0.1)
        raise ZeroDivisionError("secret detail")

    return lambda: monkeypatch.setattr(module, "decode", broken)


@pytest.fixture
def visit():
    """A visitor whose first run begins."""
    made = Visit()
    made.begin()
    return made


def opened(tab, names, engine, query):
    """(status, {name: value}) of an address, as a tab reads it."""
    shared = SimpleNamespace(engine=engine, tabs=IDS)
    status, *values = from_address(shared, tab.ID, names, tab.check, query)
    return status, dict(zip(names, values, strict=True))


def unset(value):
    """Whether an output leaves what a component holds as it is."""
    return isinstance(value, dict) and value.get("__type__") == "update" and "value" not in value
