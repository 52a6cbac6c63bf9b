"""A server in its own process, which ends with this one."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from secrets import token_hex
from typing import cast

from moa_core.errors import UserError
from moa_core.link.connection import Address

ROOT = Path(__file__).parents[2]
START_WITHIN = 120.0  # seconds: a large target loads slowly
LAST_WORDS = 200  # lines of its log


class ServerProcess:
    """`python -m moa_core serve` on a free port of this machine, with its own token.

    arguments  other options of the command
    """

    def __init__(self, *arguments: str) -> None:
        self.token = token_hex(12)  # has no leading dash, which would make it an option
        command = [sys.executable, "-m", "moa_core", "serve", "--port", "0", "--with-parent"]
        env = os.environ | {"MOA_TOKEN": self.token}  # not on the visible command line
        path = [str(ROOT), *filter(None, [env.get("PYTHONPATH")])]
        self._process = subprocess.Popen(
            [*command, *arguments], env=env | {"PYTHONPATH": os.pathsep.join(path)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self._said: deque[str] = deque(maxlen=LAST_WORDS)
        log = cast(Iterable[str], self._process.stderr)
        self._reader = threading.Thread(target=self._said.extend, args=(log,), daemon=True)
        self._reader.start()
        try:
            self.port = self._started()
        except BaseException:
            self.stop()
            raise

    def _started(self) -> int:
        """Its port. UserError with its last words if it does not start."""
        assert self._process.stdout is not None
        alarm = threading.Timer(START_WITHIN, self._process.kill)
        alarm.start()
        line = self._process.stdout.readline()
        alarm.cancel()
        if "ws://" not in line:
            self._process.kill()
            self._reader.join(5)
            words = self.last_words.removeprefix("error: ") or "without a word"
            raise UserError(f"The server did not start: {words}")
        return int(line.rsplit(":", 1)[1])

    @property
    def last_words(self) -> str:
        """The last line of its log; "" if there is none."""
        said = [line for line in map(str.strip, self._said.copy()) if line]
        return said[-1] if said else ""

    @property
    def pid(self) -> int:
        return self._process.pid

    def address(self) -> Address:
        return Address(f"ws://127.0.0.1:{self.port}", self.token)

    def stop(self) -> None:
        """End it. A second call does nothing."""
        with self._process as process:  # it closes the pipes
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            self._reader.join(5)

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
