"""The emulated link against the kernel's own emulation, on the same traffic.

Two network namespaces of our own, joined by a virtual cable with `tc` at both ends. Needs root and,
but for the first test, a kernel with netem; skipped with the reason where either is missing. The
kernel counts 66 bytes of headers with each packet's 1448, so its lines carry 4.6 % less.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from statistics import median

import pytest

from moa_core.link.measure import Measured, through_proxy
from moa_core.link.network import link

ROOT = Path(__file__).parents[3]
PORT = 9000
SERVER = "10.199.7.2"


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT
    )


@dataclass(frozen=True)
class Cable:
    """Two namespaces; the server's end answers."""

    client: str
    server: str

    def shape(self, *discipline: str) -> None:
        """Put the discipline on what each end sends."""
        for space, device in ((self.client, "moa-c"), (self.server, "moa-s")):
            tried = run(
                "ip", "netns", "exec", space,
                "tc", "qdisc", "replace", "dev", device, "root", *discipline,
            )  # fmt: skip
            if tried.returncode:
                pytest.skip(f"tc cannot set {discipline[0]}: {tried.stderr.strip()}")

    def measure(self, pings: int, bulk: int) -> Measured:
        """The traffic of `moa_core.link.measure` over the cable."""
        command = _python(self.client, "run", f"{SERVER}:{PORT}", str(pings), str(bulk))
        done = run(*command)
        assert done.returncode == 0, done.stderr
        return Measured(**json.loads(done.stdout))


def _python(space: str, *arguments: str) -> list[str]:
    program = [sys.executable, "-m", "moa_core.link.measure", *arguments]
    return ["ip", "netns", "exec", space, *program]


@pytest.fixture(scope="module")
def cable() -> Iterator[Cable]:
    if not shutil.which("ip") or not shutil.which("tc"):
        pytest.skip("there is no ip or no tc here (iproute2)")
    ends = Cable(f"moa-c-{os.getpid()}", f"moa-s-{os.getpid()}")
    try:
        for command in _wiring(ends):
            done = run("ip", *command)
            if done.returncode:
                pytest.skip(f"ip {' '.join(command)}: {done.stderr.strip()}")
        server = subprocess.Popen(
            _python(ends.server, "serve", str(PORT)), stdout=subprocess.PIPE, cwd=ROOT
        )
        try:
            assert server.stdout and server.stdout.readline() == b"ready\n"
            yield ends
        finally:
            server.terminate()
            server.communicate()
    finally:
        run("ip", "netns", "del", ends.client)
        run("ip", "netns", "del", ends.server)


def _wiring(ends: Cable) -> list[list[str]]:
    commands = [["netns", "add", ends.client], ["netns", "add", ends.server]]
    names = ["link", "add", "moa-c", "netns", ends.client, "type", "veth"]
    commands.append([*names, "peer", "name", "moa-s", "netns", ends.server])
    plain = "echo reno > /proc/sys/net/ipv4/tcp_congestion_control"  # the one that all kernels have
    for space, device, address in (
        (ends.client, "moa-c", "10.199.7.1"),
        (ends.server, "moa-s", SERVER),
    ):
        commands.append(["-n", space, "addr", "add", f"{address}/24", "dev", device])
        commands.append(["-n", space, "link", "set", device, "up"])
        commands.append(["netns", "exec", space, "sh", "-c", plain])
    return commands


def both(cable: Cable, spec: str, pings: int, bulk: int) -> tuple[Measured, Measured]:
    """The kernel's and ours; `pytest -s` shows the figures."""
    kernel, ours = cable.measure(pings, bulk), through_proxy(link(spec), 0, pings, bulk)
    for name, seen in (("kernel", kernel), ("proxy", ours)):
        trips = f"trip {seen.median * 1e3:.2f} ms, spread {seen.spread * 1e3:.2f}"
        print(f"\n{spec}: {name:<6} {trips}; up {seen.up:.3f} s, down {seen.down:.3f} s", end="")
    return kernel, ours


def thrice(test: Callable[[Cable], None]) -> Callable[[Cable], None]:
    """Try again where it fails: beside other work, timers are late, the kernel's and ours."""

    @wraps(test)
    def tried(cable: Cable) -> None:
        for last in (False, False, True):
            try:
                return test(cable)
            except AssertionError:
                if last:
                    raise

    return tried


@thrice
def test_rate_is_that_of_the_kernels_token_bucket(cable: Cable) -> None:
    """Bulk within 12 %: headers, and the kernel's first burst."""
    cable.shape("tbf", "rate", "8mbit", "burst", "16kb", "latency", "500ms")
    kernel, ours = both(cable, "rtt=0,down=8,up=8", 5, 500_000)
    for mine, its in ((ours.up, kernel.up), (ours.down, kernel.down)):
        assert its == pytest.approx(0.5, rel=0.12)
        assert mine == pytest.approx(its, rel=0.12)


@thrice
def test_delay_and_jitter_are_netems(cable: Cable) -> None:
    """Median within 4 ms of 40, spread within 40 % of 5.7 ms: 120 trips each, other draws."""
    cable.shape("netem", "delay", "20ms", "4ms", "distribution", "normal")
    kernel, ours = both(cable, "rtt=40,jitter=5.657", 120, 0)
    assert ours.median == pytest.approx(kernel.median, abs=0.004)
    assert ours.spread == pytest.approx(kernel.spread, rel=0.4)


@thrice
def test_a_short_link_is_netems(cable: Cable) -> None:
    """Median within 1 ms of 2."""
    cable.shape("netem", "delay", "1ms")
    kernel, ours = both(cable, "rtt=2", 50, 0)
    assert ours.median == pytest.approx(kernel.median, abs=0.001)


@thrice
def test_delay_and_rate_together_are_netems(cable: Cable) -> None:
    """Bulk within 12 %, on a link too short for TCP's slow start, which ours leaves out."""
    cable.shape("netem", "delay", "5ms", "rate", "8mbit")
    kernel, ours = both(cable, "rtt=10,down=8,up=8", 20, 500_000)
    assert ours.median == pytest.approx(kernel.median, abs=0.002)
    assert ours.up == pytest.approx(kernel.up, rel=0.12)
    assert ours.down == pytest.approx(kernel.down, rel=0.12)


@thrice
def test_losses_stall_as_often_and_about_as_long_as_netems(cable: Cable) -> None:
    """10 % each way: 19 % of trips stall, give or take 15; half of these within 40 % as long."""
    cable.shape("netem", "delay", "10ms", "loss", "10%")
    kernel, ours = both(cable, "rtt=20,loss=0.1", 120, 0)
    stalled = [[trip for trip in seen.round_trips if trip > 0.1] for seen in (kernel, ours)]
    its, mine = (len(trips) / 120 for trips in stalled)
    assert mine == pytest.approx(its, abs=0.15) and mine == pytest.approx(0.19, abs=0.15)
    assert ours.median == pytest.approx(kernel.median, abs=0.002)
    its, mine = (median(trips) for trips in stalled)
    print(f"\nstalled trips: kernel {its * 1e3:.0f} ms, proxy {mine * 1e3:.0f}", end="")
    assert mine == pytest.approx(its, rel=0.4)
