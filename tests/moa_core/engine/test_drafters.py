"""Decoding with graphs, as models are loaded: the target's own text, in the precision asked for."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from moa_core.decoding.decode import Settings, about
from moa_core.decoding.tree import AUTO, TreeSettings
from moa_core.engine.target import OnnxTarget
from moa_core.errors import UserError
from moa_core.loading.load import load_drafter, load_target
from moa_core.model.target import Target
from moa_core.text import prompt_ids
from tests.models import lossless, traced


@pytest.fixture
def target(bundle: Path) -> Target:
    """That of the bundle, without an end."""
    target = load_target()
    target.eos_ids = ()
    return target


@pytest.mark.parametrize("method", ["moa-n0", "moa-n1", "eagle2"])
def test_the_bundles_text_is_the_targets(method, target):
    assert type(target) is OnnxTarget
    tree = AUTO if method == "moa-n0" else TreeSettings(12, 3, 30)
    drafter = load_drafter(method, target)
    ids = prompt_ids(target.tokenizer, "Tell me a story about a dog and a red ball.")
    lossless(target, drafter, ids, 40, tree=tree)
    # To the last position, where a tree's rows need more slots than a text has positions.
    full = traced(target, drafter, [7] * (target.context - 5), max_new_tokens=40, tree=tree)
    assert full.reason == "context" and len(full.output_ids) == 5
    assert about(target, drafter, Settings())["machine"]["draft_precision"] == "int8"


def test_runs_at_once_share_sessions_and_nothing_else(target):
    drafter, rng = load_drafter("moa-n1", target), torch.Generator().manual_seed(0)
    prompts = [torch.randint(5, 270, (n,), generator=rng).tolist() for n in (5, 30, 60, 90)]

    def text(ids: list[int]) -> list[int]:
        return traced(target, drafter, ids, max_new_tokens=40).output_ids

    alone = [text(ids) for ids in prompts]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(text, prompts)) == alone


@pytest.mark.parametrize(
    ("target", "drafter", "options", "wanted"),
    [
        (None, "moa-n1", {}, "int8"),
        (None, "moa-n1", {"dtype": "float32"}, "float32"),
        (None, "moa-n1", {"dtype": "float32", "drafts": "int8"}, "int8"),
        (None, "moa-n1", {"drafts": "float32"}, "float32"),
        (None, "moa-n1", {"dtype": "bfloat16"}, "bfloat16"),
        (None, "mine/moa-n1", {}, "int8"),
        ("mine/tiny", "moa-n1", {}, "int8"),
        (None, "vanilla", {}, None),
        (None, "ngram", {}, None),
    ],
)
def test_drafts_have_the_precision_that_was_asked_for(
    bundle, tmp_path, monkeypatch, target, drafter, options, wanted
):
    shutil.copytree(bundle, tmp_path / "mine")
    monkeypatch.chdir(tmp_path)
    loaded = load_target(target, **options)
    found = load_drafter(drafter, loaded)
    assert about(loaded, found, Settings())["machine"]["draft_precision"] == wanted


def test_int8_that_cannot_be_is_refused(bundle, monkeypatch):
    target = load_target(drafts="int8")
    monkeypatch.setattr("moa_core.engine.session.free_bytes", lambda _: 1000)
    with pytest.raises(UserError, match="moa-n1 cannot draft in int8"):
        load_drafter("moa-n1", target)
