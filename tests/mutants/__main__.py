"""Break `moa_core` in many ways, one at a time: do the tests of that module notice?

    python -m tests.mutants                     # all of them; 0 if at least 95 % are noticed
    python -m tests.mutants --only bonus,tree   # those with one of these words in name or file
    python -m tests.mutants --list

Works in copies of the tree, in a temporary folder.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue
from time import monotonic

from tests.mutants.mutant import ROOT, Mutant, Stale
from tests.mutants.mutants import MUTANTS
from tests.mutants.runs import LIMIT, Unusable, Verdict, copied, judged, unmutated

ENOUGH = 0.95


def main(
    arguments: Sequence[str] | None = None,
    mutants: Sequence[Mutant] = MUTANTS,
    root: Path = ROOT,
) -> int:
    """The command. Returns 0 if enough mutants were killed, 1 if not, 2 if nothing can be said."""
    options = _parser().parse_args(arguments)
    words = [word for word in options.only.split(",") if word]
    chosen = [
        mutant
        for mutant in mutants
        if not words or any(word in f"{mutant.name} {mutant.path}" for word in words)
    ]
    if options.list:
        print("\n".join(f"{mutant.path:28} {mutant.name}" for mutant in chosen))
        return 0
    try:
        for mutant in chosen:
            mutant.broken(root)
        if not chosen:
            raise Unusable(f"No mutant is called so: {options.only}.")
        return 0 if _report(list(_verdicts(chosen, options.workers, root))) else 1
    except (Stale, SyntaxError, Unusable) as error:
        print(error, file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m tests.mutants", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--only", default="", metavar="WORDS", help="a choice, by commas")
    parser.add_argument("--workers", type=int, default=1, help="copies at work at once (1)")
    parser.add_argument("--list", action="store_true", help="say what there is, and run nothing")
    return parser


def _verdicts(chosen: list[Mutant], workers: int, root: Path) -> Iterator[Verdict]:
    """Each mutant's, as soon as it is known."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as name:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(workers):
            trees.put(copied(Path(name) / str(number), root))

        def judge(mutant: Mutant) -> Verdict:
            tree = trees.get()
            try:
                return judged(tree, mutant)
            finally:
                trees.put(tree)

        _first(Path(name) / "0", chosen)
        with ThreadPoolExecutor(workers) as pool:
            waiting = [pool.submit(judge, mutant) for mutant in chosen]
            try:
                for found in as_completed(waiting):
                    verdict = found.result()
                    print(_line(verdict), flush=True)
                    yield verdict
            finally:
                pool.shutdown(cancel_futures=True)


def _first(tree: Path, chosen: list[Mutant]) -> None:
    """All tests that are asked later must pass as things are."""
    files = sorted({name for mutant in chosen for name in mutant.test_files()})
    began = monotonic()
    unmutated(tree, files, LIMIT * len(files))
    print(f"{len(files)} test files pass unmutated, in {monotonic() - began:.0f} s.", flush=True)


def _line(verdict: Verdict) -> str:
    mutant, outcome = verdict.mutant, verdict.outcome
    ended = f"killed by {outcome.by}" if verdict.killed else "SURVIVED"
    return f"{mutant.path:26} {mutant.name:44} {outcome.seconds:5.1f} s  {ended}"


def _report(verdicts: list[Verdict]) -> bool:
    """The score, and who survived."""
    alive = [verdict for verdict in verdicts if not verdict.killed]
    killed = len(verdicts) - len(alive)
    longest = max(verdict.outcome.seconds for verdict in verdicts)
    print(f"\n{killed} of {len(verdicts)} mutants killed: {killed / len(verdicts):.1%}.")
    print(f"The longest run of tests took {longest:.0f} s.")
    for verdict in alive:
        print(f"Survived: {verdict.mutant.name}, in moa_core/{verdict.mutant.path}")
    return killed >= ENOUGH * len(verdicts)


if __name__ == "__main__":
    sys.exit(main())
