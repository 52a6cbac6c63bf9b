"""The tokenizer keeps every text, digit by digit, and knows the chat's turns."""

import os
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedTokenizerFast

from moa_core.train.target import TargetSizes, make_model, make_tokenizer, with_new_tokens
from moa_core.train.tokenizer import BOS, END, PAD, ROLE_TOKENS, train_tokenizer

CHAT = [
    {"role": "system", "content": "Be kind."},
    {"role": "user", "content": "Count to 12."},
    {"role": "assistant", "content": "1 2 3\n"},
]


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerFast:
    return train_tokenizer(iter(["the cat sat on the mat 1234 1234 1234"] * 20), vocab_size=300)


@pytest.mark.parametrize(
    "text",
    ["", " ", " two  spaces ", "don't , stop .", "\r\n\n\t x\n", "日本 é é 🙂 “q”", "\x00\x7f ½ ٣"],
)
def test_every_text_comes_back_unchanged(tokenizer: PreTrainedTokenizerFast, text: str) -> None:
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text


def test_all_bytes_and_special_tokens_are_known(tokenizer: PreTrainedTokenizerFast) -> None:
    specials = {BOS, END, PAD, *ROLE_TOKENS.values()}
    assert specials <= set(tokenizer.get_vocab())
    assert sum(len(token) == 1 for token in tokenizer.get_vocab()) == 256
    assert tokenizer.tokenize("1234") == ["1", "2", "3", "4"]
    assert (tokenizer.bos_token, tokenizer.eos_token, tokenizer.pad_token) == (BOS, END, PAD)


def test_the_template_knows_the_roles(tokenizer: PreTrainedTokenizerFast) -> None:
    asked = tokenizer.apply_chat_template(CHAT[1:2], tokenize=False, add_generation_prompt=True)
    assert asked == "<|bos|><|user|>Count to 12.<|end|><|assistant|>"
    whole = tokenizer.apply_chat_template(CHAT, tokenize=False)
    system = asked.replace("<|user|>", "<|system|>Be kind.<|end|><|user|>")
    assert whole == system + "1 2 3\n<|end|>"
    with pytest.raises(Exception, match="Unknown role: tool"):
        tokenizer.apply_chat_template([{"role": "tool", "content": ""}], tokenize=False)


def test_one_whose_writing_was_cut_off_is_written_anew(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tokenizer that is there in part would be taken for whole, and miss its template."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    make_tokenizer(data, whole, 0, 300)
    moved, move = [], os.replace

    def killed(file: Path, to: Path) -> None:
        if moved:
            raise KeyboardInterrupt
        moved.append(to)
        move(file, to)

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        make_tokenizer(data, cut, 0, 300)
    monkeypatch.undo()
    make_tokenizer(data, cut, 0, 300)
    files = [{file.name: file.read_bytes() for file in one.iterdir()} for one in (whole, cut)]
    assert files[0] == files[1] and "tokenizer.json" in files[0]


def test_a_new_vocabulary_starts_from_the_old_tokens_that_spell_it(tmp_path: Path) -> None:
    old = train_tokenizer(iter(["the cat sat 1234"] * 20), vocab_size=280)
    new = train_tokenizer(iter(["the dog ran, é"] * 20), vocab_size=290)
    before = make_model(TargetSizes(2, 32, 4, 2, 48, len(old)), old, 0)
    before.save_pretrained(tmp_path)
    old.save_pretrained(tmp_path)
    after = with_new_tokens(tmp_path, new)
    rows, found = before.model.embed_tokens.weight, after.model.embed_tokens.weight
    assert found.shape == (len(new), 32) and after.config.vocab_size == len(new)
    assert after.lm_head.weight is found and after.config.eos_token_id == new.eos_token_id
    ours, theirs = old.get_vocab(), new.get_vocab()
    for token in ("the", "a", END, "<|user|>"):
        assert torch.equal(found[theirs[token]], rows[ours[token]])
    spelled = ["Ġ", "d", "o", "g"]
    assert "Ġdog" in theirs and "Ġdog" not in ours and set(spelled) <= set(ours)
    mean = torch.stack([rows[ours[piece]] for piece in spelled]).mean(0)
    torch.testing.assert_close(found[theirs["Ġdog"]], mean)
