"""Fewer draft words for drafters that are trained already: a level of drafting then costs less."""

import json
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from moa_core.errors import UserError, saying
from moa_core.train import own_text
from moa_core.untrusted import read_config, read_tensors


def keep_words(folder: Path, text: Path, count: int, out: Path) -> list[str]:
    """Write a folder's drafters with the most frequent of their words; return their names.

    Their weights stay as they are, because the head is the target's.

    text   a training run's answers
    count  D, the words to keep
    UserError if there is no drafter, or one with fewer words or a head of its own
    """
    names = sorted(one.parent.name for one in folder.glob("*/model.safetensors"))
    if not names:
        raise UserError(f"{folder} holds no folders of drafters.")
    told = np.concatenate([np.array(ids)[np.array(mask)] for ids, mask in own_text.load(text)])
    for name in names:
        config, tensors = read_config(folder / name), read_tensors(folder / name)
        offsets = tensors.get("d2t", torch.zeros(config["vocab_size"], dtype=torch.int))
        words = (offsets + torch.arange(len(offsets))).numpy()
        if "lm_head.weight" in tensors:
            raise UserError(f"{name} has a head of its own, so its words cannot be fewer.")
        if count > len(words):
            raise UserError(f"{name} drafts {len(words):,} words: fewer than {count:,}.")
        frequency = np.bincount(told, minlength=config["vocab_size"])[words]
        kept = torch.from_numpy(np.sort(words[np.argsort(-frequency, kind="stable")[:count]]))
        tensors["d2t"] = (kept - torch.arange(count)).int()
        config["draft_vocab_size"] = count
        with saying(f"A drafter cannot be written to {out / name}"):
            (out / name).mkdir(parents=True, exist_ok=True)
            path = out / name / "model.safetensors"
            save_file(tensors, path, metadata={"format": "pt"})
            (out / name / "config.json").write_text(json.dumps(config, indent=2) + "\n", "utf-8")
    return names
