"""The map of links: which drafter, how many times streaming's pace, and where they are even."""

from demo.network_map_chart import latency_map


def cell(method: str, rtt: int, ms: float, clients: int = 1, loss: float = 0, where: str = "link"):
    return {
        "method": method, "where": where, "rtt_ms": rtt, "down_mbps": 9, "up_mbps": 1.5,
        "loss": loss, "clients": clients, "ms_per_token": ms,
    }  # fmt: skip


def pair(rtt: int, best: float, clients: int) -> list[dict]:
    return [
        cell("stream", rtt, 10, clients), cell("moa-n1", rtt, best, clients),
        cell("eagle2", rtt, best + 1, clients), cell("moa-n1", rtt, 1, clients, where="server"),
    ]  # fmt: skip


CELLS = [
    *pair(1, 20, 1), *pair(10, 40, 1), *pair(1, 5, 8), *pair(10, 12, 8),
    cell("stream", 1, 10, loss=0.01), cell("moa-n1", 1, 9.5, loss=0.01),
    cell("stream", 10, 10, loss=0.01), cell("moa-n1", 10, 9.8, loss=0.01),
]  # fmt: skip


def test_the_quickest_drafter_is_held_against_streaming():
    figure = latency_map({"cells": CELLS})
    squares, even = figure.data
    assert list(figure.layout.xaxis.ticktext) == ["1", "10"]
    assert list(figure.layout.yaxis.ticktext) == [
        "1 client<br>9/1.5 Mbit/s",
        "1 client losing 1%<br>9/1.5 Mbit/s",
        "8 clients<br>9/1.5 Mbit/s",
    ]
    assert [list(row) for row in squares.text] == [
        ["2×", "4×"], ["0.95×", "0.98×"], ["0.5×", "1.2×"]
    ]  # fmt: skip
    assert list(squares.z[0]) == [1, 2] and squares.z[2][0] == -1
    assert squares.customdata[0][0][0] == "MoA N=1"
    assert list(even.x) == [-0.5, -0.5, 1.5, 1.5, 0.5, 0.5], "never, always, up to 1 ms"
    assert list(even.y) == [-0.5, 0.5, 0.5, 1.5, 1.5, 2.5]


def test_words_say_where_it_pays():
    words = latency_map({"cells": CELLS}).layout.meta["words"]
    assert "1 client, 9/1.5 Mbit/s: never pays" in words
    assert "8 clients, 9/1.5 Mbit/s: pays up to 1 ms" in words
