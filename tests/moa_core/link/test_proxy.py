"""The emulated link between real sockets: every byte once and in order, and a cut that cuts."""

import random
import socket
import threading

import pytest

from moa_core.errors import UserError
from moa_core.link import gate
from moa_core.link.delays import DOWN, UP, Delays
from moa_core.link.network import LinkSettings, link
from moa_core.link.pipes import HELD_BYTES, LEAD_S
from moa_core.link.proxy import Proxy
from tests.moa_core.link.ends import (
    FAST,
    ROUGH,
    WAIT,
    in_thread,
    joined,
    send_in_pieces,
    silent,
    some_bytes,
    take,
    wait_for,
)


@pytest.mark.parametrize("settings", [FAST, ROUGH], ids=str)
def test_every_byte_arrives_once_and_in_order_both_ways(settings: LinkSettings) -> None:
    there, back = some_bytes(400_000, 1), some_bytes(500_000, 2)
    with joined(settings) as ends:
        client, server = ends.pair()
        in_thread(lambda: send_in_pieces(client, there, 3))
        in_thread(lambda: send_in_pieces(server, back, 4))
        assert take(server, len(there)) == there
        assert take(client, len(back)) == back
        traffic = ends.proxy.traffic()
    assert (traffic[UP].bytes, traffic[DOWN].bytes) == (len(there), len(back))
    assert traffic[UP].entered == len(there)
    assert traffic[UP].packets >= len(there) / 1400
    assert (traffic[UP].stalls + traffic[DOWN].stalls > 0) == (settings.loss > 0)


@pytest.mark.parametrize("seed", range(4))
def test_cuts_in_the_middle_lose_and_double_no_byte(seed: int) -> None:
    draw = random.Random(seed)
    there, back = some_bytes(300_000, seed), some_bytes(300_000, seed + 50)
    with joined(link("rtt=10,jitter=3,down=40,up=40"), seed) as ends:
        client, server = ends.pair()
        in_thread(lambda: send_in_pieces(client, there, seed))
        in_thread(lambda: send_in_pieces(server, back, seed))
        got = {UP: bytearray(), DOWN: bytearray()}

        def listen(end: socket.socket, direction: str) -> None:
            while len(got[direction]) < 300_000 and (part := end.recv(1 << 16)):
                got[direction].extend(part)

        listeners = [in_thread(lambda: listen(server, UP)), in_thread(lambda: listen(client, DOWN))]
        for _ in range(6):
            ends.proxy.cut()
            ends.proxy.cut()  # twice in a row is once
            before = ends.proxy.traffic()
            threading.Event().wait(draw.uniform(0, 0.03))
            after = ends.proxy.traffic()
            assert (after[UP].bytes, after[DOWN].bytes) == (before[UP].bytes, before[DOWN].bytes)
            ends.proxy.restore()
            threading.Event().wait(draw.uniform(0, 0.02))
        for thread in listeners:
            thread.join(WAIT)
        (connection,) = ends.proxy._connections
        for direction, counts in ends.proxy.traffic().items():
            assert counts.entered == counts.bytes == 300_000
            assert connection.pipes[direction].delays.position == 300_000
    assert got[UP] == there and got[DOWN] == back


def test_a_cut_stops_bytes_that_are_on_their_way() -> None:
    with joined(link("rtt=400")) as ends:
        client, server = ends.pair()
        client.sendall(b"question")
        server.sendall(b"news")
        while any(counts.entered == 0 for counts in ends.proxy.traffic().values()):
            pass
        ends.proxy.cut()
        assert ends.proxy.is_cut
        assert silent(server, 0.4) and silent(client, 0.1)
        assert all(counts.bytes == 0 for counts in ends.proxy.traffic().values())
        back = ends.proxy.now()
        ends.proxy.restore()
        assert not ends.proxy.is_cut
        assert take(server, 8) == b"question" and take(client, 4) == b"news"
        for entry in ends.proxy.log():  # half a round trip after the return, cut included
            assert entry.time + entry.delay >= back + 0.2 - LEAD_S
            assert entry.delay > 0.5


def test_what_is_written_during_a_cut_comes_after_it() -> None:
    with joined() as ends:
        client, server = ends.pair()
        ends.proxy.cut()
        client.sendall(b"one ")
        server.sendall(b"two")
        assert silent(server) and silent(client)
        client.sendall(b"three")
        ends.proxy.restore()
        assert take(server, 9) == b"one three" and take(client, 3) == b"two"


def test_a_new_connection_in_a_cut_hangs_and_is_made_after_it() -> None:
    with joined() as ends:
        ends.proxy.cut()
        client = ends.connect()
        client.sendall(b"hello")
        ends.listener.settimeout(0.2)
        with pytest.raises(TimeoutError):
            ends.accept()
        assert silent(client)
        ends.listener.settimeout(WAIT)
        ends.proxy.restore()
        server = ends.accept()
        assert take(server, 5) == b"hello"


def test_opening_a_connection_takes_a_round_trip_of_its_own() -> None:
    with joined(link("rtt=100")) as ends:
        before = ends.proxy.now()
        client = ends.connect()
        client.sendall(b"hello")
        assert take(ends.accept(), 5) == b"hello"
        (entry,) = ends.proxy.log()
        assert entry.time + entry.delay >= before + 0.15 - LEAD_S


def test_what_a_cut_took_from_the_line_does_not_keep_it_busy() -> None:
    with joined(link("rtt=0,up=0.08")) as ends:  # 10 kB/s
        client, _ = ends.pair()
        client.sendall(bytes(300_000))
        wait_for(lambda: ends.proxy.traffic()[UP].entered == 300_000)
        ends.proxy.cut(drop=True)
        ends.proxy.restore()
        client = ends.connect()
        client.sendall(b"x")
        assert take(ends.accept(), 1) == b"x"  # else after half a minute


def test_a_cut_that_drops_resets_old_connections_when_the_link_is_back() -> None:
    with joined() as ends:
        client, server = ends.pair()
        ends.proxy.cut(drop=True)
        client.sendall(b"lost")
        late = ends.connect()
        late.sendall(b"kept")
        assert silent(client) and silent(server)
        ends.proxy.restore()
        for end in (client, server):
            with pytest.raises(ConnectionResetError):
                end.recv(1)
        assert take(ends.accept(), 4) == b"kept"


def test_closing_passes_through_a_direction_at_a_time() -> None:
    with joined() as ends:
        client, server = ends.pair()
        client.sendall(b"last words")
        client.shutdown(socket.SHUT_WR)
        assert take(server, 100) == b"last words"
        server.sendall(b"answer")
        server.close()
        assert take(client, 100) == b"answer"
        wait_for(lambda: ends.proxy.connections == 0)


def test_closing_does_not_pass_through_a_cut() -> None:
    with joined() as ends:
        client, server = ends.pair()
        ends.proxy.cut()
        client.close()
        assert silent(server)
        ends.proxy.restore()
        assert server.recv(1) == b""


@pytest.mark.parametrize("vanishing", ["client", "server"])
def test_an_end_that_vanishes_is_seen_by_the_other(vanishing: str) -> None:
    with joined() as ends:
        client, server = ends.pair()
        gone, left = (client, server) if vanishing == "client" else (server, client)
        linger = (1).to_bytes(4, "little") + bytes(4)
        gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        gone.close()  # a reset, as when a machine or a program breaks down
        with pytest.raises(ConnectionResetError):
            left.recv(1)
        wait_for(lambda: ends.proxy.connections == 0)


def test_no_server_is_told_to_the_client() -> None:
    with joined() as ends:
        ends.listener.close()
        client = ends.connect()
        with pytest.raises(ConnectionResetError):
            client.recv(1)


def test_a_client_that_left_before_the_server_was_reached_was_never_there() -> None:
    with joined() as ends:
        ends.proxy.cut()
        client = ends.connect()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, (1).to_bytes(4, "little") + bytes(4))
        client.close()
        wait_for(lambda: ends.proxy.connections == 0)
        ends.proxy.restore()
        ends.listener.settimeout(0.2)
        with pytest.raises(TimeoutError):
            ends.accept()


def test_measured_delays_are_those_of_the_pure_function() -> None:
    settings = link("rtt=30,jitter=10,down=2,up=1,loss=0.1")
    with joined(settings, seed=9) as ends:
        client, server = ends.pair()
        for size in (64, 3000, 1, 1400, 700, 5000):
            client.sendall(bytes(size))
            take(server, size)
            server.sendall(bytes(size))
            take(client, size)
        log = ends.proxy.log()
    for direction in (UP, DOWN):
        model = Delays(settings, 9, direction)
        entries = [entry for entry in log if entry.direction == direction]
        assert sum(entry.bytes for entry in entries) == 10_165
        for entry in entries:
            expected = model(entry.bytes, max(entry.time, settings.rtt_ms / 1000)) - entry.time
            assert expected - LEAD_S <= entry.delay < expected + 1.0


def test_the_line_takes_its_time_in_reality() -> None:
    with joined(link("rtt=0,up=8")) as ends:
        client, server = ends.pair()
        client.sendall(bytes(200_000))
        take(server, 200_000)
        log = ends.proxy.log()
        assert 0.2 - 2 * LEAD_S <= log[-1].time + log[-1].delay - log[0].time < 5


def test_new_settings_hold_for_what_comes_later() -> None:
    with joined() as ends:
        client, server = ends.pair()
        ends.proxy.settings = link("rtt=300")
        client.sendall(b"x")
        server.recv(1)
        assert ends.proxy.log()[-1].delay >= 0.15 - LEAD_S
        ends.proxy.settings = link("offline")
        client.sendall(b"y")
        assert silent(server) and not ends.proxy.is_cut
        ends.proxy.settings = FAST
        assert server.recv(1) == b"y"
        assert ends.proxy.settings is FAST


def test_a_cut_link_does_not_take_bytes_without_end() -> None:
    data = some_bytes(4 * HELD_BYTES, 0)
    with joined(link("rtt=0,down=10000,up=10000")) as ends:
        client, server = ends.pair()
        ends.proxy.cut()
        sender = in_thread(lambda: client.sendall(data))
        sender.join(0.5)
        assert sender.is_alive()  # made to wait
        assert ends.proxy.traffic()[UP].entered < 1.5 * HELD_BYTES
        ends.proxy.restore()
        assert take(server, len(data)) == data


def test_a_receiver_that_does_not_read_stops_the_sender_too() -> None:
    data = some_bytes(4 * HELD_BYTES, 1)
    with joined(link("rtt=0,down=10000,up=10000")) as ends:
        client, server = ends.pair()
        sender = in_thread(lambda: server.sendall(data))
        sender.join(0.5)
        assert sender.is_alive()
        assert take(client, len(data)) == data


def test_connections_share_the_link_and_do_not_mix() -> None:
    with joined(ROUGH) as ends:
        pairs = [ends.pair() for _ in range(8)]
        messages = [some_bytes(20_000, index) for index in range(8)]
        for (client, _), message in zip(pairs, messages, strict=True):
            client.sendall(message)
        for (_, server), message in zip(pairs, messages, strict=True):
            assert take(server, len(message)) == message
        assert ends.proxy.connections == 8


def test_the_log_is_bounded_and_can_be_asked_for_its_newest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gate, "LOG_LENGTH", 5)
    with joined() as ends:
        client, server = ends.pair()
        for _ in range(10):
            client.sendall(b"x")
            server.recv(1)
        log = ends.proxy.log()
        assert len(log) == 5
        middle = log[2].time + log[2].delay
        assert ends.proxy.log(middle) == log[3:]
        assert ends.proxy.now() > log[-1].time


def test_a_taken_port_is_told_in_a_sentence() -> None:
    with (
        joined() as ends,
        pytest.raises(UserError, match="Cannot listen"),
        Proxy("127.0.0.1", 9, FAST, port=ends.proxy.port),
    ):
        pass


def test_stopping_ends_connections_and_leaves_the_figures() -> None:
    with joined() as ends:
        client, server = ends.pair()
        client.sendall(b"abc")
        take(server, 3)
        ends.proxy.stop()
        ends.proxy.stop()
        with pytest.raises(ConnectionResetError):
            client.recv(1)
        assert ends.proxy.traffic()[UP].bytes == 3 and len(ends.proxy.log()) == 1
        with pytest.raises(ConnectionRefusedError):
            ends.connect()
