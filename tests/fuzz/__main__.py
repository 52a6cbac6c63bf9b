"""Throws changed messages and files at what reads them, and counts what comes of it.

    pip install atheris==3.0.0
    python -m tests.fuzz wire --seconds 600            # or trace, or checkpoint

A finding is any exception but the intended one (the protocol's error, UserError), an input that
takes more than `LARGEST` of memory, or more than two minutes. Each is printed once, with its input
in hexadecimal. The corpus is made by code when this starts, and thrown away when it ends.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
from collections import deque
from pathlib import Path

NAMES = ("wire", "trace", "checkpoint")
DONE = re.compile(r"#(\d+)\s+DONE\s+cov: (\d+) ft: (\d+)")


def main() -> int:
    """0 if there were no findings, 1 if there were, 2 where it cannot run."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if importlib.util.find_spec("atheris") is None:
        print(
            "Fuzzing needs atheris, which this Python does not have: pip install atheris==3.0.0 "
            "(wheels for Python 3.11 to 3.13 on Linux).",
            file=sys.stderr,
        )
        return 2
    with tempfile.TemporaryDirectory(prefix="moa-fuzz-") as folder:
        return _run(options, Path(folder))


def _run(options: argparse.Namespace, folder: Path) -> int:
    """Fuzz in a process of its own: libFuzzer ends it without coming back."""
    command = [
        sys.executable, "-m", "tests.fuzz.one", options.name, str(folder),
        f"-max_total_time={options.seconds}", f"-seed={options.seed}", "-max_len=20000",
        "-timeout=120", "-rss_limit_mb=4096", f"-artifact_prefix={folder}/", "-print_final_stats=1",
    ]  # fmt: skip
    env = {**os.environ, "OMP_NUM_THREADS": "1", "TRANSFORMERS_VERBOSITY": "critical"}
    with subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace",
    ) as process:  # fmt: skip
        assert process.stdout is not None
        findings, said = 0, None
        last: deque[str] = deque(maxlen=20)
        for line in process.stdout:
            last.append(line)
            if line.startswith(("FINDING", "==")):
                findings += 1
                print(line.rstrip(), flush=True)
            if found := DONE.search(line):
                said = found
    for path in folder.glob("*-*"):  # what libFuzzer itself stopped at
        print(f"FINDING {path.name}: {path.read_bytes().hex()}")
    if said is None:
        print("".join(last))
        print(f"{options.name}: ended with {process.returncode} before its time")
        return 1
    executions, coverage, features = map(int, said.groups())
    print(
        f"{options.name}: {executions:,} executions in {options.seconds} s, {coverage:,} edges and "
        f"{features:,} features covered, {findings} findings"
    )
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
