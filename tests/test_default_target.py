"""The default target itself: the page, `generate` and transformers write the same text.

Needs its file, named by MOA_TARGET_FILE.
"""

import copy
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from moa_core import AUTO, Settings, generate, load_drafter, load_target
from moa_core.bench.suites import load_suite
from moa_core.loading.hub import DEFAULT, FILE
from moa_core.model.target import Target
from moa_core.text import prompt_ids
from tests.models import plain_greedy
from tests.serving import free_port, page_of

pytestmark = pytest.mark.real
ROOT = Path(__file__).parents[1]
TOKENS = 24
NEAR = 1e-4  # of two logits in float64: the two may change places
PROMPTS = [one.text for one in load_suite("tuning", 3)][:20]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    (folder / DEFAULT).mkdir()
    (folder / DEFAULT / FILE).symlink_to(os.environ["MOA_TARGET_FILE"])
    return folder


@pytest.fixture(scope="module")
def target(cache: Path) -> Target:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOA_CACHE", str(cache))
        return load_target(dtype="float32")


@pytest.fixture(scope="module")
def page(cache: Path, tmp_path_factory: pytest.TempPathFactory):
    port = free_port()
    env = {**os.environ, "MOA_CACHE": str(cache), "GRADIO_SERVER_PORT": str(port)}
    command = [sys.executable, str(ROOT / "app.py"), "--dtype", "float32"]
    with page_of(command, port, tmp_path_factory.mktemp("log") / "log", env=env) as url:
        yield url


def asked(url: str, prompt: str, method: str) -> str:
    from gradio_client import Client

    client = Client(url, verbose=False)
    text, _ = client.predict(prompt, method, TOKENS, api_name="/decode")
    return str(text)


@torch.inference_mode()
def near_tie(exact: Any, ids: list[int], one: list[int], other: list[int]) -> bool:
    """Whether two texts part where their next tokens' logits are nearly equal."""
    place = next(n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    logits = exact(torch.tensor([ids + one[:place]])).logits[0, -1]
    return bool((logits[one[place]] - logits[other[place]]).abs() < NEAR)


def test_page_library_and_transformers_write_the_same_tokens(target, page):
    methods = ("vanilla", target_drafter := load_drafter(None, target).name)
    exact = copy.deepcopy(target.model).double()
    ties = 0
    for number, prompt in enumerate(PROMPTS):
        ids = prompt_ids(target.tokenizer, prompt)
        wanted = plain_greedy(target, ids, TOKENS)
        method = methods[number % 2]
        drafter = load_drafter(method, target)
        *_, last = generate(target, drafter, prompt, Settings(TOKENS, AUTO))
        found = last.trace.output_ids
        if found != wanted:
            assert near_tie(exact, ids, found, wanted), f"{method}: {prompt}"
            ties += 1
        text = target.tokenizer.decode(found, skip_special_tokens=True)
        assert asked(page, prompt, target_drafter) == text, prompt
    assert ties <= 1
