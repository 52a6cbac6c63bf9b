"""Available models and their names: bundle, folders, presets."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.registry import without_weights
from moa_core.errors import UserError
from moa_core.loading.catalog import (
    DrafterInfo,
    Installed,
    bundled_drafters,
    default_target,
    drafter_name,
    known_drafters,
    layers_needed,
    locate,
    named,
)
from moa_core.loading.catalog import bundle as bundle_of
from moa_core.loading.load import load_drafter, load_target, wanted_drafts
from moa_core.loading.presets import LLAMA3_EAGLE, PRESETS
from moa_core.model.target import Target


def test_the_bundle_is_listed_from_its_configs(bundle):
    assert default_target() == "tiny"
    found = [(info.name, info.method, info.tli, info.tree) for info in bundled_drafters()]
    assert found == [
        ("eagle2", "eagle2", 0, TreeSettings(3, 2, 8)),
        ("moa-n0", "moa", 0, TreeSettings(3, 2, 6)),
        ("moa-n1", "moa", 1, TreeSettings(3, 2, 7)),
    ]
    offered = bundle_of()
    assert list(offered.drafters) == ["eagle2", "moa-n0", "moa-n1"]
    assert known_drafters() == offered.methods


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("MoA-N1", "moa-n1"), ("MoA N=1", "moa-n1"), ("Eagle2", "eagle2"), ("EAGLE-2", "eagle2"),
        ("none", "vanilla"), ("N-gram lookup", "ngram"),
        ("./mine", "./mine"), ("a/b@main", "a/b@main"),
    ],
)  # fmt: skip
def test_a_drafter_goes_by_its_label_and_in_any_case(bundle, text, name):
    assert drafter_name(text) == name


def test_a_hub_id_stays_one_and_folders_win(bundle, tmp_path, monkeypatch):
    assert locate("a/b") == "a/b" and locate("a/b@main") == "a/b@main"
    assert locate("tiny") == bundle / "tiny"
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    assert locate("mine") == Path("mine")
    assert locate(".") == Path(".") and locate("..") == Path("..")  # not those of the bundle
    assert locate(None) == bundle / "tiny"


def config_in(folder: Path, **config: Any) -> str:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


def test_layers_are_known_before_the_target(bundle, tmp_path):
    known = {None: 0, "moa-n1": 1, "eagle2": 0, "ngram": 0}
    assert {spec: layers_needed(spec) for spec in known} == known
    assert layers_needed(config_in(tmp_path / "a", drafter={"method": "moa", "tli": 2})) == 2


@pytest.mark.parametrize(
    ("config", "method"),
    [
        ({"drafter": {"method": "moa", "tli": 2}}, "moa-n2"),
        ({"model_type": "moa_spec"}, "moa-n0"),
        ({"architectures": ["MOASpec"], "num_hidden_layers": 32}, "moa-n0"), ({}, "given"),
        ({"num_hidden_layers": 1}, "eagle2"), ({"num_hidden_layers": 4}, "independent"),
        ({"drafter": {"method": ["moa"]}, "architectures": {"a": "b"}}, "given"),
        ({"num_hidden_layers": "4"}, "given"),
    ],
)  # fmt: skip
def test_a_drafters_method_is_known_by_its_config(tmp_path, config, method):
    assert list(named("", [config_in(tmp_path / "a", **config)]).drafters) == [method]


def test_named_drafters_have_their_trees_and_one_method_each(tmp_path):
    ours = config_in(tmp_path / "ours", drafter={"method": "moa", "tree": {"depth": 4}})
    raw = config_in(tmp_path / "raw", architectures=["MOASpec"])
    head = config_in(tmp_path / "head", num_hidden_layers=1)
    large = TreeSettings(6, 8, 62)
    llama3 = PRESETS["llama3-8b"]
    assert named("", [ours], llama3).drafters["moa-n0"].tree.depth == 4
    assert named("", [raw], llama3).drafters["moa-n0"].tree == large
    assert named("", [], llama3).drafters["eagle2"] == (LLAMA3_EAGLE, "eagle2", 0, large)
    methods = ["moa-n0", "eagle2", "moa-n0+ngram", "eagle2+ngram", *without_weights()]
    assert named("", [raw, head]).methods == methods
    heads = DrafterInfo("heads", "medusa", 0, large)  # nothing that lookup can be joined with
    assert Installed("", {"medusa": heads}).methods == ["medusa", *without_weights()]
    with pytest.raises(UserError, match=r"ours and .*raw are both moa-n0 drafters"):
        named("", [ours, raw])
    with pytest.raises(UserError, match="tree is 3: Expected `object`"):
        named("", [config_in(tmp_path / "odd", drafter={"method": "moa", "tree": 3})])


def test_presets_are_pinned_to_commits():
    for each in PRESETS.values():
        for spec in (each.target, *each.by_method.values()):
            assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", spec)
        assert len(each.needs) == len(each.by_method)


OFFERED = ", ".join(("eagle2, moa-n0, moa-n1, eagle2+ngram, moa-n0+ngram", *without_weights()))
REFUSED: list[tuple[Callable[[Target], object], str]] = [
    (lambda t: layers_needed("eagl2"), f"no drafter 'eagl2': choose from {re.escape(OFFERED)}, or"),
    (lambda t: named("", ["vanilla"]), "vanilla has no files of its own"),
    (lambda t: load_drafter("moa-n2", t), r"N = 2 \(trained: 0, 1\).* --methods moa-n2"),
    (lambda t: load_drafter("Tandem", t), "No tandem drafter is bundled: choose from"),
    (lambda t: load_drafter("ngram+ngram", t), "ngram cannot be joined with lookup"),
    (lambda t: load_target("moa-n0"), "moa-n0 is a drafter"),
    (lambda t: load_target(dtype="int7"), "^Unknown dtype 'int7'"),
    (lambda t: load_target(bits=3), "in 4 or 8 bits, not in 3"),
    (lambda t: wanted_drafts("int3", "float32"), "Drafts are auto, int8, float32, not 'int3'"),
    (lambda t: load_target(dtype="bfloat16", drafts="int8"), "need a float32 target"),
    (lambda t: locate("/nowhere/at/all"), "There is no folder /nowhere/at/all."),
    (lambda t: locate("a/b/c"), "There is no folder a/b/c."),
    (lambda t: locate("tiny2"), "no model 'tiny2': choose from tiny, or name a folder"),
    (lambda t: locate("my model/x"), "neither a model's name, a folder, nor a Hub id"),
    (lambda t: locate("~nobody-of-this-name"), "There is no folder ~nobody-of-this-name."),
    (lambda t: locate("https://huggingface.co/a/b"), "is an address: name a folder or a Hub id"),
]


@pytest.mark.parametrize(("load", "words"), REFUSED)
def test_a_name_that_can_mean_nothing_is_refused(bundle, hub, load, words):
    target = load_target()
    with pytest.raises(UserError, match=words):
        load(target)
    assert not hub.asked
