"""The emulated link as a program of its own, and how to start and steer one from Python.

Commands, one a line on standard input; each is answered with one line of JSON on standard output:

    cut | cut drop | restore | link SPEC | state | log [SECONDS] | quit

The first line of output says where the link listens. The program ends with its input, if that is a
pipe or a terminal.
"""

from __future__ import annotations

import argparse
import json
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import asdict, astuple
from typing import Any

from moa_core.errors import UserError, first_line
from moa_core.link.gate import Passage, Traffic
from moa_core.link.network import DEFAULT, LinkSettings, link
from moa_core.link.proxy import Proxy


class ProxyProgram:
    """A `Proxy` in a process of its own: exact delays beside whatever computes here.

    It ends with this process. RuntimeError if it has ended by itself.
    """

    def __init__(
        self,
        target_host: str,
        target_port: int,
        settings: LinkSettings,
        seed: int = 0,
        port: int = 0,
    ) -> None:
        self._settings = settings
        self._arguments = [
            "--to", f"{target_host}:{target_port}", "--port", str(port), "--seed", str(seed),
            "--link", settings.spec,
        ]  # fmt: skip
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self.port = port

    def __enter__(self) -> ProxyProgram:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start it. UserError if it cannot listen."""
        command = [sys.executable, "-m", "moa_core.link.proxy", *self._arguments]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_environment()
        )
        try:
            self.port = self._read()["port"]
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End it and every connection through it. Twice is once."""
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return
        try:
            process.communicate(timeout=5)  # closes its input, at which it ends
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()

    def cut(self, drop: bool = False) -> None:
        """As `Proxy.cut`."""
        self._ask("cut drop" if drop else "cut")

    def restore(self) -> None:
        """As `Proxy.restore`."""
        self._ask("restore")

    @property
    def is_cut(self) -> bool:
        """As `Proxy.is_cut`."""
        return bool(self._ask("state")["is_cut"])

    @property
    def settings(self) -> LinkSettings:
        """As `Proxy.settings`."""
        return self._settings

    @settings.setter
    def settings(self, settings: LinkSettings) -> None:
        self._ask(f"link {settings.spec}")
        self._settings = settings

    @property
    def connections(self) -> int:
        """As `Proxy.connections`."""
        return int(self._ask("state")["connections"])

    def traffic(self) -> dict[str, Traffic]:
        """As `Proxy.traffic`."""
        return {name: Traffic(**values) for name, values in self._ask("state")["traffic"].items()}

    def log(self, since: float = 0.0) -> list[Passage]:
        """As `Proxy.log`."""
        return [Passage(*values) for values in self._ask(f"log {since!r}")["log"]]

    def now(self) -> float:
        """As `Proxy.now`."""
        return float(self._ask("state")["now"])

    def _ask(self, command: str) -> dict[str, Any]:
        with self._lock:
            if self._process is None or self._process.stdin is None:
                raise RuntimeError("this link is not running")
            try:
                self._process.stdin.write(command + "\n")
                self._process.stdin.flush()
            except OSError:
                raise RuntimeError("the link's program has ended") from None
            return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process is not None and self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the link's program has ended")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise UserError(answer["error"])
        return answer


def _environment() -> dict[str, str]:
    """So that the child finds this very package."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    before = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([root, before] if before else [root])}


def answer(proxy: Proxy, line: str) -> dict[str, Any]:
    """Do one command and say how things stand. {"error": sentence} for one that is none."""
    verb, _, rest = line.strip().partition(" ")
    try:
        if verb == "log":
            return {"log": [astuple(entry) for entry in proxy.log(float(rest or 0))]}
        if verb == "cut" and rest in ("", "drop"):
            proxy.cut(drop=rest == "drop")
        elif verb == "restore" and not rest:
            proxy.restore()
        elif verb == "link":
            proxy.settings = link(rest)
        elif verb != "state" or rest:
            raise UserError("Commands: cut, cut drop, restore, link SPEC, state, log, quit.")
    except (UserError, ValueError) as error:
        return {"error": first_line(error)}
    return {
        "port": proxy.port,
        "link": proxy.settings.spec,
        "is_cut": proxy.is_cut,
        "connections": proxy.connections,
        "now": proxy.now(),
        "traffic": {name: asdict(counts) for name, counts in proxy.traffic().items()},
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line. 0 when it went well, 2 with one sentence when a person was mistaken."""
    options = _parser().parse_args(arguments)
    try:
        if options.check:
            from moa_core.link.measure import check

            return check(options.links, options.seed)
        proxy = Proxy(*_address(options.to), link(options.link), options.seed, port=options.port)
        proxy.host = options.host
        proxy.start()
    except UserError as error:
        # A program that started this one reads its answers; a person reads the other stream.
        print(json.dumps({"error": first_line(error)}), flush=True)
        print(f"error: {error}", file=sys.stderr)
        return 2
    try:
        _obey(proxy)
    except (KeyboardInterrupt, BrokenPipeError):
        pass
    finally:
        proxy.stop()
    return 0


def _obey(proxy: Proxy) -> None:
    print(json.dumps(answer(proxy, "state")), flush=True)
    for line in sys.stdin:
        if line.strip() == "quit":
            return
        if line.strip():
            print(json.dumps(answer(proxy, line)), flush=True)
    if not _someone_there():
        threading.Event().wait()  # started without input: until a signal


def _someone_there() -> bool:
    mode = os.fstat(sys.stdin.fileno()).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or sys.stdin.isatty()


def _address(text: str | None) -> tuple[str, int]:
    host, _, port = (text or "").rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise UserError(f"Say where the server is: --to HOST:PORT, not {text!r}.")
    return host.strip("[]"), int(port)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m moa_core.link.proxy",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--to", metavar="HOST:PORT", help="the server")
    parser.add_argument("--port", type=int, default=0, help="to listen on; default: a free one")
    parser.add_argument("--host", default="127.0.0.1", help="to listen on; default: %(default)s")
    parser.add_argument("--link", default=DEFAULT, help="a preset, or rtt=60,jitter=15,down=9,up=2")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", action="store_true", help="measure presets, or those named")
    parser.add_argument("links", nargs="*", metavar="LINK", help="with --check: only these")
    return parser
