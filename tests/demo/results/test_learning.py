"""The chart of training time: a line for each method, and nothing where nothing was recorded."""

from demo.results.learning import learning_charts, learning_note


def entry(method, updates, seconds, tau):
    return {"method": method, "updates": updates, "seconds": seconds, "tau": tau}


MADE = {
    "command": "python -m moa_core train drafters --data <b>",
    "rows": [
        entry("moa-n1", 50, 20.0, 1.5), entry("moa-n1", 100, 40.0, 2.5),
        entry("eagle2", 50, 10.0, 1.4), entry("eagle2", 100, 20.0, 1.9),
    ],
}  # fmt: skip


def test_each_method_is_a_line_by_updates_and_by_seconds():
    by_updates, by_seconds = learning_charts(MADE)
    assert [list(one.x) for one in by_updates.data] == [[50, 100], [50, 100]]
    assert [list(one.x) for one in by_seconds.data] == [[20.0, 40.0], [10.0, 20.0]]
    assert [list(one.y) for one in by_seconds.data] == [[1.5, 2.5], [1.4, 1.9]]
    assert [one.name for one in by_updates.data] == ["MoA N=1", "EAGLE-2"]
    assert "MoA N=1 2.50 after 100 updates" in by_updates.layout.meta["words"]
    assert "&lt;b&gt;" in learning_note(MADE)
