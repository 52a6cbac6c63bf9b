"""The custom generation method, called as transformers calls it: options and refusals."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import GenerationConfig
from transformers.generation import BaseStreamer

from moa_core.decoding.verify import Sampling
from moa_core.errors import UserError
from moa_core.export.generate import generate
from moa_core.export.write import DISTRIBUTION, export
from moa_core.loading.drafter_files import save_drafter
from moa_core.model.target import Target
from tests.models import save_target, tiny_target, tiny_tokenizer, traced, useful

ROOT = Path(__file__).parents[3]
COMMIT = "0123456789abcdef0123456789abcdef01234567"
PROMPT = torch.tensor([[5, 9, 3, 60, 7, 11]])


def saved(folder: Path, method: str, target: Target) -> str:
    save_drafter(folder, useful(method, target), target, {}, torch.bfloat16)
    return str(folder)


@pytest.fixture(scope="module")
def target() -> Target:
    return tiny_target()


@pytest.fixture(scope="module")
def folder(target: Target, tmp_path_factory: pytest.TempPathFactory) -> str:
    return saved(tmp_path_factory.mktemp("drafter"), "moa-n0", target)


def ours(target: Target, folder: str, prompt: Tensor = PROMPT, **options: Any) -> Any:
    mask = {} if "attention_mask" in options else {"attention_mask": torch.ones_like(prompt)}
    return generate(target.model, prompt, drafter=folder, **mask, **options)


def plain(target: Target, prompt: Tensor = PROMPT, **options: Any) -> Tensor:
    return target.model.generate(prompt, attention_mask=torch.ones_like(prompt), **options)


FRESH = """
import json, sys
import torch
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float32)
forwards, report = [], {}
model.base_model.layers[0].register_forward_hook(lambda *_: forwards.append(1))
prompt = torch.tensor([[5, 9, 3, 60, 7, 11]])
for name in ("plain", *sys.argv[2:]):
    more = {} if name == "plain" else {"custom_generate": name, "trust_remote_code": True}
    mask = torch.ones_like(prompt)
    found = model.generate(prompt, attention_mask=mask, max_new_tokens=40, do_sample=False, **more)
    report[name] = {"ids": found[0].tolist(), "forwards": len(forwards)}
    forwards.clear()
print(json.dumps(report))
"""


def test_transformers_writes_the_same_with_fewer_forwards(target, tmp_path):
    """In a process that imports transformers alone: with exports in folders, and from the Hub."""
    save_target(tmp_path / "target", target)
    names = []
    for method in ("moa-n0", "moa-n2", "eagle2"):
        source = saved(tmp_path / method, method, target)
        export(source, target, tmp_path / f"{method}-out")
        names.append(str(tmp_path / f"{method}-out"))
    # A downloaded repository, as the Hub's cache keeps it: found by its id, without a network.
    cached = tmp_path / "home" / "hub" / "models--somebody--moa"
    export(source, target, cached / "snapshots" / COMMIT)
    (cached / "refs").mkdir()
    (cached / "refs" / "main").write_text(COMMIT)
    # transformers asks for the distribution by name; here the source tree stands in for it.
    about = tmp_path / f"{DISTRIBUTION.replace('-', '_')}-0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {DISTRIBUTION}\nVersion: 0\n")
    environment = {
        **os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}", "OMP_NUM_THREADS": "1",
        "HF_HOME": str(tmp_path / "home"), "HF_HUB_OFFLINE": "1",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", FRESH, str(tmp_path / "target"), *names, "somebody/moa"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    wanted = report.pop("plain")
    assert len(wanted["ids"]) == 46 and wanted["forwards"] == 40 and len(report) == 4
    for name, found in report.items():
        assert found["ids"] == wanted["ids"] and found["forwards"] <= 25, name


def up_to(length: int) -> list[Callable[..., Tensor]]:
    return [lambda ids, scores, **_: torch.tensor([ids.shape[1] >= length])]


def test_greedy_text_is_transformers_own(target, folder):
    for options in (
        *({"max_new_tokens": count, "do_sample": False} for count in (1, 7, 40)),
        *({"max_new_tokens": 30, "stopping_criteria": up_to(length)} for length in (8, 11, 13)),
    ):
        assert torch.equal(ours(target, folder, **options), plain(target, **options)), options


def test_a_generation_config_is_followed(target, folder):
    ids = plain(target, max_new_tokens=30)[0].tolist()
    config = GenerationConfig(max_length=25, eos_token_id=[ids[14], ids[20]], pad_token_id=0)
    wanted = plain(target, generation_config=config)
    assert wanted.shape[1] < 25
    assert torch.equal(ours(target, folder, generation_config=config), wanted)


def test_stop_strings_end_it_as_does_what_stands_beside_them(target, folder):
    ids, words = plain(target, max_new_tokens=30)[0].tolist(), tiny_tokenizer()
    strings = {"tokenizer": words, "stop_strings": words.decode(ids[12:14]), "max_new_tokens": 30}
    for more, most in ({}, 36), ({"stopping_criteria": up_to(9)}, 10):
        wanted = plain(target, **strings, **more)
        assert torch.equal(ours(target, folder, **strings, **more), wanted)
        assert wanted.shape[1] < most


def test_a_sample_is_the_loops_own_draw_for_its_seed(target, folder):
    options = {"max_new_tokens": 20, "do_sample": True, "temperature": 0.8, "top_p": 0.9}
    found = ours(target, folder, **options, top_k=30, seed=4)
    how = {"max_new_tokens": 20, "sampling": Sampling(0.8, 0.9, 30, 4)}
    assert found[0, 6:].tolist() == traced(target, "vanilla", PROMPT[0].tolist(), **how).output_ids


def test_a_dictionary_says_how_many_forwards_it_took(target, folder):
    options = {"max_new_tokens": 30, "return_dict_in_generate": True}
    found = ours(target, folder, **options, tree={"depth": 3, "breadth": 2, "budget": 6})
    assert torch.equal(found.sequences, plain(target, max_new_tokens=30))
    assert found.target_calls == len(found.accepted_lengths) + 1 < 20
    assert max(found.accepted_lengths) <= 4


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"num_beams": 2}, "not for beam_search"),
        ({"num_return_sequences": 2, "do_sample": True}, "one sequence at a time"),
        ({"repetition_penalty": 1.3}, "RepetitionPenaltyLogitsProcessor"),
        ({"min_new_tokens": 5, "eos_token_id": 1}, "MinLengthLogitsProcessor"),
        ({"output_scores": True}, "output_scores"),
        ({"prompt_lookup_num_tokens": 3}, "not for assisted_generation"),
        ({"past_key_values": ()}, "work with past_key_values"),
        ({"attention_mask": torch.tensor([[0, 1, 1, 1, 1, 1]])}, "has padding"),
        ({"tree": {"depth": 0}}, "Tree depth"),
        ({"prompt": PROMPT.repeat(2, 1)}, "there are 2"),
        ({"folder": None}, "Say where the drafter's weights"),
        ({"folder": "no//where"}, "There is no folder"),
        ({"target": tiny_target(hidden_size=48)}, "does not fit this target"),
    ],
)  # fmt: skip
def test_what_cannot_be_drafted_is_refused_in_a_sentence(target, folder, options, words):
    with pytest.raises(UserError, match=words) as caught:
        short = {"max_new_tokens": 10, "do_sample": False}
        ours(**{"target": target, "folder": folder, **short, **options})
    assert "\n" not in str(caught.value) and isinstance(caught.value, ValueError)


class Listener(BaseStreamer):
    def __init__(self) -> None:
        self.heard: list[list[int]] = []

    def put(self, value: Tensor) -> None:
        self.heard.append(value.flatten().tolist())

    def end(self) -> None:
        self.heard.append([])


def test_text_is_streamed_token_by_token_after_the_prompt(target, folder):
    wanted, found = Listener(), Listener()
    plain(target, max_new_tokens=12, do_sample=False, streamer=wanted)
    ours(target, folder, max_new_tokens=12, do_sample=False, streamer=found)
    assert found.heard == wanted.heard and len(found.heard) == 14
