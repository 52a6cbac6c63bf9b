"""The costs of a target call, and what int8 changes, are measured on any target."""

import re

import pytest
import torch

from moa_core.bench import cost
from moa_core.engine import accelerate
from tests.models import save_target, tiny_target

pytestmark = pytest.mark.usefixtures("cache")


def test_costs_and_quality_are_told(tmp_path, monkeypatch, capsys):
    save_target(tmp_path / "model", tiny_target(vocab_size=2000, max_position_embeddings=1024))
    monkeypatch.setattr(cost, "suite_ids", lambda prompts, _: [[5, 9, 33]] * len(prompts))
    words = "--tokens 1,12,500 --repeats 2 --quality --limit 2 --target"
    monkeypatch.setattr("sys.argv", ["cost", *words.split(), str(tmp_path / "model")])
    cost.main()
    told = capsys.readouterr().out
    assert len(re.findall(r"(float32|int8) +(1|12|500) tokens +[\d.]+ ms", told)) == 6
    assert "of 128" in told


@torch.inference_mode()
def test_a_target_is_not_apart_from_itself():
    target = accelerate(tiny_target())
    assert re.match(r"KL -?0.0000, same first choice 100.0%", cost.apart([target] * 2, [[5, 9]]))
    off = cost.apart([target, accelerate(target, int8=True)], [[5, 9]])
    assert float(off.split()[1].rstrip(",")) == pytest.approx(0, abs=0.1) and "0.0000" not in off
