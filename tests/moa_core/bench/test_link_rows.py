"""From runs over links to figures, by hand; and files of them that come back as they were."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from moa_core.bench.link_files import head, read, recorded, runs_folder, select, write
from moa_core.bench.link_rows import crowd_rows, rows, scripts
from moa_core.bench.link_scene import Scene
from moa_core.errors import UserError


def run(
    method: str, link: str, gained: list[int], repeat: int = 0, prompt: int = 1, pace: float = 1.0,
    **more: Any,
) -> dict[str, Any]:  # fmt: skip
    """A run in which each cycle takes 60 ms: 10 of drafting, 20 of the server's, 30 on the way."""
    count = len(gained)
    return {
        "method": method, "link": link, "numbers": "bf16", "clients": 1, "repeat": repeat,
        "prompt": prompt, "prompt_tokens": 8, "new_tokens": 1 + sum(gained), "output": "text",
        "connect": 0.2, "first": 0.1, "second": 0.16, "last": 0.1 + 0.06 * count * pace,
        "work": 0.05 + 0.02 * count, "downs": 0,
        "prefill": {
            "server_us": 40_000, "network_us": 60_000, "up": 50, "down": 60, "share_us": 10_000,
            "share_down": 800, "observe_us": 0,
        },
        "cycles": {
            "gained": gained, "draft_us": [9_000] * count, "server_us": [20_000] * count,
            "network_us": [30_000] * count, "other_us": [1_000] * count, "up": [40] * count,
            "down": [300] * count,
        },
        **more,
    }  # fmt: skip


def test_figures_by_hand() -> None:
    records = [
        run("vanilla", "local", [1] * 6, numbers="f32"),
        run("moa-n0", "4g", [3, 3]),
        run("moa-n0", "4g", [3, 3], repeat=1, pace=2.0, first=0.3, last=0.54, output="other"),
        run("eagle2", "4g", [2, 2, 2]),
    ]
    found = rows(records)
    [moa] = select(found, method="moa-n0", link="4g")
    assert moa["ms_per_token"] == pytest.approx(30)  # 20 and 40
    assert moa["ms_per_token_spread"] == pytest.approx([20, 40])
    assert moa["first_ms"] == pytest.approx(200) and moa["connect_ms"] == pytest.approx(200)
    assert moa["tau"] == 3 and moa["calls_per_100"] == pytest.approx(100 / 3)
    assert moa["trips_per_100"] == moa["calls_per_100"]
    assert moa["server_s_per_100"] == pytest.approx(100 * 0.02 / 3)
    assert moa["server_prefill_s"] == pytest.approx(0.05)
    assert moa["up_per_token"] == pytest.approx(40 / 3)
    assert moa["down_per_token"] == pytest.approx(100)
    assert moa["prefill_up"] == 50 and moa["prefill_down"] == 860 and moa["prompt_tokens"] == 8
    assert moa["client_ms_per_token"] == pytest.approx(10 / 3)
    assert moa["network_ms_per_call"] == pytest.approx(30)
    assert moa["runs"] == 2 and moa["downs"] == 0
    assert moa["differing"] == 1 - 1  # the second repeat has no local text to be held against
    assert moa["calls_to_eagle2"] == pytest.approx([2 / 3] * 3)
    [local] = select(found, link="local")
    assert local["trips_per_100"] == 0 and local["client_ms_per_token"] == 0
    assert local["server_s_per_100"] == pytest.approx(100 * 0.03)  # drafting is its work too
    assert local["server_prefill_s"] == pytest.approx(0.05)


def test_another_text_than_the_local_one_is_counted() -> None:
    records = [run("vanilla", "local", [1] * 6), run("moa-n0", "lan", [3, 3], output="other")]
    [moa] = select(rows(records), method="moa-n0")
    assert (moa["differing"], moa["runs"]) == (1, 1)


def test_a_stream_s_pace_begins_with_its_second_token() -> None:
    direct = run("stream", "direct", [1] * 4, second=0.2, last=0.5)
    far = run("stream", "4g", [1] * 4, second=0.4, last=0.7)
    far["cycles"]["server_us"] = [0] * 4  # tokens that waited to be taken
    found = rows([direct, far])
    for row in found:
        assert row["ms_per_token"] == pytest.approx(100)  # 0.3 s for tokens 3, 4 and 5
        assert row["server_s_per_100"] == pytest.approx(2.0)
        assert row["trips_per_100"] == 0 and row["calls_per_100"] == 100


def test_ratios_of_calls_have_a_spread_over_prompts() -> None:
    records = [
        *(run("moa-n0", "lan", [4, 4], prompt=at) for at in range(4)),
        *(run("eagle2", "lan", [2] * (3 + at % 2), prompt=at) for at in range(4)),
    ]
    [moa] = select(rows(records), method="moa-n0")
    value, low, high = moa["calls_to_eagle2"]
    assert value == low == high == pytest.approx(0.5)


def test_clients_at_once() -> None:
    one = {"new_tokens": 11, "first": 0.1, "second": 0.2, "last": 1.1, "downs": 0}
    cell = {"method": "moa-n0", "link": "4g", "numbers": "bf16", "clients": 2, "prompt": 0}
    runs = [{**one, "method": "moa-n0", "differs": at == 0} for at in range(2)]
    records = [
        {**cell, "repeat": repeat, "runs": runs, "work": 0.5, "tokens": 50} for repeat in range(2)
    ]
    [row] = crowd_rows(records)
    assert row["ms_per_token"] == pytest.approx(100) and row["clients"] == 2
    assert row["server_s_per_100"] == pytest.approx(1.0)
    assert (row["runs"], row["differing"]) == (4, 2) and row["first_ms"] == pytest.approx(100)


def test_scripts_are_the_middle_of_the_repeats() -> None:
    records = [run("moa-n0", "direct", [3, 2], repeat=at) for at in range(3)]
    for at, record in enumerate(records):
        record["cycles"]["draft_us"] = [1000 * at, 5000 - at]
    records.append(run("moa-n0", "4g", [3, 2]))
    records.append(run("moa-n0", "direct", [3, 2], numbers="int8"))
    [script] = scripts(records, "bf16")
    assert script["cycles"]["draft_us"] == [1000, 4999] and script["cycles"]["gained"] == [3, 2]
    assert script["tokens"] == 6 and script["prefill"]["share_down"] == 800


def test_scripts_are_of_a_few_prompts() -> None:
    records = [run("moa-n0", "direct", [3], prompt=at) for at in range(30)]
    assert [script["prompt"] for script in scripts(records, "bf16")] == list(range(10))


def test_a_recording_comes_back_as_it_was_written(tmp_path: Path) -> None:
    given = ["bench", "--link", "4g", "--token", "secret", "--out", str(tmp_path / "a.json")]
    facts = head("link", given, ["abc"], machine={"device": "cpu"}, settings={"tree": [5, 4]})
    made = {**facts, "links": {}, "rows": [{"method": "moa-n0", "x": 1 / 3}], "scripts": []}
    path = tmp_path / "new" / "a.json"
    write(made, path)
    back = read(path, "link")
    assert back == {**made, "rows": [{"method": "moa-n0", "x": 0.3333}]}
    assert back["command"] == "python -m moa_core bench --link 4g --out a.json"
    assert "secret" not in path.read_text() and str(tmp_path) not in path.read_text()
    assert list(recorded(path.parent)) == ["a"]
    assert runs_folder(path) == tmp_path / "new" / "a.runs"


ODD: dict[str, Any] = {
    "no JSON": "{",
    "a list": "[]",
    "no kind": "{}",
    "another version": {"kind": "link", "version": 2, "rows": []},
    "another kind": {"kind": "offline", "version": 1, "rows": []},
    "no rows": {"kind": "link", "version": 1, "rows": [1]},
}


@pytest.mark.parametrize("odd", ODD)
def test_what_is_no_recording_is_refused_in_a_sentence(odd: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.json"
    content = ODD[odd]
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(UserError, match="odd"):
        read(path, "link")
    with pytest.raises(UserError, match="nowhere"):
        read(tmp_path / "nowhere.json")


def test_recordings_of_this_program_can_be_read() -> None:
    for name, recording in recorded().items():
        assert recording["command"].startswith("python -m moa_core bench "), name
        assert recording["commit"] and "changes" not in recording["commit"], name


def test_a_recording_of_any_size_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "big.json").write_text("{}" + " " * 2000)
    monkeypatch.setattr("moa_core.bench.link_files.LARGEST", 1000)
    with pytest.raises(UserError, match=r"big\.json is larger than"):
        read(tmp_path / "big.json")


def test_a_server_that_tells_no_metrics_is_named() -> None:
    class Bare(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"other 1\n")

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Bare) as server:
        place = f"127.0.0.1:{server.server_port}"
        scene: Any = SimpleNamespace(url=f"ws://{place}")
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        with pytest.raises(UserError, match=f"{place} has no metric moa_sessions"):
            Scene.metric(scene, "moa_sessions")
        thread.join()
    with pytest.raises(UserError, match=f"{place} does not tell its metrics"):
        Scene.metric(scene, "moa_sessions")
