"""Recordings: read from files, described, and compared with the paper's claim."""

import json
import shlex

import pytest

from moa_core.bench.claim import claim, papers_ratios
from moa_core.bench.outputs import write_json
from moa_core.bench.paper import PATH, published
from moa_core.bench.recorded import (
    FOLDER,
    LARGEST,
    MOST,
    Recording,
    ratio,
    read_results,
    recordings,
)
from moa_core.bench.results import figures
from moa_core.errors import UserError
from tests.moa_core.bench.made_up import ABOUT, made_up_runs


@pytest.fixture
def results():
    return {
        "version": 1,
        "suite": "bundled",
        "settings": {"repeat": 2, "limit": 3, "temperature": 0.5, "tree": "4-2-8", "seed": 0},
        "target": {"name": "tiny", "dtype": "bfloat16"},
        "machine": {"device": "cpu", "processor": "Abacus", "cores": 4, "threads": 2},
        "commit": "abc1234",
        "date": "2026-11-20T08:00:00+00:00",
        "methods": figures(made_up_runs(), ABOUT, True),
        "runs": made_up_runs(),
    }


def test_our_own_recordings_can_be_read():
    found = recordings()
    assert {one.name.lower().replace(" ", "-") for one in found} == {
        path.parent.name for path in FOLDER.glob("*/summary.json")
    }
    sizes = [len(one.methods) for one in found]
    assert sizes == sorted(sizes, reverse=True) and min(sizes) > 0
    for one in found:
        assert one.kinds and one.machine and one.precision and one.commit and one.date
        assert one.command.startswith("python -m moa_core bench --methods ")


def test_a_recording_in_words(results):
    one = Recording("Mine", results)
    assert one.machine == "CPU, Abacus, 2 threads of 4 cores"
    assert (one.precision, one.target) == ("bfloat16", "tiny")
    assert (one.date, one.commit) == ("2026-11-20", "abc1234")
    assert one.kinds == ["a", "b"]
    assert one.figures("moa", "b") == results["methods"]["moa"]["kinds"]["b"]
    assert one.figures("nobody") == one.figures("moa", "c") == {}


def test_a_gpu_is_named_by_its_name():
    machine = {"device": "cuda", "gpu": "NVIDIA H100", "processor": "Abacus", "threads": 8}
    assert Recording("", {"machine": machine}).machine == "CUDA, NVIDIA H100"


def test_a_file_that_says_little_says_so():
    one = Recording("", {"methods": {"m": {"tau": 2.0}}})
    assert one.machine == "machine not recorded" and one.date == "date not recorded"
    assert one.commit == "not recorded" and one.precision == "precision not recorded"


def test_the_command_says_what_is_not_usual(results):
    words = shlex.split(Recording("", results).command)
    options = dict(zip(words[4::2], words[5::2], strict=True))
    assert options == {
        "--methods": "vanilla,moa,hf", "--repeat": "2", "--limit": "3", "--temperature": "0.5",
        "--tree": "4-2-8", "--target": "tiny", "--dtype": "bfloat16", "--device": "cpu",
        "--threads": "2", "--out": "FOLDER",
    }  # fmt: skip
    assert not Recording("", results).given
    results["command"] = "python -m moa_core bench --what it was"
    assert Recording("", results).command == Recording("", results).given == results["command"]
    results["command"] = {"not": "words"}
    assert not Recording("", results).given and "--methods" in Recording("", results).command


def test_the_command_is_one_that_the_program_takes(results):
    import argparse

    from moa_core.commands import bench

    parser = argparse.ArgumentParser()
    bench.add_arguments(parser)
    for one in [*recordings(), Recording("", results)]:
        options = parser.parse_args(shlex.split(one.command)[4:])
        assert options.methods.split(",") == list(one.methods)


def test_results_and_summary_are_read_alike(results, tmp_path):
    write_json(results, tmp_path / "results.json")
    write_json({**results, "runs": []}, tmp_path / "summary.json")
    whole, summary = (read_results(tmp_path / f"{name}.json") for name in ("results", "summary"))
    assert whole == summary and whole["runs"] == []
    assert whole["methods"]["moa"]["tau"] == results["methods"]["moa"]["tau"]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("", "no JSON"),
        ("{", "no JSON"),
        ("[" * 100_000, "no JSON"),
        ("[]", "no methods"),
        ('{"version": 1}', "no methods"),
        ('{"version": 1, "methods": []}', "no methods"),
        ('{"version": 2, "methods": {}}', "version is '2'"),
        ('{"version": 1, "methods": {}}', "no method in it has a τ"),
        ('{"version": 1, "methods": {"m": {"tau": "much"}}}', "no method in it has a τ"),
        ('{"version": 1, "methods": {"m": {"tau": NaN}}}', "no method in it has a τ"),
        (
            json.dumps({"version": 1, "methods": {f"m{i}": {"tau": 1} for i in range(MOST + 1)}}),
            "more than",
        ),
    ],
)
def test_another_file_gets_a_sentence(tmp_path, text, word):
    path = tmp_path / "odd.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=r"odd\.json is not a benchmark's results") as told:
        read_results(path)
    assert word in str(told.value)


def test_bytes_and_folders_get_a_sentence_too(tmp_path):
    (tmp_path / "b.json").write_bytes(b"\xff\xfe\x00")
    for path in (tmp_path / "b.json", tmp_path, tmp_path / "none.json"):
        with pytest.raises(UserError, match="no JSON"):
            read_results(path)


def test_a_file_far_too_large_is_not_read(tmp_path):
    with (tmp_path / "big.json").open("wb") as file:
        file.truncate(LARGEST + 1)
    with pytest.raises(UserError, match="larger than"):
        read_results(tmp_path / "big.json")


def test_an_older_file_whose_speed_was_decodings_is_read_as_that(results, tmp_path):
    """It had no decode_tokens_per_second; the whole run's follows from the mean pass's seconds."""
    old = json.loads(json.dumps(results))
    for method in old["methods"].values():
        for part in (method, *method["kinds"].values()):
            for end in ("", "_spread"):
                part[f"tokens_per_second{end}"] = part.pop(f"decode_tokens_per_second{end}")
    write_json(old, tmp_path / "old.json")
    write_json(results, tmp_path / "new.json")
    now = read_results(tmp_path / "old.json")["methods"]
    for name, method in read_results(tmp_path / "new.json")["methods"].items():
        read = now[name]
        for key in ("decode_tokens_per_second", "decode_tokens_per_second_spread", "tau"):
            assert read[key] == method[key]
            assert read["kinds"]["a"][key] == method["kinds"]["a"][key]
        assert "tokens_per_second" not in read["kinds"]["a"]
        spent = sum(method["seconds"].values())
        assert read["tokens_per_second"] == pytest.approx(method["new_tokens"] / spent)
        assert "tokens_per_second_spread" not in read
    plain, moa = now["vanilla"]["tokens_per_second"], now["moa"]["tokens_per_second"]
    assert now["moa"]["speedup"] == pytest.approx(moa / plain)


def test_an_older_file_without_seconds_has_no_speed_of_whole_runs(tmp_path):
    method = {"tau": 2.0, "tokens_per_second": 30.0, "new_tokens": 10, "seconds": {"draft": 1.0}}
    text = json.dumps({"version": 1, "methods": {"moa-n0": method}})
    (tmp_path / "odd.json").write_text(text)
    found = read_results(tmp_path / "odd.json")["methods"]["moa-n0"]
    assert found["tokens_per_second"] is found["speedup"] is None
    assert found["decode_tokens_per_second"] == 30.0


def test_ratio_and_whether_the_spreads_overlap():
    ours = {"tau": 3.0, "tau_spread": [2.8, 3.2]}
    assert ratio(ours, {"tau": 2.0, "tau_spread": [1.9, 2.1]}, "tau").value == 1.5
    assert ratio(ours, {"tau": 2.0, "tau_spread": [1.9, 2.1]}, "tau").overlap is False
    assert ratio(ours, {"tau": 2.9, "tau_spread": [2.7, 3.1]}, "tau").overlap is True
    assert ratio(ours, {"tau": 2.0, "tau_spread": [2.0, 2.0]}, "tau").overlap is None
    assert ratio(ours, {"tau": 2.0}, "tau").overlap is None
    assert ratio(ours, {}, "tau") is None and ratio({}, ours, "tau") is None


def test_the_claim_is_computed_from_the_file():
    methods = {
        "moa-n0": {"tau": 2.0, "tokens_per_second": 30.0, "tokens_per_second_spread": [29, 31]},
        "moa-n1": {"tau": 3.0, "tau_spread": [2.9, 3.1], "tokens_per_second": 20.0},
        "eagle2": {
            "tau": 2.0, "tau_spread": [1.9, 2.1], "tokens_per_second": 20.0,
            "tokens_per_second_spread": [18, 29.5],
        },
    }  # fmt: skip
    said = claim(Recording("", {"methods": methods}))
    first, second = said.split("; ")
    assert "τ of MoA N=1 is 1.50 × EAGLE-2’s" in first and "beyond the recorded spread" in first
    assert "MoA N=0, the fastest MoA here, is 1.50 × EAGLE-2’s" in second
    assert "within the recorded spread" in second
    assert f"the paper: {papers_ratios(published())[0]:.2f} ×" in first
    both = {"decode_tokens_per_second": 10.0, "decode_tokens_per_second_spread": [9, 11]}
    for name in ("moa-n0", "eagle2"):
        methods[name] |= both
        del methods[name]["tokens_per_second_spread"]
    said = claim(Recording("", {"methods": methods}))
    assert (
        "1.50 × EAGLE-2’s (the paper" in said and "recorded without a spread; of decoding" in said
    )
    assert said.endswith("of decoding alone that is 1.00 × EAGLE-2’s, within the recorded spread.")
    del methods["eagle2"]
    assert "nothing to compare" in claim(Recording("", {"methods": methods}))


def test_the_papers_ratios_leave_the_flagged_cells_out():
    table = json.loads(PATH.read_text(encoding="utf-8"))
    tau, speed = papers_ratios(published())
    cells = {row["drafter"]: row["cells"] for row in table["rows"]}
    kept = [0, 1, 3, 4, 5]  # without GSM8K
    ours = sum(cells["MoA, TLI N = 1"][at][1] for at in kept)
    theirs = sum(cells["EAGLE-2, retrained by the authors"][at][1] for at in kept)
    assert tau == pytest.approx(ours / theirs) and round(tau, 2) == 1.25
    assert round(speed, 2) == 1.09
    assert papers_ratios(None) == ()
