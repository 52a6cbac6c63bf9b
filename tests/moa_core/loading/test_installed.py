"""What can be run without a download."""

import json

import pytest

import moa_core.loading.installed as module
from moa_core.decoding.tree import TreeSettings
from moa_core.errors import UserError
from moa_core.loading.installed import bundle, cached, method_name, named, published, several
from moa_core.loading.presets import LLAMA3, LLAMA3_EAGLE, LLAMA3_MOA, PRESETS

LLAMA, MOA, EAGLE = (spec.partition("@")[0] for spec in (LLAMA3, LLAMA3_MOA, LLAMA3_EAGLE))


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A Hub cache in which repositories can be put."""

    def put(spec, *files):
        repository, _, commit = spec.partition("@")
        folder = tmp_path / f"models--{repository.replace('/', '--')}"
        place = folder / "snapshots" / (commit or "abc")
        place.mkdir(parents=True)
        (folder / "refs").mkdir()
        (folder / "refs" / "main").write_text("abc")
        for file in files:
            (place / file).write_text("{}")

    find = module.try_to_load_from_cache
    monkeypatch.setattr(
        module,
        "try_to_load_from_cache",
        lambda name, file, revision: find(name, file, cache_dir=tmp_path, revision=revision),
    )
    return put


def test_the_bundle_names_its_methods_and_what_needs_no_files(tmp_path, monkeypatch):
    for name, config in {
        "big": "{}",
        "one": '{"drafter": {"method": "moa", "tli": 1, "tree": {"depth": 3}}}',
        "two": '{"drafter": {"method": "eagle2"}}',
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(config)
    monkeypatch.setenv("MOA_MODELS", str(tmp_path))
    found = bundle()
    assert found.target == "big" and sorted(found.drafters) == ["eagle", "eagle2", "moa-n1"]
    assert found.drafters["eagle"].name == "two" and found.drafters["moa-n1"].tree.depth == 3
    assert method_name("moa", 1) == "moa-n1" and method_name("glide", 0) == "glide"


def test_published_models_count_once_their_weights_are_there(hub):
    assert published() == []
    hub(LLAMA, "config.json", "model.safetensors")
    [found] = published()
    assert found.target == LLAMA and found.drafters == {}
    hub(LLAMA3_MOA, "config.json")
    assert published()[0].drafters == {}  # its config alone does not make it usable
    hub(LLAMA3_EAGLE, "config.json", "pytorch_model.bin")
    [found] = published()
    assert sorted(found.drafters) == ["eagle", "eagle2"]
    info = found.drafters["eagle2"]
    assert (info.name, info.tree) == (LLAMA3_EAGLE, TreeSettings(*PRESETS["llama3-8b"].tree))
    assert not cached("nobody/nothing")


def test_a_download_of_another_revision_counts_where_the_pinned_one_is_not_there(hub):
    hub(LLAMA3, "config.json", "model.safetensors")
    assert published()[0].target == LLAMA3
    hub(MOA, "config.json", "model.safetensors")
    assert published()[0].drafters["moa-n0"].name == MOA


def drafter(folder, **config):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    return str(folder)


def test_a_drafter_is_known_by_its_config(tmp_path):
    ours = {"method": "moa", "tli": 2, "tree": {"depth": 4}}
    kinds = {
        "moa-n2": drafter(tmp_path / "ours", drafter=ours),
        "moa-n0": drafter(tmp_path / "theirs", model_type="moa_spec"),
        "eagle2": drafter(tmp_path / "eagle", num_hidden_layers=1),
        "independent": drafter(tmp_path / "whole", num_hidden_layers=4),
        "given": drafter(tmp_path / "odd"),
    }
    for method, spec in kinds.items():
        assert named(spec)[0] == method
    for number, odd in enumerate(("<img src=x onerror=alert(1)>", 7, ["moa"], {"a": "b"})):
        stranger = drafter(tmp_path / f"odd{number}", drafter={"method": odd}, architectures=odd)
        assert named(stranger)[0] == "given"
    with pytest.raises(UserError, match="not an object"):
        named(drafter(tmp_path / "tree", drafter={"method": "moa", "tree": 3}))
    unconverted = drafter(tmp_path / "raw", architectures=["MOASpec"], num_hidden_layers=32)
    assert named(unconverted)[0] == "moa-n0"
    assert named(kinds["moa-n2"])[1].tree.depth == 4
    large = TreeSettings(6, 8, 62)
    assert named(unconverted, large)[1].tree == large
    found = several([kinds["moa-n2"], unconverted, kinds["eagle2"]])
    assert sorted(found) == ["eagle", "eagle2", "moa-n0", "moa-n2"]
    with pytest.raises(UserError, match=r"theirs and .*raw are both moa-n0 drafters"):
        several([kinds["moa-n0"], unconverted])
