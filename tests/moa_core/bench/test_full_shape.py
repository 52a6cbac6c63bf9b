"""A published shape with random weights, from end to end: small here, whole where there is room."""

import argparse
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from moa_core.bench.full_shape import add_arguments, main, run
from moa_core.errors import UserError
from moa_core.presets import LLAMA3, LLAMA3_MOA, PRESETS

SMALL = ("--shrink", "32", "--layers", "3", "--vocabulary", "300", "--prompt-tokens", "20")
METHODS = ["vanilla", "moa-n0", "moa-n1", "eagle2"]


def figures(out: Path, *words: str) -> dict[str, Any]:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    given = ("--tli", "0,1", "--repeat", "1", "--out", str(out / "figures.json"))
    run(parser.parse_args([*given, *words]))
    return json.loads((out / "figures.json").read_text())


def test_a_small_shape_runs_from_end_to_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = figures(tmp_path, *SMALL, "--max-new-tokens", "24", "--device", "cpu")
    assert list(found["methods"]) == METHODS
    assert all(one["text"] == "as plain" for one in found["methods"].values())
    assert all(one["tokens_per_second"] > 0 for one in found["methods"].values())
    assert found["methods"]["vanilla"]["tau"] == 1 < found["methods"]["moa-n0"]["tau"]
    assert found["target"]["hidden_size"] == 128 and found["target"]["layers"] == 3
    assert found["memory"]["peak"] > found["memory"]["weights"] == 4 * found["target"]["parameters"]
    assert "| eagle2 | " in capsys.readouterr().out


def test_what_does_not_fit_is_refused_by_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "x.json")
    monkeypatch.setattr("sys.argv", ["full_shape", "--device", "cpu", "--out", out])
    monkeypatch.setattr(
        "moa_core.loading.free_bytes", lambda device, spread=False, offload=True: 10**9
    )
    assert main() == 2
    said = capsys.readouterr().err
    assert said.startswith("error: llama3-8b with random weights does not fit: it needs")
    with pytest.raises(UserError, match="--shrink must be a whole number"):
        figures(tmp_path, "--shrink", "0")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layers", "vocabulary", "dtype"), [(1, 32_000, "float32"), (2, None, "bfloat16")]
)
def test_the_published_widths_with_few_layers(
    tmp_path: Path, layers: int, vocabulary: int | None, dtype: str
) -> None:
    """4096 wide, 14336 within, 32 heads on 8; some 5 GB of memory, and minutes.

    In float32 every text is plain decoding's; in bfloat16 it may part from it at a near tie.
    """
    words = ("--layers", str(layers), "--prompt-tokens", "12", "--max-new-tokens", "12")
    less = ("--vocabulary", str(vocabulary)) if vocabulary else ()
    found = figures(
        tmp_path, *words, *less, "--dtype", dtype, "--device", "cpu", "--tree", "4-4-16",
        "--tli", "0,1",
    )  # fmt: skip
    shape = PRESETS["llama3-8b"].configs[LLAMA3]
    assert found["target"]["hidden_size"] == shape["hidden_size"] == 4096
    assert found["target"]["vocabulary"] == vocabulary or shape["vocab_size"]
    assert found["methods"]["moa-n0"]["weights"] == 264_265_728
    assert (
        shape["num_attention_heads"]
        == PRESETS["llama3-8b"].configs[LLAMA3_MOA]["num_attention_heads"]
    )
    for name, one in found["methods"].items():
        near_tie = dtype == "bfloat16" and one["text"] != "as plain" and one["text"]["gap"] < 0.2
        assert one["text"] == "as plain" or near_tie, (name, one["text"])
    assert found["memory"]["peak"] < 8e9


@pytest.mark.cuda
@pytest.mark.slow
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_whole_shape_on_a_gpu(tmp_path: Path) -> None:
    """All 32 layers in bfloat16: 20 GB; texts part from plain decoding's at near ties at most."""
    found = figures(tmp_path, "--tli", "0,1,3", "--dtype", "bfloat16", "--device", "cuda")
    assert found["target"]["parameters"] == 8_030_261_248
    assert found["memory"]["peak"] < found["memory"]["expected"]
    for name, one in found["methods"].items():
        assert one["text"] == "as plain" or one["text"]["gap"] < 0.2, (name, one["text"])
