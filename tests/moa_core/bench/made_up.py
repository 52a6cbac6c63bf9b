"""Runs of a benchmark that nobody ran, with numbers that are easy to check by hand."""

from typing import Any

ABOUT: dict[str, dict[str, Any]] = {
    "vanilla": {"trainable_parameters": 0, "tree": None},
    "moa": {"trainable_parameters": 10, "tree": {"depth": 5, "breadth": 4, "budget": 12}},
    "hf": {"trainable_parameters": 0, "tree": None},
}


def ours(
    method: str, repeat: int, prompt: int, kind: str, gained: list[int], pace: float = 1.0
) -> dict[str, Any]:
    """A run in which each token after the first takes 0.1 seconds, half of it verification."""
    spent, count = 0.1 * sum(gained) * pace, len(gained)
    parts = {"draft": spent * 3 / 11, "verify": spent * 6 / 11, "other": spent * 2 / 11}
    return {
        **_told(method, repeat, prompt, kind), "new_tokens": 1 + sum(gained), "reason": "length",
        "target_calls": 1 + count, "seconds": {"prefill": 0.1, **parts},
        "cycles": {"gained": gained, "drafted": [0 if method == "vanilla" else 4] * count},
    }  # fmt: skip


def peer(repeat: int, prompt: int, kind: str) -> dict[str, Any]:
    return {
        **_told("hf", repeat, prompt, kind), "new_tokens": 6, "target_calls": 5,
        "seconds": {"prefill": 0.1, "decode": 1.0}, "gained_after_prefill": 4 if prompt == 1 else 5,
    }  # fmt: skip


def _told(method: str, repeat: int, prompt: int, kind: str) -> dict[str, Any]:
    text = {"prompt_tokens": 7, "output": f"text-{prompt}"}
    return {"method": method, "repeat": repeat, "prompt": prompt, "kind": kind, **text}


def made_up_runs() -> list[dict[str, Any]]:
    runs = []
    for repeat in range(2):
        for prompt, kind, gained in ((1, "a", [3, 2]), (2, "b", [1, 4, 1])):
            plain = ours("vanilla", repeat, prompt, kind, [1] * sum(gained), 2.0)
            moa = ours("moa", repeat, prompt, kind, gained, 1.0 + repeat)
            if (repeat, prompt) == (1, 2):
                moa["output"] = "another text"
            runs += [plain, moa, peer(repeat, prompt, kind)]
    return runs
