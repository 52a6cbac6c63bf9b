"""Available models and their names: bundle, folders, presets."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.known import WITHOUT_WEIGHTS
from moa_core.errors import UserError
from moa_core.loading.catalog import bundle as bundle_of
from moa_core.loading.catalog import (
    bundled_drafters,
    bundled_target,
    by_method,
    drafter_name,
    layers_needed,
    locate,
)
from moa_core.loading.load import load_drafter, load_target
from moa_core.loading.names import tli_of
from moa_core.loading.presets import PRESETS, preset


def test_the_bundle_is_listed_from_its_configs(bundle: Path) -> None:
    assert bundled_target() == "tiny"
    found = [(info.name, info.method, info.tli, info.tree) for info in bundled_drafters()]
    assert found == [
        ("eagle2", "eagle2", 0, TreeSettings(3, 2, 8)),
        ("moa-n0", "moa", 0, TreeSettings(3, 2, 6)),
        ("moa-n1", "moa", 1, TreeSettings(3, 2, 7)),
    ]
    offered = bundle_of()
    assert offered.bundled and list(offered.drafters) == ["eagle2", "moa-n0", "moa-n1", "eagle"]


def test_without_a_bundle_names_are_asked_for(
    tmp_path: Path, saved_bundle: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOA_MODELS", str(tmp_path))
    assert bundled_drafters() == []
    with pytest.raises(UserError, match="no bundled target"):
        load_target()
    with pytest.raises(UserError, match="no bundled drafter"):
        load_drafter(None, load_target(str(saved_bundle / "tiny")))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("MoA-N1", "moa-n1"), ("MoA N=1", "moa-n1"), ("Eagle2", "eagle2"), ("EAGLE-2", "eagle2"),
        ("none", "vanilla"), ("N-gram lookup", "ngram"), ("MoA, auto N", "moa-auto"),
        ("EAGLE", "eagle"), ("./mine", "./mine"), ("a/b@main", "a/b@main"),
    ],
)  # fmt: skip
def test_a_drafter_goes_by_its_label_and_in_any_case(bundle: Path, text: str, name: str) -> None:
    assert drafter_name(text) == name


def test_an_unknown_drafter_gets_the_names(bundle: Path, hub: Any) -> None:
    names = ", ".join(("eagle2, moa-n0, moa-n1, eagle, moa-auto", *WITHOUT_WEIGHTS))
    for ask in (lambda: load_drafter("eagl2", load_target()), lambda: layers_needed("eagl2")):
        with pytest.raises(UserError, match=rf"no drafter 'eagl2': choose from {names}, or"):
            ask()
    assert not hub.asked


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("/nowhere/at/all", "There is no folder /nowhere/at/all."),
        ("a/b/c", "There is no folder a/b/c."),
        ("tiny2", r"There is no model 'tiny2': choose from tiny, or name a folder"),
        ("my model/x", "neither a bundled model, a folder, nor a Hub id"),
        ("~nobody-of-this-name", "There is no folder ~nobody-of-this-name."),
        ("https://huggingface.co/a/b", "is an address: name a folder or a Hub id"),
    ],
)
def test_a_name_that_can_mean_nothing_is_refused(bundle: Path, spec: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        locate(spec)


def test_a_hub_id_stays_one_and_folders_win(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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


def test_layers_are_known_before_the_target(bundle: Path, tmp_path: Path) -> None:
    known = {None: 0, "moa-n1": 1, "eagle2": 0, "ngram": 0, "eagle": 0, "moa-auto": 0}
    assert {spec: layers_needed(spec) for spec in known} == known
    assert layers_needed(config_in(tmp_path / "a", drafter={"method": "moa", "tli": 2})) == 2
    assert layers_needed("moa-n1", 3) == 3
    with pytest.raises(UserError, match="from 0 up"):
        layers_needed("moa-n1", -1)


@pytest.mark.parametrize(
    ("config", "method"),
    [
        ({"drafter": {"method": "moa", "tli": 2}}, "moa-n2"),
        ({"model_type": "moa_spec"}, "moa-n0"),
        ({"architectures": ["MOASpec"], "num_hidden_layers": 32}, "moa-n0"), ({}, "given"),
        ({"num_hidden_layers": 1}, "eagle2"), ({"num_hidden_layers": 4}, "independent"),
        ({"drafter": {"method": ["moa"]}, "architectures": {"a": "b"}}, "given"),
    ],
)  # fmt: skip
def test_a_drafters_method_is_known_by_its_config(
    tmp_path: Path, config: dict[str, Any], method: str
) -> None:
    assert next(iter(by_method([config_in(tmp_path / "a", **config)]))) == method


def test_named_drafters_have_their_trees_and_one_method_each(tmp_path: Path) -> None:
    ours = config_in(tmp_path / "ours", drafter={"method": "moa", "tree": {"depth": 4}})
    raw = config_in(tmp_path / "raw", architectures=["MOASpec"])
    head = config_in(tmp_path / "head", num_hidden_layers=1)
    large = TreeSettings(6, 8, 62)
    assert by_method([ours], large)["moa-n0"].tree.depth == 4
    assert by_method([raw], large)["moa-n0"].tree == large
    assert sorted(by_method([raw, head])) == ["eagle", "eagle2", "moa-n0"]
    with pytest.raises(UserError, match=r"ours and .*raw are both moa-n0 drafters"):
        by_method([ours, raw])
    with pytest.raises(UserError, match="tree is 3: Expected `object`"):
        by_method([config_in(tmp_path / "odd", drafter={"method": "moa", "tree": 3})])
    with pytest.raises(UserError, match="vanilla has no files of its own"):
        by_method(["vanilla"])


def test_presets_are_pinned_to_commits() -> None:
    for each in PRESETS.values():
        for spec in (each.target, *each.by_method.values()):
            assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40}", spec)
        assert len(each.needs) == len(each.by_method)
    assert tli_of("moa-n3") == 3 and tli_of("eagle2") == 0
    with pytest.raises(UserError, match="no preset 'llama9': choose from llama3-8b"):
        preset("llama9")
