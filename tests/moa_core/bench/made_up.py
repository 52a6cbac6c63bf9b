"""Runs of a benchmark that nobody ran, with numbers to reckon with by hand."""

from typing import Any

ABOUT: dict[str, dict[str, Any]] = {
    "vanilla": {"trainable_parameters": 0, "tli": None, "tree": None, "training": None},
    "moa": {
        "trainable_parameters": 10,
        "tli": 1,
        "tree": {"depth": 5, "breadth": 4, "budget": 12},
        "training": None,
    },
    "hf": {"trainable_parameters": 0, "tli": None, "tree": None, "training": None},
}


def ours(
    method: str, repeat: int, prompt: int, kind: str, gained: list[int], pace: float = 1.0
) -> dict[str, Any]:
    """A run in which each token after the first takes 0.1 seconds, half of it verification."""
    spent = 0.1 * sum(gained) * pace
    drafts = 0 if method == "vanilla" else 4
    return {
        "method": method,
        "repeat": repeat,
        "prompt": prompt,
        "prompt_tokens": 7,
        "new_tokens": 1 + sum(gained),
        "output": f"text-{prompt}",
        "grams": [0, 0],
        "reason": "length",
        "target_calls": 1 + len(gained),
        "seconds": {
            "prefill": 0.1,
            "draft": spent * 3 / 11,
            "verify": spent * 6 / 11,
            "other": spent * 2 / 11,
        },
        "cycles": {
            "gained": gained,
            "drafted": [drafts] * len(gained),
            "draft_us": [1] * len(gained),
            "verify_us": [2] * len(gained),
            "other_us": [3] * len(gained),
        },
        "joules": 1.0,
        "kind": kind,
    }


def peer(repeat: int, prompt: int, kind: str) -> dict[str, Any]:
    """A run of transformers' generation."""
    return {
        "method": "hf",
        "repeat": repeat,
        "prompt": prompt,
        "prompt_tokens": 7,
        "new_tokens": 6,
        "output": f"text-{prompt}",
        "grams": [0, 0],
        "target_calls": 5,
        "seconds": {"prefill": 0.1, "decode": 1.0},
        "gained_after_prefill": 4 if prompt == 1 else 5,
        "joules": None,
        "kind": kind,
    }


def made_up_runs() -> list[dict[str, Any]]:
    """Three methods, two repeats, two prompts of different kinds."""
    runs = []
    for repeat in range(2):
        pace = 1.0 + repeat
        for prompt, kind, gained in ((1, "a", [3, 2]), (2, "b", [1, 4, 1])):
            plain = ours("vanilla", repeat, prompt, kind, [1] * sum(gained), 2.0)
            moa = ours("moa", repeat, prompt, kind, gained, pace)
            moa |= {"grams": [prompt - 1, 5], "joules": 3.0}
            if (repeat, prompt) == (1, 2):
                moa["output"] = "another text"
            runs += [plain, moa, peer(repeat, prompt, kind)]
    return runs
