"""What MoA in vLLM refuses, each in one sentence, before the first request."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import vllm
from helpers import make
from moa_vllm.plugin import problem, register
from moa_vllm.proposer import load, refuse
from transformers import LlamaConfig, LlamaForCausalLM

from moa_core.drafters.moa import MoADrafter
from moa_core.errors import UserError
from moa_core.loading.catalog import locate
from moa_core.model.target import Target

Own = tuple[Target, MoADrafter]


def config(**options: Any) -> Any:
    """As much of vLLM's config as `refuse` reads, and what differs."""
    found = SimpleNamespace(
        parallel_config=SimpleNamespace(
            tensor_parallel_size=1, pipeline_parallel_size=1, decode_context_parallel_size=1,
            prefill_context_parallel_size=1,
        ),
        model_config=SimpleNamespace(
            use_mla=False, is_multimodal_model=False, enable_prompt_embeds=False,
            dtype=torch.float32, get_total_num_hidden_layers=lambda: 2,
        ),
        cache_config=SimpleNamespace(cache_dtype="auto"),
        kv_transfer_config=None,
        lora_config=None,
    )  # fmt: skip
    for path, value in options.items():
        part, _, name = path.partition("__")
        setattr(getattr(found, part) if name else found, name or part, value)
    return found


def layers(window: int | None = None, shared: str | None = None) -> Any:
    one = SimpleNamespace(sliding_window=window, kv_sharing_target_layer_name=shared)
    return {"model.layers.0": one, "model.layers.1": one}


def test_the_plain_case_is_not_refused() -> None:
    register()
    refuse(config(), layers())


@pytest.mark.parametrize(
    ("found", "of", "said"),
    [
        (config(parallel_config__tensor_parallel_size=2), layers(), "tensor parallelism"),
        (config(parallel_config__pipeline_parallel_size=2), layers(), "pipeline parallelism"),
        (config(parallel_config__decode_context_parallel_size=2), layers(), "context parallel"),
        (config(cache_config__cache_dtype="fp8_e4m3"), layers(), "fewer bits"),
        (config(model_config__use_mla=True), layers(), "MLA"),
        (config(), layers(window=64), "sliding windows"),
        (config(), layers(shared="model.layers.0"), "share K and V"),
        (config(), {}, "other than full attention"),
        (config(kv_transfer_config=1), layers(), "KV connectors"),
        (config(lora_config=1), layers(), "LoRA"),
        (config(model_config__is_multimodal_model=True), layers(), "no tokens"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_what_vllm_can_and_moa_cannot(found: Any, of: Any, said: str) -> None:
    with pytest.raises(UserError, match=f"^MoA in vLLM does not work with [^.]*{said}[^.]*[.]$"):
        refuse(found, of)


def test_another_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vllm, "__version__", "0.33.1")
    with pytest.raises(UserError, match=r"^moa_vllm needs vLLM 0.32, and this is 0.33.1\.$"):
        refuse(config(), layers())


def test_a_vllm_of_this_version_with_other_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    from vllm.v1.worker.gpu_model_runner import GPUModelRunner

    monkeypatch.setattr(GPUModelRunner, "propose_draft_token_ids", lambda self, batch: None)
    register()
    assert "changed what it wraps" in str(problem())


def named(**options: Any) -> Any:
    return SimpleNamespace(additional_config={"moa": options})


def changed(folder: Path, **keys: Any) -> str:
    """A copy of the bundled drafter whose own config keys differ."""
    place = locate("moa-n0")
    assert isinstance(place, Path)
    shutil.copytree(place, folder)
    stored = json.loads((folder / "config.json").read_text())
    stored["drafter"] |= keys
    (folder / "config.json").write_text(json.dumps(stored))
    return str(folder)


def test_the_authors_format_is_taken(own: Own, tmp_path: Path) -> None:
    folder = Path(changed(tmp_path / "published"))
    stored = json.loads((folder / "config.json").read_text())
    del stored["drafter"]
    stored["num_attention_heads"] = 8  # LSA's are the same there, and ours are 8
    with pytest.raises(UserError, match="fit"):  # SA's are 9 here
        (folder / "config.json").write_text(json.dumps(stored))
        load(named(drafter=str(folder)), own[0])
    stored["disable_LSA"], stored["num_attention_heads"] = True, 9
    (folder / "config.json").write_text(json.dumps(stored))
    assert load(named(drafter=str(folder)), own[0]).net.config.pool == "mean"


def test_drafters_that_do_not_fit(own: Own, tmp_path: Path) -> None:
    for options, said in (
        ({"drafter": "eagle3"}, "is no MoA drafter"),
        ({"drafter": "ngram"}, "has no files"),
        ({"drafter": str(tmp_path / "nothing")}, "There is no folder"),
        ({"drafter": changed(tmp_path / "n1", tli=1)}, "only N = 0 works there"),
        ({"tree": "5-4-11"}, "takes no option tree"),
    ):
        with pytest.raises(UserError, match=said):
            load(named(**options), own[0])


def test_another_target() -> None:
    sizes = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2}
    other = Target(LlamaForCausalLM(LlamaConfig(vocab_size=50, num_attention_heads=4, **sizes)))
    with pytest.raises(UserError, match=r"^moa-n0 does not fit this target: its [^.]*[.]$"):
        load(named(drafter="moa-n0"), other)


def test_a_broken_checkpoint_ends_the_engine_with_a_sentence(
    folder: Path, tmp_path: Path, said: list[str]
) -> None:
    place = Path(changed(tmp_path / "broken"))
    weights = place / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100_000])
    sentence = f"The weights in {place} are damaged or cut short"
    with pytest.raises(UserError, match=sentence):
        make(folder, additional_config={"moa": {"drafter": str(place)}})
    assert [line.startswith(f"MoA: {sentence}: ") for line in said] == [True]
    said.clear()
