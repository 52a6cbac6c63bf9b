"""Load and faults: visitors use the real app for a while, and nothing may break or leak.

    python -m tests.soak --minutes 15 --visitors 6 --out report.json

Starts the app on the bundled models and a server for its Network tab, as processes; every method
decodes every example once, and somebody uses every tab, that all may be warm. Half of the visitors
(--browsers) sit at Chromiums and use all tabs; the others are programs that call its endpoints. All
of them stop runs, go away amid them, cut links and type what cannot be used, at random by --seed.
In the first sixth the server is killed and started again, --kills times, and then warmed; after the
first third memory is watched. Ends with 1, and says why, if anything but the intended sentences was
said, a line of an error stood in a log, memory grew by more than 5 %, two texts of one prompt
differed, or anybody waited in vain.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import threading
import time
from pathlib import Path
from shutil import copy
from tempfile import TemporaryDirectory

os.environ |= {"GRADIO_ANALYTICS_ENABLED": "0", "HF_HUB_DISABLE_TELEMETRY": "1"}  # loopback only

# isort: split
from tests.soak.callers import Caller
from tests.soak.pages import Guest
from tests.soak.programs import TOKEN, Program, Sampler, answer, programs
from tests.soak.report import grown, printed, report
from tests.soak.tally import Tally
from tests.soak.visitor import PATIENCE, Visitor
from tests.soak.warming import warm_page, warm_server

LAST = 60.0  # seconds for a simple run of each visitor, all at once


def main() -> int:
    """The command. 0 when nothing went wrong."""
    given = _parser().parse_args()
    with TemporaryDirectory(prefix="soak-", ignore_cleanup_errors=True) as folder:
        served, app = programs(Path(folder), given.threads)
        tally = Tally()
        try:
            served.start()
            app.start()
            found = soak(given, served, app, tally)
        finally:
            app.stop()
            served.stop()
        if given.out:
            given.out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
            for one in (served, app):
                copy(one.log, given.out.with_suffix(f".{one.log.name}"))
    print(printed(found))
    return 1 if found["trouble"] else 0


def soak(
    given: argparse.Namespace, served: Program, app: Program, tally: Tally
) -> dict[str, object]:
    """All of it, on programs that run: the report."""
    url = app.url
    Caller(-2, url, tally, given.seed, 1).warm()
    warm_page(url, tally, given.seed)
    tally.began = time.monotonic()
    sampler = Sampler([app, served])
    sampler.start()
    visitors: list[Visitor] = [
        (Guest if number < given.browsers else Caller)(number, url, tally, given.seed, given.most)
        for number in range(given.visitors)
    ]
    for one in visitors:
        one.start()
    seconds = given.minutes * 60
    killed(served, given.kills, seconds / 6, random.Random(given.seed), tally)
    warm_server(served.url, TOKEN)
    _until(tally.began + seconds, visitors)
    sampler.end()
    for one in visitors:
        one.over.set()
    end(visitors, tally)
    alone(url, app, tally, given.seed)
    for program in (served, app):
        tally.trouble += [f"[{program.name}'s log] {line}" for line in program.complaints()]
        if program.process is None or program.process.poll() is not None:
            tally.wrong("it has ended", program.name)
    about = {"command": " ".join(["python -m tests.soak", *sys.argv[1:]]), "seed": given.seed}
    found = report(tally, sampler.samples, about)
    return {**found, "trouble": tally.trouble + grown(found["memory"])}


def killed(served: Program, times: int, within: float, rng: random.Random, tally: Tally) -> None:
    """Kill the server at random moments, and start it again."""
    for at in sorted(rng.uniform(0.1, 1) * within for _ in range(times)):
        time.sleep(max(at - tally.now, 0))
        served.kill()
        tally.did("the server is killed")
        time.sleep(rng.uniform(0, 5))
        served.start()


def _until(when: float, visitors: list[Visitor]) -> None:
    """Wait, but not for visitors who have all ended."""
    while time.monotonic() < when and any(one.is_alive() for one in visitors):
        time.sleep(0.5)


def end(visitors: list[Visitor], tally: Tally) -> None:
    """Every visitor ends what it does, and its last simple run comes soon."""
    by = time.monotonic() + 2 * PATIENCE
    for one in visitors:
        one.join(max(by - time.monotonic(), 1))
        if one.is_alive():
            tally.wrong("still waits", one.name)
    slow = [took for took in tally.waits["the last simple run"] if took > LAST]
    if slow or len(tally.waits["the last simple run"]) < len(visitors):
        tally.wrong(f"last simple runs: {tally.waits['the last simple run']}", "all")


def alone(url: str, app: Program, tally: Tally, seed: int) -> None:
    """When all have gone, nobody may stand in the line, and nothing may be left running."""

    def run() -> None:
        guest = Guest(-1, url, tally, seed, 1)
        guest.come()
        try:
            for words in guest.alone():
                guest.wrong(f"waited, with nobody there: {words}")
        finally:
            guest.go()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(PATIENCE)
    waiting = json.loads(answer(f"{url}gradio_api/queue/status") or "{}").get("queue_size")
    if waiting != 0:
        tally.wrong(f"gradio's queue holds {waiting}", "the end")
    left = app.sample() or {}
    if left.get("children"):
        tally.wrong(f"{left['children']} processes of the app's are left", "the end")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--visitors", type=int, default=6)
    parser.add_argument("--browsers", type=int, default=3, help="of them at a Chromium")
    parser.add_argument("--kills", type=int, default=2, help="of the server, in the first sixth")
    parser.add_argument("--most", type=int, default=2000, help="actions of a visitor")
    parser.add_argument("--threads", type=int, default=2, help="of the app and of the server, each")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="a JSON file for the report; logs beside it")
    return parser


if __name__ == "__main__":
    sys.exit(main())
