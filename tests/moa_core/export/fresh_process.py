"""Run by a test in a process of its own, which imports transformers alone.

Arguments: the target's folder, then exports of custom-generate, each a folder or a Hub id. Prints
JSON: what plain `generate` and each export wrote, and how often the first layer ran for it.
"""

import json
import sys

import torch
from transformers import AutoModelForCausalLM
from transformers.generation.streamers import BaseStreamer


class Heard(BaseStreamer):
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.ids: list[int] = []
        self.ended = False

    def put(self, value: torch.Tensor) -> None:
        self.ids += value.flatten().tolist()

    def end(self) -> None:
        self.ended = True


def main(folder: str, *exports: str) -> None:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    forwards = []
    model.base_model.layers[0].register_forward_hook(lambda *_: forwards.append(1))
    prompt = torch.tensor([[5, 9, 3, 60, 7, 11]])
    wanted = {"attention_mask": torch.ones_like(prompt), "max_new_tokens": 40, "do_sample": False}
    report = {"runs": {}}
    for name in ("plain", *exports):
        heard, more = Heard(), {}
        if name != "plain":
            more = {"custom_generate": name, "trust_remote_code": True}
        forwards.clear()
        ids = model.generate(prompt, streamer=heard, **wanted, **more)
        report["runs"][name] = {
            "ids": ids[0].tolist(), "forwards": len(forwards),
            "streamed": heard.ids, "ended": heard.ended,
        }  # fmt: skip
    print(json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
