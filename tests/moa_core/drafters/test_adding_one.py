"""The page on adding a drafter, carried out: its files, its lines, its commands and its test."""

import importlib
import json
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from demo.common.methods import label
from demo.engine import Engine
from moa_core.__main__ import main
from moa_core.decoding.trace import Drafted
from moa_core.drafters.trained import parameters, widened
from moa_core.loading.load import load_drafter, load_target
from moa_core.train.drafters import fresh, trainee
from moa_core.train.losses import Weights
from moa_core.train.teacher import teach
from tests.models import one_reply, save_bundle, tiny_target, traced

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "adding_a_drafter.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
PLACE = re.compile(r"# (?P<path>[\w/]+)\.py(?:, in (?P<table>\w+))?\n")


@pytest.fixture(autouse=True)
def followed(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    """What the page's blocks make, by module: whole files, and lines of tables that are there."""
    made: dict[str, ModuleType] = {}
    for text in (text for kind, text in BLOCKS if kind == "python"):
        place = PLACE.match(text)
        assert place, f"a block without a place: {text[:60]}"
        name = place["path"].replace("/", ".")
        if place["table"]:
            known = {key: value for module in made.values() for key, value in vars(module).items()}
            table: dict[str, Any] = vars(importlib.import_module(name))[place["table"]]
            for key, value in eval(f"{{{text}}}", known).items():
                monkeypatch.setitem(table, key, value)
        else:
            made[name] = ModuleType(name)
            monkeypatch.setitem(sys.modules, name, made[name])
            exec(compile(text, place["path"], "exec"), vars(made[name]))
    return made


def test_its_tests_pass(followed, tmp_path):
    tests = vars(followed["tests.moa_core.drafters.test_bigram"])
    tests["test_bigrams_change_no_text"]()
    tests = vars(followed["tests.moa_core.drafters.test_pairs"])
    tests["test_pairs_change_no_text_and_can_be_saved"](tmp_path)


def test_the_one_with_weights_learns(followed):
    target = tiny_target()
    batch = one_reply(torch.randint(0, 64, (8, 32), generator=torch.Generator().manual_seed(0)), 1)
    trained = trainee(fresh("pairs", target, 0), target, Weights())
    lesson = teach(target, batch, set())
    optimizer = torch.optim.Adam(trained.parameters(), lr=0.01)
    losses = []
    for step in range(30):
        loss, _ = trained(batch, lesson, None, step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.7 * losses[0]


def test_a_network_may_have_one_size():
    assert parameters(widened(lambda _: torch.nn.Linear(2, 2), 10**6)) == 6


def test_its_commands_run(tmp_path, monkeypatch, capsys):
    save_bundle(tmp_path / "bundle", max_position_embeddings=4096)  # a suite has long prompts
    monkeypatch.setenv("MOA_MODELS", str(tmp_path / "bundle"))
    monkeypatch.chdir(tmp_path)
    lines = [line for kind, text in BLOCKS if kind == "sh" for line in text.splitlines()]
    for line in lines:
        program, *words = shlex.split(line)[1:]
        if program == "-m":
            assert words[0] == "moa_core" and main(words[1:]) == 0, line
        else:
            assert (ROOT / program).exists()
    assert "24 tokens" in capsys.readouterr().out
    results = json.loads(Path("runs/bigram/results.json").read_text())
    assert list(results["methods"]) == ["vanilla", "bigram"]
    assert results["methods"]["bigram"]["identical_to_vanilla"] == 1


def test_it_is_accepted_where_a_text_repeats_itself_and_the_page_offers_it(bundle):
    target = load_target()
    drafter = load_drafter("bigram", target)
    trace = traced(target, drafter, [5, 9, 33, 7] * 6, max_new_tokens=32)
    assert len(trace.of(Drafted)[0].tree) > 1 and trace.target_calls <= 32
    assert "bigram" in Engine().methods() and label("bigram") == "Bigrams"


def test_what_it_names_is_there():
    for path in re.findall(r"`((?:moa_core|demo|tests)/[\w/]+\.py)`", PAGE):
        assert (ROOT / path).exists() or any(path in text for _, text in BLOCKS), path
    for name, path in re.findall(r"`(\w+)` in `(moa_core/[\w/]+)\.py`", PAGE):
        assert hasattr(importlib.import_module(path.replace("/", ".")), name), (name, path)
