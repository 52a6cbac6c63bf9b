"""Drafter files: written, read back, and refused with a sentence when they do not fit."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Drafted, Trace
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.base import Drafter
from moa_core.drafters.eagle import EagleDrafter
from moa_core.drafters.moa import MoAConfig, MoADrafter, MoANet, Sizes
from moa_core.loading.drafter_files import save_drafter
from moa_core.loading.fit import weights_hash
from moa_core.loading.formats import bare_net
from moa_core.loading.load import load_drafter, load_target
from moa_core.loading.untrusted import read_config
from moa_core.model.target import Target
from tests.moa_core.loading.folders import METHODS, TREE, WEIGHTS, edit, refused, save, saved
from tests.models import plain_greedy, save_target, speaking_target, tiny_target, useful


def strip(folder: Path) -> None:
    """Leave a config that says nothing about sizes, as the authors' unconverted ones."""
    (folder / "config.json").write_text('{"architectures": ["MOASpec"]}')


def drafts(target: Target, drafter: Drafter) -> list[Any]:
    run = decode(target, drafter, [5, 9, 3], Settings(12, TreeSettings(3, 3, 9)))
    return [event.tree for event in Trace(events=list(run)).of(Drafted)]


@pytest.mark.usefixtures("plain_torch")
@pytest.mark.parametrize("silent", [False, True], ids=["", "silent config"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "sizes",
    [
        {},
        {"hidden_size": 40, "num_attention_heads": 5, "num_key_value_heads": 1},
        {"family": "qwen3", "head_dim": 12},
        {"attention_bias": True, "mlp_bias": True},
    ],
    ids=["llama", "5 heads", "qwen3", "biases"],
)
def test_a_saved_drafter_drafts_as_before(
    tmp_path: Path, method: str, sizes: dict[str, Any], silent: bool
) -> None:
    target = tiny_target(**sizes)
    drafter = useful(method, target)
    if silent and sizes.get("hidden_size") == 40:
        pytest.skip("LSA's heads are then not the target's: the config has to say so")
    if silent and isinstance(drafter, MoADrafter):  # silence means the paper's pooling
        drafter.net.config = replace(drafter.net.config, pool="mean")
    folder = save(tmp_path / method, drafter, target)
    if silent:
        strip(tmp_path / method)
    back = load_drafter(folder, target, int(method[-1]) if silent and "moa" in method else None)
    assert type(back) is type(drafter) and back.name == method
    assert isinstance(back, MoADrafter | EagleDrafter) and back.net.config == drafter.net.config
    assert back.tree == (TreeSettings() if silent else TreeSettings(**TREE))
    if isinstance(back, MoADrafter):
        assert back.tli == int(method[-1])
    assert drafts(target, back) == drafts(target, drafter)


@pytest.mark.parametrize("method", METHODS)
def test_a_config_alone_has_the_shapes_of_its_tensors(tmp_path: Path, method: str) -> None:
    target = tiny_target()
    saved(tmp_path, method, target)
    net = bare_net(read_config(tmp_path), target.config)
    shapes = {name: value.shape for name, value in load_file(tmp_path / WEIGHTS).items()}
    assert {name: value.shape for name, value in net.state_dict().items()} == shapes


@pytest.mark.usefixtures("plain_torch")
def test_a_drafter_without_lsa_reads_the_last_layer_alone(tmp_path: Path) -> None:
    target = tiny_target()
    one = Sizes(4, 1, 8, 24)
    net = MoANet(MoAConfig(32, target.kv_width, one, one, None, 1e-6))
    drafter = MoADrafter(net.requires_grad_(False), target)
    back = load_drafter(save(tmp_path, drafter, target), target)
    assert isinstance(back, MoADrafter) and back.net.config.lsa is None
    assert drafts(target, back) == drafts(target, drafter)
    vectors = torch.randn(2, 3, target.kv_width)
    changed = vectors.clone()
    changed[:, :-1] = 0
    assert torch.equal(net.memory(vectors, None), net.memory(changed, None))


def test_weights_are_written_in_the_dtype_asked_for_and_read_in_the_targets(
    tmp_path: Path,
) -> None:
    target = tiny_target()
    save_drafter(tmp_path, useful("eagle2", target), target, {}, torch.bfloat16)
    assert {t.dtype for t in load_file(tmp_path / WEIGHTS).values()} == {torch.bfloat16}
    back = load_drafter(str(tmp_path), target)
    assert isinstance(back, EagleDrafter)
    assert {p.dtype for p in back.net.parameters()} == {torch.float32}
    assert not any(p.requires_grad for p in back.net.parameters())


@pytest.mark.parametrize(
    ("method", "silent", "tli", "words"),
    [
        ("moa-n0", False, 1, "mine was trained for TLI N=0 and cannot draft with N=1"),
        ("moa-n2", False, 1, "mine was trained for TLI N=2 and cannot draft with N=1"),
        ("moa-n2", True, None, 0), ("moa-n2", True, 3, 3),
        ("moa-n2", True, 4, "TLI N must be from 0 to 3"),
        ("moa-n2", True, -1, "TLI N must be from 0 to 3"),
        ("eagle2", False, 1, "mine is no MoA drafter: TLI is a part of MoA"),
    ],
)  # fmt: skip
def test_n_is_the_one_of_the_training(
    tmp_path: Path, method: str, silent: bool, tli: int | None, words: Any
) -> None:
    target = tiny_target()
    folder = saved(tmp_path / "mine", method, target)
    if silent:
        strip(tmp_path / "mine")
    if isinstance(words, int):
        assert load_drafter(folder, target, tli).tli == words  # type: ignore[attr-defined]
    else:
        assert refused(folder, target, tli).startswith(words)


# ---- refusals: the file, and what the sentence must contain ----


def write(name: str, content: bytes) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes(content)


def cut(keep: int) -> Callable[[Path], object]:
    return lambda folder: (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:keep])


def ours(value: Any) -> Callable[[Path], object]:
    return lambda folder: edit(folder, drafter=value)


def keys(**changes: Any) -> Callable[[Path], object]:
    return lambda folder: edit(folder, **changes)


NOT_FILES: list[tuple[Callable[[Path], object], str]] = [
    *((write("config.json", text), "config.json") for text in (b"[1]", b"{", b"", b"3", b"\xff")),
    *((cut(keep), "damaged or cut short") for keep in (0, 4, 100, 5000, -1)),
    (lambda folder: (folder / "config.json").unlink(), "has no config.json"),
    (lambda folder: (folder / WEIGHTS).unlink(), "has no model.safetensors"),
    (
        lambda folder: save_file({"weight": torch.zeros(2, 2)}, folder / WEIGHTS),
        "mine holds neither a MoA drafter nor any other drafter known here.",
    ),
    *((ours(value), "whose drafter is") for value in (7, [1], "moa")),
    (ours({"tree": 3}), "whose tree is 3: not an object"),
    (ours({"tree": {"depth": 0}}), "depth"),
    (ours({"tree": {"depth": "deep"}}), "depth"),
    (ours({"target": 3}), "whose target is 3"),
    (ours({"target": {"shape": 5}}), "whose shape is 5"),
    (keys(num_attention_heads=3), "which 3 heads do not fit"),
    (keys(num_attention_heads="4"), "whose num_attention_heads is '4': not a whole number"),
    (keys(num_attention_heads=-4), "whose num_attention_heads is -4: not a whole number"),
    (keys(rms_norm_eps="small"), "whose rms_norm_eps is 'small'"),
    (keys(vocab_size="64"), "vocabulary is 64, the target's is 64."),
]
OF_MOA_ALONE = [
    (ours({"tli": "two"}), "whose tli is 'two'"),
    (ours({"tli": -1}), "whose tli is -1"),
    (ours({"lsa_heads": 3}), "layer_self_attention of 32 rows, which 3 heads do not fit"),
    (ours({"lsa_heads": "four"}), "whose lsa_heads is 'four'"),
    (ours({"lsa_pool": "max"}), "max"),
    (ours({"lsa_pool": 3}), "3"),
]


@pytest.mark.parametrize(
    ("method", "change", "words"),
    [
        *(("moa-n0", *row) for row in (*NOT_FILES, *OF_MOA_ALONE)),
        *(("eagle2", *row) for row in NOT_FILES),
    ],
)
def test_a_damaged_folder_is_refused(
    tmp_path: Path, method: str, change: Callable[[Path], object], words: str
) -> None:
    target = tiny_target()
    folder = saved(tmp_path / "mine", method, target)
    change(tmp_path / "mine")
    assert words in refused(folder, target)


@pytest.mark.parametrize("biases", [False, True], ids=["", "biases"])
@pytest.mark.parametrize("method", ["moa-n0", "eagle2"])
def test_every_tensor_that_is_missing_or_of_another_shape_is_named(
    tmp_path: Path, method: str, biases: bool
) -> None:
    target = tiny_target(attention_bias=biases, mlp_bias=biases)
    folder = saved(tmp_path, method, target)
    tensors = load_file(tmp_path / WEIGHTS)
    for name, tensor in tensors.items():
        save_file({key: value for key, value in tensors.items() if key != name}, tmp_path / WEIGHTS)
        sentence = refused(folder, target)
        # Without some tensors a file cannot be told to be a drafter at all.
        assert name in sentence or "neither a MoA drafter nor any other" in sentence, sentence
        save_file({**tensors, name: torch.cat([tensor, tensor[:1]], 0)}, tmp_path / WEIGHTS)
        refused(folder, target)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("authors", [False, True], ids=["ours", "authors'"])
@pytest.mark.parametrize(
    ("sizes", "words", "by_tensors"),
    [
        ({"hidden_size": 48}, "hidden size is 32, the target's is 48.", "not (48, "),
        ({"layers": 5}, "layers is 3, the target's is 5.", None),
        ({"num_attention_heads": 8, "head_dim": 8}, "heads is 4, the target's is 8.", None),
        ({"num_key_value_heads": 1}, "kv heads is 2, the target's is 1.", "not (32, 16)"),
        ({"head_dim": 16}, "head size is 8, the target's is 16.", "not (32, 64)"),
        ({"vocab_size": 99}, "vocabulary is 64, the target's is 99.", "the target's is 99."),
        (
            {"rope_parameters": {"rope_type": "default", "rope_theta": 77_000.0}},
            "the two differ in their RoPE settings.", None,
        ),
    ],
)  # fmt: skip
def test_a_drafter_of_another_target_is_refused_with_the_mismatch(
    tmp_path: Path, method: str, authors: bool, sizes: dict[str, Any], words: str, by_tensors: Any
) -> None:
    folder = saved(tmp_path / "mine", method, tiny_target())
    if authors:  # their configs do not say for which target: the tensors do
        edit(tmp_path / "mine", drafter=None)
    if not authors:
        sentence = refused(folder, tiny_target(**sizes))
        assert sentence.startswith("mine does not fit this target: ") and words in sentence
    elif by_tensors and ("moa" in method or ("kv" not in words and "head" not in words)):
        assert by_tensors in refused(folder, tiny_target(**sizes))


def test_a_drafter_trained_with_another_tokenizer_is_refused(tmp_path: Path) -> None:
    target = speaking_target()
    folder = saved(tmp_path, "moa-n0", target)
    assert load_drafter(folder, target).name == tmp_path.name
    edit(tmp_path, ours={"target": {"tokenizer": "0123456789abcdef"}})
    assert "another tokenizer" in refused(folder, target)
    target.tokenizer = None  # nothing to compare with
    assert load_drafter(folder, target).name == tmp_path.name


@pytest.mark.parametrize("method", ["moa-n1", "eagle2", "medusa"])
def test_a_drafter_of_other_weights_drafts_and_says_so(
    tmp_path: Path, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    target, other = tiny_target(seed=0), tiny_target(seed=1)
    folder = saved(tmp_path / "mine", method, target)
    assert load_drafter(folder, target).note == "" and not caplog.messages
    drafter = load_drafter(folder, other)
    assert "mine was trained on a target with other weights than tiny-llama-1" in drafter.note
    assert "(tiny-llama-0): text stays exact" in drafter.note and caplog.messages == [drafter.note]
    trace = Trace(events=list(decode(other, drafter, [5, 9, 33, 7], Settings(20))))
    assert trace.output_ids == plain_greedy(other, [5, 9, 33, 7], 20)
    edit(tmp_path / "mine", ours={"target": {}})  # nothing to compare with
    assert load_drafter(folder, other).note == ""


def test_a_targets_hash_is_of_its_weights_and_not_of_how_they_are_held(tmp_path: Path) -> None:
    target = tiny_target(layers=2)
    target.model.to(torch.bfloat16)
    known = weights_hash(target)
    save_target(tmp_path, target)
    for dtype, wanted in (("float32", known), ("bfloat16", known), ("float16", None)):
        assert weights_hash(load_target(str(tmp_path), dtype, "cpu")) == wanted
    tuned = load_target(str(tmp_path), "float32", "cpu")
    tuned.layers[1].self_attn.q_proj.weight.data.mul_(1.02)
    assert weights_hash(tuned) not in (None, known)
