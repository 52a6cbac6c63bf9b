"""Models named on the command line: presets, a drafter for each N, a baseline, how to load."""

import pytest
import torch

import demo.engine as module
from demo.arguments import engine_of, options
from demo.engine import Engine, Request
from demo.tli.stops import slider_bounds, stops_html
from demo.ui import _machine
from moa_core.errors import UserError
from moa_core.loading.drafter_files import save_drafter
from moa_core.loading.presets import LLAMA3, LLAMA3_EAGLE, LLAMA3_MOA
from tests.demo.conftest import WITHOUT_FILES
from tests.models import save_target, speaking_target, useful


def asked(*words: str) -> Engine:
    return engine_of(options(None, None).parse_args(words))


def test_a_preset_names_target_drafter_and_baseline_without_a_download():
    engine = asked("--preset", "llama3-8b", "--load-in-8bit", "--device", "cpu")
    assert engine.first == LLAMA3
    assert engine.methods() == ["moa-n0", "moa-n0+ngram", "eagle2", "eagle2+ngram", *WITHOUT_FILES]
    assert engine.stops() == [0] and engine.default() == "moa-n0"
    assert slider_bounds(engine, "moa-n0") == {"maximum": 1, "interactive": False}
    assert "No other N is trained" in stops_html(engine, "moa-n0")
    drafters = engine.installed[engine.first].drafters
    assert drafters["moa-n0"].name == LLAMA3_MOA and drafters["eagle2"].name == LLAMA3_EAGLE
    said = stops_html(engine, "moa-n2")
    assert "refusal" in said
    assert "No drafter here has N = 2: choose N = 0." in said


def test_how_to_load_goes_to_the_first_target_alone(loads, monkeypatch):
    heard = {}

    def load(spec, **how):
        heard[spec] = how
        how["report"](f"Downloading {spec}: 1.0 of 2.0 GB.")
        raise UserError("That is all.")

    monkeypatch.setattr(module, "load_target", load)
    words = ("--load-in-4bit", "--dtype", "bfloat16")
    engine = asked("--target", "someone/model", *words)
    said = list(_machine(engine, "someone/model"))
    assert said[-1] == {"kind": "error", "text": "That is all."}
    assert engine.said("someone/model") == "Downloading someone/model: 1.0 of 2.0 GB."
    list(_machine(engine, "fake"))
    first, other = heard["someone/model"], heard["fake"]
    assert (first["bits"], first["dtype"]) == (4, "bfloat16")
    assert other.keys() == {"report"}


def test_each_drafter_is_a_stop_of_the_slider(tmp_path):
    target = speaking_target(max_position_embeddings=256)
    save_target(tmp_path / "target", target)
    words = ["--device", "cpu", "--target", str(tmp_path / "target")]
    more = {"tree": {"depth": 3, "breadth": 2, "budget": 6}}
    for method in ("moa-n0", "moa-n2", "eagle2"):
        save_drafter(tmp_path / method, useful(method, target), target, more, torch.float32)
        option = "--baseline" if method == "eagle2" else "--drafter"
        words += [option, str(tmp_path / method)]
    engine = asked(*words)
    own = ["moa-n0", "moa-n0+ngram", "moa-n2", "eagle2", "eagle2+ngram"]
    assert engine.methods() == [*own, *WITHOUT_FILES]
    assert engine.stops() == [0, 2]
    assert slider_bounds(engine, "moa-n0") == {"maximum": 2, "interactive": True}
    assert not slider_bounds(engine, "eagle2")["interactive"]
    texts = []
    for method in engine.methods():
        run = engine.prepare(Request("The fox ran", method, 24))
        list(run.events)
        texts.append(run.trace.output_ids)
    assert len(texts[0]) == 24 and all(text == texts[0] for text in texts)
    with pytest.raises(UserError, match="No drafter here has N = 1: choose N = 0 or 2"):
        engine.prepare(Request("The fox ran", "moa-n1", 24))
    assert "of memory for models and cache" in engine.describe() and "float32" in engine.describe()
