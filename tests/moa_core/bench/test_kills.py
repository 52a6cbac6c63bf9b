"""A benchmark that is killed again and again says what one says that never was.

A minute: pytest -m slow tests/moa_core/bench/test_kills.py
"""

import json
from pathlib import Path
from typing import Any

import pytest

from moa_core.bench.run import read_runs
from tests.kills import command, lines, through_kills

pytestmark = pytest.mark.slow
TIMES = {"seconds", "draft_us", "verify_us", "other_us"}
KILLS = 4


def timeless(value: Any) -> Any:
    """A record without what a clock said."""
    if isinstance(value, dict):
        return {key: timeless(one) for key, one in value.items() if key not in TIMES}
    return [timeless(one) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("temperature", ["0", "0.8"])
def test_finished_runs_are_kept_and_the_result_is_an_uninterrupted_ones(
    saved_bundle: Path, tmp_path: Path, temperature: str
) -> None:
    suite = tmp_path / "suite.jsonl"
    rows = [{"kind": "ab"[at % 2], "prompt": f"The fox ran {at} times"} for at in range(10)]
    suite.write_text("\n".join(map(json.dumps, rows)))

    def bench(out: str) -> Any:
        return command(
            "bench", "--suite", str(suite), "--out", str(tmp_path / out), "--methods",
            "vanilla,eagle2,moa-n1,hf-generate", "--repeat", "3", "--max-new-tokens", "48",
            "--device", "cpu", "--ignore-eos", "--temperature", temperature,
            models=saved_bundle,
        )  # fmt: skip

    assert bench("straight")().wait(600) == 0
    log = tmp_path / "killed" / "runs.jsonl"
    at = through_kills(bench("killed"), log, (0, 20), KILLS, seed=int(float(temperature) * 10))
    print(f"killed with {at} of {lines(log)} runs done")
    assert len(read_runs(log)) == lines(log) == 3 * 4 * len(rows)  # none was made twice
    results = [
        json.loads((tmp_path / out / "results.json").read_text()) for out in ("straight", "killed")
    ]
    assert timeless(results[0]["runs"]) == timeless(results[1]["runs"])
    for name, found in results[0]["methods"].items():
        for key in ("tau", "acceptance_by_position", "new_tokens", "target_calls"):
            assert found[key] == results[1]["methods"][name][key], (name, key)
