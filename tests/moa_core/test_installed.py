"""What can be run without a download."""

import pytest

import moa_core.installed as module
from moa_core.installed import GPU_TREE, PUBLISHED, bundle, cached, method_name, published

LLAMA = "meta-llama/Meta-Llama-3-8B-Instruct"


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A Hub cache in which repositories can be put."""

    def put(repository, *files):
        folder = tmp_path / f"models--{repository.replace('/', '--')}"
        place = folder / "snapshots" / "abc"
        place.mkdir(parents=True)
        (folder / "refs").mkdir()
        (folder / "refs" / "main").write_text("abc")
        for file in files:
            (place / file).write_text("{}")

    find = module.try_to_load_from_cache
    monkeypatch.setattr(
        module, "try_to_load_from_cache", lambda name, file: find(name, file, cache_dir=tmp_path)
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
    hub(PUBLISHED[LLAMA]["moa-n0"], "config.json")
    assert published()[0].drafters == {}  # its config alone does not make it usable
    hub(PUBLISHED[LLAMA]["eagle2"], "config.json", "pytorch_model.bin")
    [found] = published()
    assert sorted(found.drafters) == ["eagle", "eagle2"]
    info = found.drafters["eagle2"]
    assert (info.name, info.tree) == (PUBLISHED[LLAMA]["eagle2"], GPU_TREE)
    assert not cached("nobody/nothing")
