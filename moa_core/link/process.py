"""A server in its own process, which ends with this one."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from secrets import token_hex

from moa_core.errors import UserError
from moa_core.link.connection import Address
from moa_core.runtime import ROOT

START_WITHIN = 120.0  # seconds: a large target loads slowly


class ServerProcess:
    """`python -m moa_core serve` on a free port of this machine, with its own token.

    Its error messages go to this process's standard error.

    arguments  other options of the command
    """

    def __init__(self, *arguments: str) -> None:
        self.token = token_hex(12)  # has no leading dash, which would make it an option
        command = [sys.executable, "-m", "moa_core", "serve", "--port", "0", "--with-parent"]
        env = os.environ | {"MOA_TOKEN": self.token}  # not on the visible command line
        path = [str(ROOT), *filter(None, [env.get("PYTHONPATH")])]
        self._process = subprocess.Popen(
            [*command, *arguments], env=env | {"PYTHONPATH": os.pathsep.join(path)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        try:
            self.port = self._started()
        except BaseException:
            self.stop()
            raise

    def _started(self) -> int:
        """Its port. UserError if it does not start."""
        assert self._process.stdout is not None
        alarm = threading.Timer(START_WITHIN, self._process.kill)
        alarm.daemon = True  # after Ctrl-C, this process need not wait for it
        alarm.start()
        line = self._process.stdout.readline()
        alarm.cancel()
        if "ws://" not in line:
            raise UserError("The server did not start: what it printed above says why.")
        return int(line.rsplit(":", 1)[1])

    def address(self) -> Address:
        return Address(f"ws://127.0.0.1:{self.port}", self.token)

    def stop(self) -> None:
        """End it. A second call does nothing."""
        with self._process as process:  # it closes the pipes, and waits
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
