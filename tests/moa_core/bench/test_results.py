"""Methods and what is counted; figures recomputed by hand; recordings; what the paper claims."""

from typing import Any

import pytest

from moa_core.bench.records import head, read, recorded, write
from moa_core.bench.results import figures, spread, table, tau
from moa_core.errors import UserError
from tests.moa_core.bench.made_up import ABOUT, made_up_runs, ours


@pytest.fixture(scope="module")
def found() -> dict[str, dict[str, Any]]:
    return figures(made_up_runs(), ABOUT, greedy=True)


BY_HAND = {
    "tau": 11 / 5,  # two prompts, gained 3 + 2 and 1 + 4 + 1, twice
    "tau_spread": [2, 2.5],  # over prompts: the one twice, or the other
    # New tokens but the first over draft, verify and other: (5 + 6) / (1.1, then 2.2 seconds).
    "decode_tokens_per_second_spread": [5, 10],
    "decode_tokens_per_second": 7.5,
    # All new tokens over all of it, 0.2 seconds of prefill included.
    "tokens_per_second_spread": [13 / 2.4, 13 / 1.3],
    "tokens_per_second": (13 / 2.4 + 13 / 1.3) / 2,
    "speedup": (1 + 2.4 / 1.3) / 2,  # plain decoding: 13 / 2.4
    "speedup_spread": [1.1 / 0.85, 1.3],  # over prompts, as above; plain decoding: 1.1 and 1.3 s
    "acceptance_by_position": [3 / 5, 2 / 5, 1 / 5],  # drafts accepted: 2, 1, 0, 3, 0
    "seconds": {"prefill": 0.2, "draft": 0.45, "verify": 0.9, "other": 0.3},
    "prompts": 2,
    "new_tokens": 13,
    "target_calls": 7,
    "trainable_parameters": 10,
}


def test_figures_by_hand(found):
    moa = found["moa"]
    for name, figure in BY_HAND.items():
        assert moa[name] == pytest.approx(figure), name
    assert moa["by_prompt"] == [[6, 0.85], [7, 1.0]]
    assert moa["kinds"]["a"]["tau"] == 2.5 and moa["kinds"]["b"]["tau"] == 2
    assert moa["kinds"]["a"]["tau_spread"] == pytest.approx([2.5, 2.5])
    low, high = spread([(0, 1)] * 50 + [(1, 1)] * 50)
    assert 0.38 < low < 0.43 and 0.57 < high < 0.62, "binomial, n = 100, p = 0.5: 0.4 to 0.6"
    assert spread([]) is spread([(1, 0)]) is None and spread([(1, 1), (0, 0)]) == [1, 1]


def test_texts_are_compared_with_plain_decoding_where_greedy(found):
    runs = made_up_runs()
    assert found["moa"]["identical_to_vanilla"] == 0.5  # the second prompt differs in one repeat
    assert found["vanilla"]["identical_to_vanilla"] == 1.0
    assert figures(runs, ABOUT, greedy=False)["moa"]["identical_to_vanilla"] is None
    alone = [record for record in runs if record["method"] == "moa"]
    without = figures(alone, {"moa": {}}, greedy=True)["moa"]
    assert without["identical_to_vanilla"] is None and without["speedup"] is None
    assert without["speedup_spread"] is None


def test_a_peer_has_no_cycles(found):
    hf = found["hf"]
    # 11 tokens after the first forward, of which the prefill is one of 5 calls, in 2 prompts.
    assert (hf["tau"], hf["decode_tokens_per_second"]) == pytest.approx((9 / 8, 9 / 2))
    assert hf["acceptance_by_position"] is None
    assert hf["seconds"] == pytest.approx({"prefill": 0.2, "decode": 2.0})


def test_cycles_are_grouped_by_the_length_of_their_text():
    record = {**ours("moa", 0, 1, "a", [2, 3, 4]), "prompt_tokens": 125}  # from 126, 128, 131 on
    found = figures([record], {"moa": {}}, greedy=True)["moa"]["tau_by_context"]
    assert found == {"0": [2, 1], "128": [3.5, 2], "256": None, "512": None, "1024": None}


def test_a_text_that_ends_at_once_has_no_tau():
    record = ours("moa", 0, 1, "a", [])
    found = figures([record], {"moa": {}}, greedy=True)["moa"]
    assert found["tau"] is None and found["tau_spread"] is None
    assert found["decode_tokens_per_second"] is None and tau([]) is None
    assert found["tokens_per_second"] == pytest.approx(1 / 0.1)  # the prefill's own token
    assert "moa" in table({"moa": {**found, "tree": None}})


def test_a_recording_comes_back_as_written_and_a_damaged_one_is_refused(tmp_path):
    given = ["bench", "--link", "4g", "--out", str(tmp_path / "a.json")]
    facts = head("link", given, commit="abc", machine={"device": "cpu"}, settings={"tree": [5, 4]})
    made = {**facts, "links": {}, "rows": [{"method": "moa-n0", "x": 1 / 3}]}
    path = tmp_path / "new" / "a.json"
    write(made, path)
    assert read(path) == {**made, "rows": [{"method": "moa-n0", "x": 0.333333}]}
    assert made["command"] == "python -m moa_core bench --link 4g --out a.json"
    assert str(tmp_path) not in path.read_text()
    assert list(recorded(path.parent)) == ["a"]
    path.write_text("{")  # damaged
    for one in (path, tmp_path / "nowhere" / "a.json"):
        with pytest.raises(UserError, match=r"a\.json"):
            read(one)
