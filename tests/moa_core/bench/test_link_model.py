"""The model of a run over a link, and of a map of links, against sums done by hand."""

from dataclasses import replace
from typing import Any

import pytest

from moa_core.bench.link_files import select
from moa_core.bench.link_map import LINK, SERVER, Way, break_even, grid, map_of, ways_of
from moa_core.bench.link_model import Cycle, Script, Timing, alone, ms_per_token, together
from moa_core.errors import UserError
from moa_core.link.network import LinkSettings

# 1 Mbit/s: 8 us a byte. Frames add 2 bytes, a client's mask 4; from 126 bytes on 2 more.
SLOW = LinkSettings(rtt_ms=100, down_mbps=1, up_mbps=1)
PREFILL = Cycle(0.0, 0.020, 0.0, 94, 48)
TURN = Cycle(0.005, 0.010, 0.001, 44, 246)
SCRIPT = Script(7, False, PREFILL, 2, 0.004, 996, 0.003, (TURN, TURN))
STREAM = Script(4, True, PREFILL, 0, 0.0, 0, 0.003, (Cycle(0.0, 0.010, 0.0, 0, 48),) * 3)


def test_a_run_over_a_link_takes_what_its_parts_take() -> None:
    [timing] = alone([SCRIPT], SLOW)
    # Up: 100 bytes and half a trip; work; down: 50 bytes and half a trip.
    first = 0.0008 + 0.05 + 0.020 + 0.0004 + 0.05
    assert timing.first == pytest.approx(first)
    # Two shares of 498 bytes in frames of 502 leave at 0.0728 and 0.0748; the second waits for the
    # line, which the first holds for 4.016 ms.
    shares = 0.0708 + 0.002 + 2 * 0.004016 + 0.05
    cycle = 0.005 + 0.0004 + 0.05 + 0.010 + 0.0020 + 0.05 + 0.001
    assert timing.last == pytest.approx(shares + 0.003 + 2 * cycle)
    assert ms_per_token([timing]) == pytest.approx(1e3 * (timing.last - first) / 6)


def test_a_stream_comes_at_the_server_s_pace_however_far_it_is() -> None:
    for trip in (1, 100, 300):
        [timing] = alone([STREAM], replace(SLOW, rtt_ms=trip))
        assert timing.last - timing.first == pytest.approx(3 * 0.010)
    [timing] = alone([STREAM], LinkSettings(rtt_ms=100, down_mbps=0.02, up_mbps=1))
    assert timing.last - timing.first == pytest.approx(3 * 50 * 8e-6 / 0.02)  # the line's pace


def test_one_server_takes_one_request_after_the_other() -> None:
    plain = Script(3, False, Cycle(0, 0.010, 0, 94, 48), 0, 0, 0, 0, (Cycle(0, 0.010, 0, 44, 48),))
    fast = LinkSettings(rtt_ms=0, down_mbps=100_000, up_mbps=100_000)
    both = together([plain], fast, 2, 1)
    # Their prompts arrive together: 10 and 20 ms; then each one's question waits for the other's.
    assert [round(1e3 * timing.first) for timing in both] == [10, 20]
    assert [round(1e3 * timing.last) for timing in both] == [30, 40]
    [one] = together([plain], fast, 1, 1)
    assert one == alone([plain], fast)[0]


def test_a_busy_server_s_clients_share_its_time() -> None:
    script = Script(
        101, False, Cycle(0, 0, 0, 94, 48), 0, 0, 0, 0, (Cycle(0.001, 0.01, 0, 44, 48),) * 100
    )
    fast = LinkSettings(rtt_ms=10)
    for clients, due in ((1, 21), (2, 21), (8, 80)):  # 1 + 10 + 10 of its own; or 8 turns of 10
        assert ms_per_token(together([script], fast, clients, 1)) == pytest.approx(due, rel=0.03)


def recorded(method: str = "moa-n0", link: str = "direct", **more: Any) -> dict[str, Any]:
    cycles = {
        "gained": [3, 1], "draft_us": [4000, 4000], "server_us": [8000, 8000],
        "network_us": [500, 500], "other_us": [100, 100], "up": [100, 100], "down": [900, 300],
    }  # fmt: skip
    prefill = {
        "server_us": 10_000, "network_us": 600, "up": 150, "down": 60,
        "share_us": 3000, "share_down": 4000, "observe_us": 50,
    }  # fmt: skip
    made = {"method": method, "link": link, "numbers": "bf16", "prompt": 1, "prompt_tokens": 33}
    return {**made, "tokens": 5, "prefill": prefill, "cycles": cycles, **more}


def test_a_script_is_what_was_recorded() -> None:
    script = Script.of(recorded())
    assert (script.tokens, script.streams, script.shares) == (5, False, 3)
    assert script.prefill == Cycle(0.0, 0.010, 0.0006, 150, 60)
    assert script.cycles[0] == Cycle(0.0041, 0.008, 0.0005, 100, 900)
    # A server with both models drafts too, and sends the tokens.
    local = Script.of(recorded(link="local"))
    assert local.streams and local.cycles[0].think == 0
    assert local.cycles[0].work == pytest.approx(0.0121) and local.cycles[0].down == 3 * 70
    assert Script.of(recorded("stream")).streams


def way(think: float, work: float, gained: int, streams: bool = False) -> Way:
    cycle = Cycle(think, work, 0.0, 0 if streams else 44, 48)
    script = Script(1 + 50 * gained, streams, PREFILL, 0, 0, 0, 0, (cycle,) * 50)
    return Way("stream" if streams else "moa", LINK, (script,))


def test_where_speculation_stops_paying_by_hand() -> None:
    fast = LinkSettings(down_mbps=100_000, up_mbps=100_000)
    stream = way(0, 0.010, 1, True)
    # (trip + 15) / 4 against 10 ms a token: even at a round trip of 25 ms.
    assert break_even(way(0.005, 0.010, 4), stream, fast) == pytest.approx(25, rel=0.02)
    assert break_even(way(0.031, 0.010, 4), stream, fast) == 0
    slow = way(0, 3.0, 1, True)
    assert break_even(way(0.001, 0.001, 2), slow, fast) is None
    # With 8 clients the stream takes 80 ms a token; (trip + 15) / 4 is 80 at 305 ms.
    assert break_even(way(0.005, 0.010, 4), stream, fast, 8) == pytest.approx(305, rel=0.05)


def recording() -> dict[str, Any]:
    scripts = [
        recorded(), recorded("stream", cycles={**recorded()["cycles"], "gained": [1, 1]}, tokens=3),
        recorded(link="local", numbers="f32"), recorded("vanilla", "local", numbers="f32"),
        recorded(numbers="int8"),
    ]  # fmt: skip
    spec = "rtt=60,down=9,up=1.5"
    usual = {"numbers": "bf16", "clients": 1, "ms_per_token_spread": [30, 50], "first_ms": 80}
    rows = [
        {"method": "moa-n0", "link": spec, "ms_per_token": 40.0, **usual},
        {"method": "moa-n0", "link": spec, "ms_per_token": 1.0, **usual, "numbers": "int8"},
        {"method": "moa-n0", "link": "4g", "ms_per_token": 40.0, **usual, "clients": 2},
        {"method": "moa-n0", "link": "direct", "ms_per_token": 7.0, **usual},
    ]
    links = {name: {"spec": name, "source": ""} for name in (spec, "4g")}
    return {"kind": "link", "links": links, "rows": rows, "scripts": scripts}


def test_a_map_tells_what_was_measured_and_how_far_off_the_model_is() -> None:
    made = map_of([recording()])
    ways = ways_of([recording()])
    assert [(one.method, one.where) for one in ways] == [
        ("moa-n0", LINK), ("stream", LINK), ("moa-n0", SERVER), ("vanilla", SERVER),
    ]  # fmt: skip
    assert len(made["cells"]) == 4 * (36 + 4 * 6)
    with_figures = [cell for cell in made["cells"] if "measured" in cell]
    [cell] = with_figures
    assert (cell["rtt_ms"], cell["down_mbps"], cell["loss"], cell["clients"]) == (60, 9, 0, 1)
    assert cell["measured"]["ms_per_token"] == 40 and cell["where"] == LINK
    steady, crowd = made["checks"]
    assert steady["modelled"] == pytest.approx(cell["ms_per_token"]) and steady["steady"]
    assert steady["error"] == pytest.approx(cell["ms_per_token"] / 40 - 1)
    assert crowd["clients"] == 2 and crowd["link"] == "4g"
    assert [(row["of"], row["count"]) for row in made["errors"]] == [
        ("one client, steady link", 1), ("several clients", 1),
    ]  # fmt: skip
    against = select(made["break_even"], clients=1, down_mbps=9, loss=0)
    assert {(row["against"], row["where"]) for row in against} == {
        ("stream", LINK), ("moa-n0", SERVER),
    }  # fmt: skip
    assert len({(s.down_mbps, s.up_mbps, s.loss, s.rtt_ms) for s in grid()}) == 36


def test_losses_cost_time_and_a_slower_line_too() -> None:
    one = ways_of([recording()])[0]
    steady = LinkSettings(rtt_ms=60, down_mbps=9, up_mbps=1.5)
    pace = one.pace(steady)
    assert one.pace(replace(steady, loss=0.05)) > pace > one.pace(replace(steady, down_mbps=90))


def test_what_cannot_be_reckoned_from_is_refused() -> None:
    with pytest.raises(UserError, match="nothing to reckon"):
        map_of([{**recording(), "scripts": []}])
    with pytest.raises(UserError, match="stream"):
        map_of([{**recording(), "scripts": [recorded()]}])


def test_a_pace_is_of_all_tokens_after_the_first() -> None:
    assert ms_per_token([Timing(1, 2, 11), Timing(1, 1, 1)]) == pytest.approx(100)
