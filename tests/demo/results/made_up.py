"""Recordings that nobody made, with numbers easy to tell apart."""

from moa_core.bench.records import Recording


def figures(tau, rate, spread=0.0, rates=(0.5, 0.25), kinds=("a", "b")):
    """A method's figures; its kinds lie 0.1 and 0.2 above them."""
    found = {
        "tau": tau, "tau_spread": [tau - 0.1, tau + 0.2],
        "tokens_per_second": rate, "tokens_per_second_spread": [rate - spread, rate + spread],
        "decode_tokens_per_second": 1.25 * rate,
        "decode_tokens_per_second_spread": [1.25 * (rate - spread), 1.25 * (rate + spread)],
        "acceptance_by_position": list(rates), "prompts": 10, "target_calls": 110, "speedup": 1.5,
        "seconds": {"prefill": 9.0, "draft": 0.2, "verify": 0.3, "other": 0.1},
        "tree": {"depth": 2, "breadth": 1, "budget": 2},
    }  # fmt: skip
    if kinds:
        found["identical_to_vanilla"] = 1.0
        found["kinds"] = {
            kind: figures(tau + at / 10, rate + at, rates=rates, kinds=())
            for at, kind in enumerate(kinds, 1)
        }
    return found


def recording(name="Made up", dtype="float32", processor="Abacus", **methods):
    """A recording of these methods; underscores stand for hyphens."""
    found = methods or {"vanilla": figures(1.0, 10.0, rates=()), "moa_n1": figures(3.0, 20.0)}
    results = {
        "version": 1, "settings": {"repeat": 1}, "target": {"name": "tiny", "dtype": dtype},
        "machine": {"device": "cpu", "processor": processor, "threads": 2},
        "commit": "abc1234", "date": "2026-11-20T08:00:00+00:00", "command": "python -m there",
        "methods": {key.replace("_", "-"): value for key, value in found.items()},
    }  # fmt: skip
    return Recording(name, results)
