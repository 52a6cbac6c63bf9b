"""The link as a program: started, steered and ended from Python; and the measurement of a link."""

import io
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from moa_core.errors import UserError
from moa_core.link.delays import DOWN, UP
from moa_core.link.measure import BULK, check, measure, modelled, server, through_proxy
from moa_core.link.network import link
from moa_core.link.program import ProxyProgram, answer, main
from moa_core.link.proxy import Proxy

ROOT = Path(__file__).parents[3]
LAN = link("lan")


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[ProxyProgram, int]]:
    with server() as port, ProxyProgram("127.0.0.1", port, LAN) as proxy:
        yield proxy, port


def test_a_link_in_its_own_process_carries_cuts_and_counts(
    running: tuple[ProxyProgram, int],
) -> None:
    proxy, _ = running
    seen = measure("127.0.0.1", proxy.port, 3, 10_000)
    assert len(seen.round_trips) == 3 and min(seen.round_trips) > 0.0004
    assert proxy.traffic()[UP].bytes == 4 * 64 + 5 + 10_000 + 5
    assert proxy.traffic()[DOWN].bytes == 5 * 64 + 8 + 10_000
    log = proxy.log()
    assert {entry.direction for entry in log} == {UP, DOWN}
    newest = max(entry.time + entry.delay for entry in log)
    assert proxy.log(newest) == [] and proxy.now() > newest
    assert not proxy.is_cut
    proxy.cut()
    assert proxy.is_cut
    with socket.create_connection(("127.0.0.1", proxy.port), timeout=0.2) as client:
        client.sendall(bytes(64))
        with pytest.raises(TimeoutError):
            client.recv(1)
        proxy.restore()
        client.settimeout(20)
        assert client.recv(1) and proxy.connections >= 1
    assert not proxy.is_cut


def test_its_settings_can_be_changed(running: tuple[ProxyProgram, int]) -> None:
    proxy, _ = running
    proxy.settings = link("rtt=50")
    assert proxy.settings.rtt_ms == 50
    assert measure("127.0.0.1", proxy.port, 2, 0).median > 0.049
    proxy.settings = LAN


def test_a_taken_port_is_told_in_a_sentence(running: tuple[ProxyProgram, int]) -> None:
    _, port = running
    with pytest.raises(UserError, match="Cannot listen"):
        ProxyProgram("127.0.0.1", 9, LAN, port=port).start()


def test_a_link_that_was_stopped_says_so() -> None:
    proxy = ProxyProgram("127.0.0.1", 9, LAN)
    proxy.start()
    proxy.stop()
    proxy.stop()
    with pytest.raises(RuntimeError, match="not running"):
        proxy.cut()


def test_the_program_ends_with_its_input_or_a_signal() -> None:
    command = [sys.executable, "-m", "moa_core.link.proxy", "--to", "127.0.0.1:9"]
    pipe = subprocess.PIPE
    for way in ("quit", "end", "signal"):
        child = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=ROOT)
        assert child.stdout and json.loads(child.stdout.readline())["port"] > 0
        if way == "signal":
            child.send_signal(signal.SIGINT)
        out, error = child.communicate("quit\n" if way == "quit" else None, timeout=20)
        assert (child.returncode, out, error) == (0, "", "")


def test_commands_that_are_none_change_nothing() -> None:
    with Proxy("127.0.0.1", 9, LAN) as proxy:
        before = answer(proxy, "state")
        for line in (
            "cutt",
            "cut all",
            "restore now",
            "log x",
            "link 6g",
            "link rtt=-1",
            "state 1",
        ):
            assert set(answer(proxy, line)) == {"error"}
        assert {**answer(proxy, "state"), "now": 0} == {**before, "now": 0}
        assert answer(proxy, "cut drop")["is_cut"] and not answer(proxy, "restore")["is_cut"]
        assert answer(proxy, "link 4g")["link"].startswith("rtt=60,")


@pytest.mark.parametrize(
    "arguments",
    [[], ["--to", "nowhere"], ["--to", "a:99999"], ["--to", "a:9", "--link", "6g"]],
)
def test_mistakes_on_the_command_line_are_told(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("error: ") and "error" in json.loads(printed.out)


def test_commands_are_read_from_the_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("cut\n\nlog\nquit\nrestore\n"))
    assert main(["--to", "127.0.0.1:9", "--link", "lan"]) == 0
    first, cut, log = map(json.loads, capsys.readouterr().out.splitlines())
    assert (first["is_cut"], cut["is_cut"], log) == (False, True, {"log": []})


def test_the_model_of_the_measurement_is_that_of_the_link() -> None:
    model = modelled(link("rtt=60,down=9,up=1.5"), 0)
    assert model.median == pytest.approx(0.0604, abs=1e-4) and model.spread < 1e-6
    assert model.up == pytest.approx(BULK * 8e-6 / 1.5 + 0.03, abs=1e-3)
    assert model.down == pytest.approx(BULK * 8e-6 / 9 + 0.03, abs=1e-3)


def test_what_is_measured_is_at_least_what_was_asked() -> None:
    settings = link("rtt=30,jitter=5,down=8,up=4")
    model, seen = modelled(settings, 3, 10, 100_000), through_proxy(settings, 3, 10, 100_000)
    for expected, took in zip(
        [*model.round_trips, model.up, model.down],
        [*seen.round_trips, seen.up, seen.down],
        strict=True,
    ):
        assert expected - 0.001 < took < expected + 1


def test_the_check_prints_what_was_asked_and_measured(capsys: pytest.CaptureFixture[str]) -> None:
    assert check(["lan", "offline"]) == 0
    *_, lan, offline = capsys.readouterr().out.splitlines()
    assert lan.split()[:2] == ["lan", "1.0"] and 0.5 < float(lan.split()[3]) < 100
    assert offline == "offline    nothing came through"
