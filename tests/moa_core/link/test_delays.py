"""The model of a link, without sockets or clocks: determinism, order, and the asked statistics."""

import math
import random
import statistics
from itertools import pairwise

import pytest

from moa_core.errors import UserError
from moa_core.link.delays import DOWN, PACKET, UP, Delays, Line, delays
from moa_core.link.network import PRESETS, LinkSettings, link

ROUGH = link("rtt=40,jitter=30,down=20,up=5,loss=0.05,overload=10")
ONLINE = [settings for settings in PRESETS.values() if not settings.offline]


def traffic(seed: int, count: int = 300) -> list[tuple[int, float]]:
    """Messages of many sizes at growing times."""
    draw, now, messages = random.Random(seed), 0.0, []
    for _ in range(count):
        now += draw.choice([0.0, 0.0001, 0.004, 0.3])
        messages.append((draw.choice([1, 64, 1399, 1400, 1401, 9000]), now))
    return messages


def releases(settings: LinkSettings, seed: int, direction: str = UP) -> list[float]:
    model = delays(settings, seed, direction)
    return [model(size, now) for size, now in traffic(1)]


def round_trips(settings: LinkSettings, count: int = 3000) -> list[float]:
    """ms of small messages back and forth, half a second apart."""
    up, down, now, trips = delays(settings, 0, UP), delays(settings, 0, DOWN), 0.0, []
    for _ in range(count):
        back = down(64, up(64, now))
        trips.append((back - now) * 1000)
        now = back + 0.5
    return trips


@pytest.mark.parametrize("settings", [*ONLINE, ROUGH], ids=str)
def test_the_same_seed_gives_the_same_delays_and_another_one_others(settings: LinkSettings) -> None:
    assert releases(settings, 7) == releases(settings, 7)
    assert releases(settings, 7) != releases(settings, 8)
    if settings.up_mbps == settings.down_mbps:
        assert releases(settings, 7, UP) != releases(settings, 7, DOWN)


@pytest.mark.parametrize("settings", [*ONLINE, ROUGH], ids=str)
def test_nothing_overtakes_and_nothing_comes_out_before_it_went_in(settings: LinkSettings) -> None:
    model, last = delays(settings, 3, DOWN), 0.0
    for size, now in traffic(2):
        for piece in model.pieces(size, now):
            assert piece.release >= last and piece.release > now
            last = piece.release


@pytest.mark.parametrize("seed", range(20))
def test_how_bytes_are_cut_into_reads_makes_no_difference(seed: int) -> None:
    draw = random.Random(seed)
    whole, cut = delays(ROUGH, seed, UP), delays(ROUGH, seed, UP)
    for size, now in traffic(seed, 60):
        expected = whole(size, now)
        while size:
            part = draw.randint(1, size)
            size -= part
            last = cut(part, now)
        assert last == pytest.approx(expected, abs=1e-9)
    assert whole.position == cut.position


def test_a_message_in_two_reads_a_moment_apart_has_one_draw() -> None:
    """The second read comes later than the first, as from a real socket."""
    whole, cut = delays(ROUGH, 5, UP), delays(ROUGH, 5, UP)
    expected = whole(5000, 1.0)
    cut(2001, 1.0)
    assert cut(2999, 1.0009) == pytest.approx(expected, abs=0.001)


@pytest.mark.parametrize(("direction", "mbps"), [(DOWN, 9), (UP, 1.5)])
def test_bytes_take_their_time_on_the_line(direction: str, mbps: float) -> None:
    model = delays(link("rtt=60,down=9,up=1.5"), 0, direction)
    assert model(1_000_000, 2.0) - 2.0 == pytest.approx(8 / mbps + 0.03)


def test_a_later_message_waits_for_an_earlier_one_also_of_another_stream() -> None:
    settings, line = link("rtt=0,up=8"), Line()  # 1 MB/s
    first, second = (Delays(settings, 0, UP, stream, line) for stream in range(2))
    assert first(100_000, 0.0) == pytest.approx(0.1)
    assert first(100_000, 0.05) == pytest.approx(0.2)
    assert second(100_000, 0.05) == pytest.approx(0.3)
    assert second(1000, 1.0) == pytest.approx(1.001)  # idle in between: nothing to wait for


def test_streams_of_one_link_have_draws_of_their_own() -> None:
    shifts = [Delays(link("rtt=60,jitter=15"), 0, UP, stream)(64, 0.0) for stream in range(5)]
    assert len(set(shifts)) == 5


def test_first_bytes_come_out_before_the_last_have_gone_in() -> None:
    pieces = delays(link("rtt=20,up=8"), 0, UP).pieces(14_000, 0.0)
    assert [piece.size for piece in pieces] == [PACKET] * 10
    assert pieces[0].release == pytest.approx(0.01 + 0.0014)
    assert pieces[-1].release == pytest.approx(0.01 + 0.014)


def test_round_trips_have_the_asked_median_and_spread() -> None:
    trips = round_trips(link("rtt=60,jitter=15"))
    assert statistics.median(trips) == pytest.approx(60, abs=1)
    assert statistics.stdev(trips) == pytest.approx(15, rel=0.05)
    assert round_trips(link("rtt=60"), 10) == pytest.approx([60.001] * 10, abs=0.001)


@pytest.mark.parametrize("text", ["busy-wifi,loss=0", "rtt=50,p90=60", "rtt=10,p90=150"])
def test_a_long_tail_has_the_asked_median_and_90th_percentile(text: str) -> None:
    settings = link(text)
    trips = round_trips(settings, 6000)
    assert statistics.median(trips) == pytest.approx(settings.rtt_ms, rel=0.07)
    assert statistics.quantiles(trips, n=10)[8] == pytest.approx(settings.p90_ms, rel=0.1)


def test_lost_packets_are_stalls_of_200_ms_or_a_round_trip() -> None:
    for rtt, stall in ((40, 0.2), (300, 0.3)):
        model = delays(link(f"rtt={rtt},loss=0.1"), 0, DOWN)
        late = [model(64, now) - now - rtt / 2000 for now in range(0, 100_000, 20)]
        stalled = [value for value in late if value > 0.01]
        assert len(stalled) / len(late) == pytest.approx(0.1, rel=0.12)
        once = [value for value in stalled if value == pytest.approx(stall, abs=1e-3)]
        assert len(once) / len(stalled) == pytest.approx(0.9, rel=0.05)
        assert min(set(stalled) - set(once)) == pytest.approx(3 * stall, abs=1e-3)  # lost twice


def test_a_message_of_many_packets_stalls_as_often_as_any_of_them_is_lost() -> None:
    model = delays(link("rtt=40,loss=0.02"), 4, DOWN)
    stalled = [model(10 * PACKET, now) - now > 0.1 for now in range(0, 60_000, 20)]
    assert sum(stalled) / 3000 == pytest.approx(1 - 0.98**10, rel=0.1)


def test_each_request_waits_at_a_busy_servers_door_and_answers_do_not() -> None:
    settings = link("rtt=20,overload=50")
    up, down = delays(settings, 0, UP), delays(settings, 0, DOWN)
    waits = [up(64, now) - now - 0.01 for now in range(0, 20000, 5)]
    assert statistics.mean(waits) == pytest.approx(0.05, rel=0.05)
    assert statistics.median(waits) == pytest.approx(0.05 * math.log(2), rel=0.08)  # exponential
    assert down(64, 0.0) == pytest.approx(0.01, abs=1e-4)


def test_spikes_come_with_their_period_for_both_directions_at_once() -> None:
    settings = link("rtt=50,spike=40,spike-every=15,spike-length=0.2")
    up, down = delays(settings, 6, UP), delays(settings, 6, DOWN)
    times = [step * 0.01 for step in range(6000)]  # a minute
    ups, downs = ([model(1, now) - now for now in times] for model in (up, down))
    assert max(ups) == pytest.approx(0.045, abs=0.002)
    assert ups == pytest.approx(downs, abs=1e-6)
    starts = [i for i in range(1, 6000) if ups[i] - ups[i - 1] > 0.015]
    assert [b - a for a, b in pairwise(starts)] == [1500] * 3
    assert sum(value > 0.026 for value in ups) == pytest.approx(4 * 19, abs=4)


def test_settings_can_change_while_bytes_are_on_the_way() -> None:
    model = delays(link("rtt=400"), 0, UP)
    slow = model(64, 0.0)
    model.settings = link("rtt=2")
    assert model(64, 0.01) == slow  # not before what was sent first
    assert model(64, 1.0) == pytest.approx(1.001, abs=1e-4)


def test_offline_nothing_comes_out_and_nothing_counts_as_sent() -> None:
    model = delays(link("offline"), 0, UP)
    assert model(64, 0.0) == math.inf and model.pieces(64, 0.0) == [] and model.position == 0


def test_what_was_lost_in_a_cut_is_sent_again_with_new_draws() -> None:
    model = delays(link("rtt=60,jitter=15"), 0, UP)
    model(64, 0.0)
    before = model(64, 1.0) - 1.0
    model.resend(64, 5.0)
    again = model(64, 5.0) - 5.0
    assert again != before and again > 0 and model.position == 128


def test_a_direction_is_up_or_down() -> None:
    with pytest.raises(UserError, match="up or down"):
        delays(ROUGH, 0, "sideways")
