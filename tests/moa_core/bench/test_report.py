"""The benchmark's page: whole, sparse, hostile and self-contained."""

import json
import re
from copy import deepcopy
from html.parser import HTMLParser

import pytest

from moa_core.bench import charts, report
from moa_core.bench.report import verdict, write_report

KINDS = ("stories", "sorting", "sums", "code", "dialogue")
TREE = {"depth": 5, "breadth": 8, "budget": 60}
METHODS = {  # tau, tokens/s, seconds of draft and verify, trainable parameters, TLI
    "vanilla": (1.0, 61.0, 0.0, 192.0, 0, None),
    "eagle2": (2.98, 96.0, 44.0, 76.0, 920_000, None),
    "moa-n0": (3.31, 108.0, 31.0, 71.0, 1_080_000, 0),
    "moa-n1": (3.60, 101.0, 42.0, 68.0, 1_080_000, 1),
    "medusa": (2.21, 98.0, 9.0, 90.0, 790_000, None),
    "glide": (2.84, 93.0, 48.0, 73.0, 990_000, None),
    "independent": (2.40, 70.0, 82.0, 79.0, 1_400_000, None),
    "ngram": (1.72, 104.0, 1.2, 105.0, 0, None),
}


def method(place, name):
    """Figures of one method, as a run would give them."""
    tau, speed, draft, verify, size, tli = METHODS[name]
    rates = [round(0.86**at * (1 - 1 / tau) ** 0.4, 3) for at in range(1, 6)] if tau > 1 else []
    calls = round(12_000 / tau) + 100
    kinds = {
        kind: {
            "tau": tau * scale, "tau_spread": [tau * scale * 0.96, tau * scale * 1.05],
            "tokens_per_second": speed * scale,
            "tokens_per_second_spread": [speed * scale * 0.93, speed * scale * 1.04],
            "acceptance_by_position": rates,
        }
        for kind, scale in zip(KINDS, (0.9, 1.3, 1.1, 1.05, 0.8), strict=True)
    }  # fmt: skip
    metrics = [
        {"updates": 200 * at, "seconds": 170.0 * at, "tau": 1 + (tau - 1) * (1 - 0.62**at)}
        for at in range(1, 9)
    ]
    return {
        "tau": tau, "tau_spread": [tau * 0.97, tau * 1.03], "tokens_per_second": speed,
        "tokens_per_second_spread": [speed * 0.95, speed * 1.04],
        "decode_tokens_per_second": speed * 1.25, "speedup": speed / 61,
        "acceptance_by_position": rates, "trainable_parameters": size, "tli": tli,
        "tree": TREE if tau > 1 else None, "prompts": 100, "new_tokens": 12_100,
        "target_calls": calls,
        "seconds": {"prefill": 3.1, "draft": draft, "verify": verify, "other": 4.0},
        "tau_by_place": [[64 * at, tau * (1 - 0.02 * at), 900 >> at] for at in range(10)],
        "repeats_8gram": 0.031 + place / 1000, "identical_to_vanilla": 1.0,
        "joules_per_token": 0.9 / tau if place % 2 else None,
        "training": {"metrics": metrics, "updates": 1600, "seconds": 1360} if size else None,
        "kinds": kinds,
    }  # fmt: skip


@pytest.fixture
def results():
    return {
        "version": 1, "suite": "bundled",
        "settings": {"repeat": 3, "max_new_tokens": 128, "temperature": 0.0, "tree": TREE},
        "warm_up": "two prompts per method, not counted", "energy": "package energy by RAPL",
        "target": {"name": "tiny-8m", "parameters": 8_130_000, "layers": 12, "dtype": "float32"},
        "machine": {
            "device": "cpu", "processor": "AMD EPYC 9R14", "cores": 8, "threads": 1,
            "platform": "Linux-6.8-x86_64", "python": "3.12.9", "torch": "2.13.0",
            "transformers": "5.23.0",
        },
        "commit": "b4d8802", "date": "2026-11-22T10:15:00+00:00",
        "methods": {name: method(place, name) for place, name in enumerate(METHODS)},
        "runs": [],
    }  # fmt: skip


class Reader(HTMLParser):
    """Tags with their attributes, and the text outside scripts and styles."""

    def __init__(self):
        super().__init__()
        self.tags, self.text, self._silent = [], "", False

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._silent = tag in ("script", "style")

    def handle_endtag(self, tag):
        self._silent = False

    def handle_data(self, data):
        self.text += "" if self._silent else data


def read(results, tmp_path):
    path = tmp_path / "new" / "report.html"
    write_report(results, path)
    reader = Reader()
    reader.page = path.read_text(encoding="utf-8")
    reader.feed(reader.page)
    return reader


def plots(reader):
    return [attrs for tag, attrs in reader.tags if attrs.get("class") == "plotly-graph-div"]


def test_a_full_report_has_every_chart_and_fact(results, tmp_path):
    reader = read(results, tmp_path)
    assert len(plots(reader)) == 8
    for said in ("bundled", "tiny-8m", "8.13 M", "EPYC", "b4d8802", "2026-11-22", *METHODS, "RAPL"):
        assert said in reader.text
    assert "tokens/s of decoding" in reader.text and "135.0" in reader.text  # moa-n0's
    assert "Unmeasured: vanilla, moa-n0, medusa, independent" in reader.text  # joules


def test_the_verdict_is_made_from_the_numbers(results):
    assert verdict(results) == (
        "moa-n0 gains 3.31 tokens per target forward, 1.11 × eagle2’s, and is 1.12 × as fast as "
        "eagle2; it is 1.77 × as fast as plain decoding"
    )
    results["methods"]["eagle2"]["tokens_per_second_spread"] = [90, 104]
    assert "(their spreads overlap)" in verdict(results)
    results["methods"]["ngram"]["tokens_per_second"] = 200
    assert verdict(results).endswith("; the fastest of all is ngram, at 200.0 tokens/s")


def test_a_method_has_one_colour_and_the_results_order(results):
    figures = [charts.acceptance(results), charts.training(results), charts.by_place(results)]
    lines = {line.line.color for chart in figures for line in chart.figure.data
             if line.hovertext[0].startswith("moa-n1<br>")}  # fmt: skip
    [bars] = [bar for bar in charts.by_kind(results, "tau", "", "").figure.data
              if bar.hovertext[0].startswith("moa-n1<br>")]  # fmt: skip
    assert lines == {charts.PALETTE[3]} and bars.marker.color == charts._rgba(*lines, 1.0)
    assert list(charts.target_calls(results).figure.layout.yaxis.ticktext) == list(METHODS)


def test_numbers_that_are_wrong_without_context_are_right(results):
    calls = charts.target_calls(results).figure.data[0]
    assert calls.x[1] == pytest.approx(100 * (round(12_000 / 2.98) + 100) / 12_100)
    places = charts.by_place(results).figure.data[0]
    assert list(places.x) == [64 * at for at in range(8)]  # 900 >> 8 is 3 cycles: left out
    drafts = charts.cycle_times(results).figure.data[0]
    assert drafts.x[1] == pytest.approx(44_000 / sum(900 >> at for at in range(10)))
    del results["methods"]["eagle2"]["tau_by_place"]
    drafts = charts.cycle_times(results).figure.data[0]
    assert drafts.x[1] == pytest.approx(44_000 / round(12_000 / 2.98))
    assert charts.by_kind(results, "tau", "", "").figure.data[1].error_y.array[0] > 0


def test_the_training_curve_may_lie_in_either_place(results):
    before = charts.training(results).figure
    for figures in results["methods"].values():
        if figures["training"]:
            figures["metrics"] = figures["training"].pop("metrics")
    assert charts.training(results).figure == before


def test_nothing_at_all_is_a_page(tmp_path):
    for empty in ({}, {"methods": None}, {"methods": {"peer": None}}):
        reader = read(empty, tmp_path)
        assert not plots(reader) and "unmeasured" in reader.text
        assert "not recorded" in reader.text and 'class="verdict"' not in reader.page


def test_nulls_are_unmeasured_and_never_zero(results, tmp_path):
    peer = dict.fromkeys(results["methods"]["vanilla"]) | {"tokens_per_second": 88.0}
    del results["methods"]["vanilla"], results["energy"]
    results["methods"] = {"llama.cpp": peer}
    results |= {"commit": None, "settings": None, "machine": None}
    reader = read(results, tmp_path)
    assert len(plots(reader)) == 1 and verdict(results) == ""
    [bar] = charts.by_kind(results, "tokens_per_second", "", "").figure.data
    assert list(bar.y) == [88.0] and bar.error_y.array is None
    table = reader.page.split("<tbody>")[1].split("</tbody>")[0]
    assert table.count("unmeasured") >= 8 and not re.search(r"<td>0(\.0+)?\b", table)


@pytest.mark.parametrize("odd", [0, -1, "x", [], {}, True, float("nan"), [None, "a"], {"a": None}])
def test_no_value_of_another_type_breaks_the_page(results, tmp_path, odd):
    whole = results["methods"]["moa-n1"]
    results["methods"] = {
        f"m-{key}": {**deepcopy(whole), key: odd} for key in whole if key != "kinds"
    }
    results["methods"]["kinds"] = {**whole, "kinds": dict.fromkeys(KINDS, odd)}
    top = ("target", "machine", "settings", "energy", "date")
    assert "m-tau" in read({**results, **dict.fromkeys(top, odd)}, tmp_path).text
    assert not plots(read({"methods": odd}, tmp_path))


def test_hostile_names_stay_text(results, tmp_path):
    evil = "<script>alert(1)</script><img src=x onerror=alert(1)>"
    link = "<a href='javascript:alert(1)'>x</a> %{y} {0} </style>"
    figures = results["methods"].pop("moa-n1")
    figures["kinds"] = {evil: figures["kinds"]["sums"], link: figures["kinds"]["code"]}
    results["methods"] |= {evil: figures, link: deepcopy(figures)}
    results |= {"suite": evil, "energy": evil, "commit": link, "settings": {evil: evil}}
    reader = read(results, tmp_path)
    assert evil in reader.text and link in reader.text  # as text
    assert not [tag for tag, _ in reader.tags if tag in ("img", "a")]
    assert not [attrs for _, attrs in reader.tags if any(key.startswith("on") for key in attrs)]
    data = charts.by_kind(results, "tau", "", "").figure.to_json()
    labels = re.findall(r"<[^b>][^>]*>", json.dumps(json.loads(data)))
    assert not labels  # plotly itself is given no markup but its own line breaks


def test_nothing_is_fetched(results, tmp_path):
    reader = read(results, tmp_path)
    for tag, attrs in reader.tags:
        assert tag not in ("link", "iframe", "base", "img")
        assert not attrs.get("src") and not re.match(r"(https?:)?//", attrs.get("href") or "")
    style = report.STYLE.read_text(encoding="utf-8")
    assert "url(" not in style and "@import" not in style
    assert reader.page.count("plotly.js v") == 1  # inlined once


def test_the_papers_table_is_apart_and_without_the_flagged_cells(results, tmp_path, monkeypatch):
    reader = read(results, tmp_path)
    section = reader.page.split('<section class="paper">')[1]
    assert section.count(">†<") == 3 and section.count(" ‡</td>") == 3
    assert "1.83 × / 4.19" in section and section.count("1.83 × / 4.19") == 1
    assert "1.98 × / 4.56" in section and "1.82 × / 3.65" in section  # without GSM8K
    assert "Not measured here" in section and "2410.03804" in section
    monkeypatch.setattr(report, "published", lambda: None)
    assert "published" not in read(results, tmp_path).text


def test_more_methods_than_colours(results, tmp_path):
    whole = results["methods"]["moa-n1"]
    results["methods"] = {f"m{at}": whole for at in range(11)}
    assert "striped" in read(results, tmp_path).page
    line = charts.acceptance(results).figure.data[8].line
    assert (line.color, line.dash) == (charts.PALETTE[0], "dot")
