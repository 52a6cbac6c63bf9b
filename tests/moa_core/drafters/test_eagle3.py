"""EAGLE-3: published forms load, drafts are those of the formulas, training is drafting."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from moa_core.decoding.trace import Drafted
from moa_core.decoding.tree import TreeSettings
from moa_core.drafters.eagle3 import Eagle3Drafter, default_layers
from moa_core.errors import UserError
from moa_core.loading.drafter_files import save_drafter
from moa_core.loading.load import load_drafter
from moa_core.model.layers import rotate
from moa_core.model.target import Target
from moa_core.train.drafters import fresh
from moa_core.train.losses import DECAY, Weights
from moa_core.train.masks import predictable
from moa_core.train.teacher import teach
from moa_core.train.unrolled import Eagle3Trainee
from tests.models import check_chain, lossless, one_reply, tiny_target

E, V, WORDS, LAYERS, EPS = 32, 64, 20, 8, 0.1
PROMPT = [5, 9, 33, 7, 21, 40, 11]
CHAIN = TreeSettings(depth=4, breadth=1, budget=4)
LAYER: dict[str, Any] = {
    "model_type": "llama", "hidden_size": E, "num_attention_heads": 4, "num_key_value_heads": 2,
    "intermediate_size": 48, "num_hidden_layers": 1, "rms_norm_eps": EPS, "vocab_size": V,
}  # fmt: skip
WORD_COUNT = {"draft_vocab_size": WORDS}
CONFIG = {"architectures": ["LlamaForCausalLMEagle3"], **LAYER, **WORD_COUNT}
NESTED = {
    "architectures": ["Eagle3Speculator"], "speculators_model_type": "eagle3", **WORD_COUNT,
    "eagle_aux_hidden_state_layer_ids": None, "target_hidden_size": None,
    "transformer_layer_config": LAYER,
}  # fmt: skip


def weights(layers: int = 3, words: int | None = WORDS, **more: tuple[int, ...]) -> dict[str, Any]:
    """Random weights under SafeAILab's names. words: None for a head of all words."""
    draw = torch.Generator().manual_seed(3)
    part = {
        "hidden_norm": (E,), "input_layernorm": (E,), "post_attention_layernorm": (E,),
        "self_attn.q_proj": (E, 2 * E), "self_attn.k_proj": (E // 2, 2 * E),
        "self_attn.v_proj": (E // 2, 2 * E), "self_attn.o_proj": (E, E),
        "mlp.gate_proj": (48, E), "mlp.up_proj": (48, E), "mlp.down_proj": (E, 48),
    }  # fmt: skip
    shapes = {
        "fc.weight": (E, layers * E), "norm.weight": (E,), "lm_head.weight": (words or V, E),
        **{f"midlayer.{name}.weight": shape for name, shape in part.items()}, **more,
    }  # fmt: skip
    found = {
        name: torch.randn(shape, generator=draw) * 0.2 + (1.0 if "norm" in name else 0.0)
        for name, shape in shapes.items()
    }
    if words:
        ids = torch.randperm(V, generator=draw)[:words].sort().values
        found["d2t"] = ids - torch.arange(words)
        found["t2d"] = torch.zeros(V, dtype=torch.bool).index_fill_(0, ids, True)
    return found


def loaded(
    folder: Path, target: Target, tensors: dict[str, Tensor], config: dict[str, Any] = CONFIG
) -> Eagle3Drafter:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    save_file(tensors, folder / "model.safetensors")
    drafter = load_drafter(str(folder), target)
    assert isinstance(drafter, Eagle3Drafter)
    return drafter


@pytest.fixture(scope="module")
def target() -> Target:
    return tiny_target(layers=LAYERS, hidden_size=E, vocab_size=V)


@pytest.fixture
def head(tmp_path: Path, target: Target) -> Eagle3Drafter:
    return loaded(tmp_path / "head", target, weights())


def rms(x: Tensor, weight: Tensor) -> Tensor:
    return x / (x.pow(2).mean(-1, keepdim=True) + EPS).sqrt() * weight


def by_the_book(
    target: Target, tensors: dict[str, Tensor], chain: list[int], residual: bool = False
) -> list[Tensor]:
    """Log-probabilities [D] after each token of a chain, root first, below the prompt: by the
    formulas, without cache and masks."""
    text = torch.tensor([PROMPT])
    states = target.model(text, output_hidden_states=True).hidden_states
    tapped = torch.cat([states[layer][0] for layer in (2, 4, 5)], -1)  # of 8 layers
    features = list(tapped @ tensors["fc.weight"].T)
    ids, part, found = [*PROMPT[1:], *chain], "midlayer.", []
    embedding = target.model.get_input_embeddings().weight
    angles = torch.arange(64)[:, None] / 10_000 ** (torch.arange(0, 8, 2) / 8)
    for last in range(len(PROMPT) - 1, len(PROMPT) - 1 + len(chain)):
        before = torch.stack(features[: last + 1])
        normed = rms(before, tensors[part + "hidden_norm.weight"])
        read = embedding[ids[: last + 1]]
        joined = torch.cat([rms(read, tensors[part + "input_layernorm.weight"]), normed], -1)
        q, k, v = (
            (joined @ tensors[f"{part}self_attn.{one}_proj.weight"].T).unflatten(-1, (-1, 8))
            for one in "qkv"
        )
        cos, sin = angles[: last + 1].cos().repeat(1, 2), angles[: last + 1].sin().repeat(1, 2)
        turns = cos, torch.cat([-sin[:, :4], sin[:, 4:]], -1)
        q, k = (rotate(one.transpose(0, 1), turns) for one in (q, k))
        k, v = (one.repeat_interleave(2, 0) for one in (k, v.transpose(0, 1)))
        mixed = (q[:, -1:] @ k.mT / 8**0.5).softmax(-1) @ v
        x = (normed if residual else before)[-1] + mixed.transpose(0, 1).flatten() @ tensors[
            part + "self_attn.o_proj.weight"
        ].T
        fed = rms(x, tensors[part + "post_attention_layernorm.weight"])
        gate, up = (fed @ tensors[f"{part}mlp.{one}_proj.weight"].T for one in ("gate", "up"))
        x = x + (F.silu(gate) * up) @ tensors[part + "mlp.down_proj.weight"].T
        features.append(x)
        logits = rms(x, tensors["norm.weight"]) @ tensors["lm_head.weight"].T
        found.append(logits.log_softmax(-1))
    return found


def drafted(target: Target, drafter: Eagle3Drafter) -> tuple[list[int], list[float]]:
    tree = lossless(target, drafter, PROMPT, 8, tree=CHAIN).of(Drafted)[0].tree
    return list(tree.tokens), list(tree.log_probs)


def test_drafts_are_those_of_the_formulas(target, head):
    tensors = weights()
    tokens, log_probs = drafted(target, head)
    ids = (tensors["d2t"] + torch.arange(WORDS)).tolist()
    assert set(tokens[1:]) <= set(ids)
    steps = torch.stack(by_the_book(target, tensors, tokens[:-1]))
    drafts = [ids.index(token) for token in tokens[1:]]
    assert steps.argmax(-1).tolist() == drafts
    check_chain(steps, [0, *drafts], log_probs)


@pytest.mark.parametrize("prefix", ["layers.0.", "model.layers.0."])
def test_speculators_form_is_the_same_head(prefix, target, head, tmp_path):
    """But for the residual, which is normed there where a config does not say."""
    tensors = {name.replace("midlayer.", prefix): one for name, one in weights().items()}
    other = loaded(tmp_path, target, tensors, NESTED | {"norm_before_residual": False})
    assert drafted(target, other) == drafted(target, head)
    tokens, log_probs = drafted(target, loaded(tmp_path, target, tensors, NESTED))
    first = by_the_book(target, weights(), tokens[:1], residual=True)[0]
    assert log_probs[1] == pytest.approx(first.max().item(), abs=1e-4)


NORMS = {
    "fc_norm": {f"fc_norm.{place}.weight": (E,) for place in range(3)},
    "input_norm": {"input_norm.weight": (3 * E,)},
    "heads": {f"midlayer.self_attn.{one}_norm.weight": (8,) for one in "qk"},
}


@pytest.mark.parametrize("parts", [*NORMS, "norm_output", "all words", "own embeddings"])
def test_optional_parts_are_found_in_the_files(parts, target, head, tmp_path):
    more, config = NORMS.get(parts, {}), {**CONFIG, "norm_output": parts == "norm_output"}
    if parts == "own embeddings":
        more, config["embed_requires_grad"] = {"embed_tokens.weight": (V, E)}, True
    tensors = weights(words=None if parts == "all words" else WORDS, **more)
    drafter = loaded(tmp_path, target, tensors, config)
    known = drafter.net.state_dict()
    assert all(torch.equal(known[name], tensors[name]) for name in more)
    assert drafted(target, drafter)[1] != drafted(target, head)[1]
    if parts == "own embeddings":  # without the flag they are a copy of the target's
        assert "embed_tokens.weight" not in loaded(tmp_path, target, tensors).net.state_dict()


@pytest.mark.parametrize(
    ("named", "read"),
    [({}, (2, 4, 5)), ({"eagle_aux_hidden_state_layer_ids": [0, 3, 6]}, (0, 3, 6)),
     ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 3, 6]}}, (2, 4, 7))],
)  # fmt: skip
def test_layers_are_those_of_the_config(named, read, target, tmp_path):
    drafter = loaded(tmp_path, target, weights(), CONFIG | named)
    assert drafter.net.config.layers == read
    drafted(target, drafter)


@pytest.mark.parametrize(
    ("config", "tensors", "words"),
    [
        ({"eagle_aux_hidden_state_layer_ids": [2, 4, 8]}, {}, "this target has 8"),
        ({"eagle_aux_hidden_state_layer_ids": [2, 4]}, {}, "reads 3 of the target's layers"),
        ({}, {"mask_hidden": torch.zeros(E)}, "P-EAGLE"),
        ({}, {"layers.1.hidden_norm.weight": torch.zeros(E)}, "more than one layer"),
        ({}, {"midlayer.self_attn.o_proj.bias": torch.zeros(E)}, "bias in o_proj"),
        ({}, {"d2t": torch.full((WORDS,), V)}, "vocabulary does not have"),
        ({}, {"d2t": torch.zeros(3, dtype=torch.long)}, "does not fit"),
        ({"vocab_size": V + 1}, {}, "vocabulary is 65"),
    ],
)
def test_what_cannot_be_drafted_with_is_refused(config, tensors, words, target, tmp_path):
    with pytest.raises(UserError, match=words):
        loaded(tmp_path, target, weights() | tensors, CONFIG | config)


def test_layers_of_small_targets_differ():
    assert default_layers(36) == (2, 18, 33)
    for count in range(3, 40):
        assert len({*default_layers(count)} & {*range(count)}) == 3


def test_a_fresh_one_is_told_whole_by_its_files(tmp_path):
    deep = tiny_target(layers=30)
    drafter = fresh("eagle3", deep, seed=0)
    sizes = drafter.net.config
    assert sizes.layers == (15, 21, 27) and sizes.norm_each
    save_drafter(tmp_path, drafter, deep, {}, torch.float32)
    assert load_drafter(tmp_path, deep).net.config == sizes
    config = json.loads((tmp_path / "config.json").read_text())  # as vLLM reads it
    assert config["architectures"] == ["LlamaForCausalLMEagle3"] and config["head_dim"] == E // 4
    found = [Eagle3Drafter.recognises(one, ()) for one in ({"draft_vocab_size": 9}, {})]
    assert found == [True, False]
    assert drafter.output_shapes(deep, 5) == {"features": (5, E)}


def test_it_trains_on_what_it_drafts_from(target, monkeypatch):
    """Each unrolled draft's loss is that of the draft itself, from the same row of the text."""
    drafter = fresh("eagle3", target, seed=1)
    tokens, log_probs = drafted(target, drafter)
    batch = one_reply(torch.tensor([[*PROMPT, *tokens, 3]]), len(PROMPT))
    lesson = teach(target, batch, {LAYERS - layer for layer in drafter.net.config.layers})
    monkeypatch.setattr("moa_core.train.unrolled.UNROLLED", len(tokens) - 1)
    monkeypatch.setattr("moa_core.train.unrolled.LATER", 1.0)
    trained = Eagle3Trainee(drafter, target, Weights())
    rows = torch.arange(batch.ids.shape[1] - 1)[None]
    unrolled = [hidden for hidden, _ in trained.features(batch, lesson, rows)]
    last = torch.stack([hidden[0, len(PROMPT) - 1] for hidden in unrolled])
    check_chain(target.head(drafter.net.head_input(last)), tokens, log_probs)
    loss, stats = trained(batch, lesson, None, 0)
    parts = []
    for step, hidden in enumerate(unrolled):
        where = predictable(batch)[:, 1 + step :]
        told = target.head(lesson.hidden[:, 1 + step :]).softmax(-1)
        found = target.head(drafter.net.head_input(hidden))[:, : where.shape[1]].log_softmax(-1)
        parts.append(-(told * found).sum(-1)[where].mean())
    decay = [DECAY**step for step in range(len(parts))]
    wanted = sum(weight * part for weight, part in zip(decay, parts, strict=True)) / sum(decay)
    torch.testing.assert_close(loss, wanted, rtol=1e-4, atol=0)
    torch.testing.assert_close(stats["cross_entropy"], parts[0].detach(), rtol=1e-4, atol=0)
