"""The app and its server as processes: started, killed, measured, and what they wrote."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parents[2]
TOKEN = "soak"
BAD = re.compile(r"Traceback|\bERROR\b|\bCRITICAL\b|never retrieved|Exception in|went wrong")
EVERY = 2.0  # seconds between two samples
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]


def answer(url: str) -> str | None:
    """What an address answers; None if it does not."""
    try:
        with _OPENER.open(url, timeout=5) as found:
            return found.read().decode()
    except (urllib.error.URLError, OSError):
        return None


class Program:
    """One of our commands on a fixed port. Its log goes on over restarts."""

    def __init__(
        self, name: str, url: str, command: list[str], page: str, log: Path, threads: int
    ) -> None:
        """url: where it is used; page: an address that answers when it is up."""
        self.name, self.url, self.log = name, url, log
        self._command, self._page = [sys.executable, *command], page
        self._env = os.environ | {
            "OMP_NUM_THREADS": str(threads), "MOA_TOKEN": TOKEN, "HF_HUB_OFFLINE": "1",
            "MOA_CACHE": str(log.parent / "cache"), "TMPDIR": str(log.parent),
        }  # fmt: skip
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it answers. SystemExit with its log if it never does."""
        with self.log.open("a") as out:
            self.process = subprocess.Popen(
                self._command, cwd=ROOT, env=self._env, stdout=out, stderr=out
            )
        for _ in range(600):
            if answer(self._page) is not None:
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.25)
        raise SystemExit(f"{self.name} did not start:\n{self.log.read_text()[-2000:]}")

    def kill(self) -> None:
        """As `kill -9`."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> None:
        """End it as a person would."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def complaints(self) -> list[str]:
        """Lines of its log that must not be there."""
        lines = self.log.read_text(errors="replace").splitlines()
        return [line.strip() for line in lines if BAD.search(line)]

    def sample(self) -> dict[str, Any] | None:
        """Its memory (resident MB), threads, open files and children now; None if it is gone."""
        try:
            found = psutil.Process(self.process.pid if self.process else 0)
            return {
                "pid": found.pid,
                "mb": round(found.memory_info().rss / 1e6, 1),
                "threads": found.num_threads(),
                "files": found.num_fds(),
                "children": len(found.children(recursive=True)),
            }
        except psutil.Error:
            return None


class Sampler(threading.Thread):
    """Looks at all programs now and then. samples: {"at": seconds, NAME: sample}."""

    def __init__(self, programs: list[Program]) -> None:
        super().__init__(daemon=True)
        self.samples: list[dict[str, Any]] = []
        self._programs, self._began = programs, time.monotonic()
        self._over = threading.Event()

    def run(self) -> None:
        while not self._over.wait(EVERY):
            at = round(time.monotonic() - self._began, 1)
            self.samples.append({"at": at, **{one.name: one.sample() for one in self._programs}})

    def end(self) -> None:
        """Look no more."""
        self._over.set()
        self.join()


def programs(folder: Path, threads: int) -> tuple[Program, Program]:
    """The server, and an app that uses it. Nothing is started yet."""
    far, near = free_port(), free_port()
    address = f"ws://127.0.0.1:{far}"
    serve = ["-m", "moa_core", "serve", "--port", str(far), "--threads", str(threads)]
    served = Program(
        "server", address, serve, f"http://127.0.0.1:{far}/health", folder / "server.log", threads
    )
    url = f"http://127.0.0.1:{near}/"
    app = Program(
        "app", url, ["app.py", "--port", str(near), "--server", address], url,
        folder / "app.log", threads,
    )  # fmt: skip
    return served, app
