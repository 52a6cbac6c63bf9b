"""A drafter's file for the browser: what is in it, how large it is, and what has none."""

import pytest
import torch

from demo.device.weights import pack
from moa_core.errors import UserError
from moa_core.link.client_weights import target_mark
from moa_core.link.session import drafter_mark
from tests.device.twins import read
from tests.models import drafter_of, tiny_target, tiny_tokenizer, useful


def test_matrices_are_rounded_and_nothing_else():
    target = tiny_target()
    drafter = useful("moa-n1", target)
    header, tensors = read(pack(target, drafter))
    true = {f"sa.{name}": one for name, one in drafter.net.self_attention.state_dict().items()}
    true |= {f"tail.0.{name}": one for name, one in target.layers[-1].state_dict().items()}
    true |= {"embed": target.embed.weight, "head": target.model.get_output_embeddings().weight}
    for name, weight in true.items():
        largest = weight.abs().amax(-1, keepdim=True)
        off = ((tensors[name] - weight).abs() / largest).max()
        assert off == 0 if weight.ndim == 1 else 0 < off < 1 / 254 * 1.001
    assert header["marks"] == {"drafter": drafter_mark(drafter), "target": target_mark(target)}
    assert not [name for name in tensors if name.startswith(("ca.self_attn.k", "ca.self_attn.v"))]


def test_a_tied_head_is_not_there_twice():
    target = tiny_target(tie_word_embeddings=True)
    assert "head" not in read(pack(target, useful("eagle2", target)))[1]


def test_words_are_the_bytes_of_all_tokens():
    tokenizer = tiny_tokenizer()
    target = tiny_target(vocab_size=len(tokenizer) + 3)  # rows that no token has
    target.tokenizer = tokenizer
    header, _ = read(pack(target, useful("moa-n0", target)))
    assert len(header["words"]) == len(tokenizer) + 3
    text = "Füchse 🦊 ran."
    parts = [header["words"][token] for token in tokenizer.encode(text)]
    assert "".join(parts).encode("latin-1").decode() == text


@pytest.mark.parametrize("method", ["vanilla", "tandem", "eagle"])
def test_what_no_browser_runs_is_refused(method):
    target = tiny_target()
    with pytest.raises(UserError, match="cannot draft in a browser"):
        pack(target, drafter_of(method, target))


def test_other_layers_are_refused(monkeypatch):
    target = tiny_target()
    monkeypatch.setattr(target.config, "hidden_act", "gelu")
    with pytest.raises(UserError, match="choose N = 0"):
        pack(target, useful("moa-n1", target))
    assert torch.is_tensor(read(pack(target, useful("moa-n0", target)))[1]["embed"])
