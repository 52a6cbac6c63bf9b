"""The Benchmarks tab: its charts hold the files' numbers, and filters and uploads change them."""

import csv
import json

import pytest

from moa_core.bench.records import recordings
from tests.browser.conftest import LOOKS, both_themes, keep_picture
from tests.browser.driving import can_be_read, chart, charts_are_named, fits
from tests.demo.made_up import figures, recording

pytestmark = pytest.mark.browser

ADDRESS, READY = "?tab=benchmarks", "#bench-times .js-plotly-plot .main-svg"
OURS = recordings()
FIRST = OURS[0]
SHOWS = """([name, methods]) => {
  const plot = document.querySelector(`#bench-${name} .js-plotly-plot`);
  const found = plot && plot.layout && Object.keys(plot.layout).filter(key => /^yaxis/.test(key))
    .flatMap(key => Array.from(plot.layout[key].categoryarray ?? []));
  return JSON.stringify(found) === JSON.stringify(methods);
}"""


def data(page, name):
    return chart(page, f"bench-{name}")["data"]


def wait_for_rows(page, *methods, chart="tau"):
    """Until a chart has these methods' rows, in its frames' order."""
    page.wait_for_function(SHOWS, arg=[chart, list(methods)])


def upload(page, path):
    with page.expect_file_chooser() as chooser:
        page.click("#bench-upload")
    chooser.value.set_files(path)


def status(page, word):
    line = "#bench-status .status-line"
    page.wait_for_selector(f"{line}:has-text('{word}')")
    return page.inner_text(line)


def test_the_charts_numbers_are_the_files(tab):
    page = tab()
    check_numbers(page)
    check_sources(page)
    check_themes(page)
    width, height, _ = LOOKS[-1]
    page.set_viewport_size({"width": width, "height": height})
    page.wait_for_function(
        "() => document.querySelector('#bench-tau .main-svg').getBoundingClientRect().right < 390"
    )
    check_numbers(page)
    assert fits(page)
    check_themes(page)


def check_themes(page):
    places = (".record-source p", ".record-source summary", ".record-claims p", ".paper .note")
    for _ in both_themes(page):
        assert can_be_read(page, *places)
        keep_picture(page, "benchmarks")


def check_numbers(page):
    """Every number that is drawn is the file's."""
    names = list(FIRST.methods)
    bars, *marks = data(page, "tau")
    assert bars["y"] == names and bars["x"] == [FIRST.figures(name)["tau"] for name in names]
    assert [trace["name"] for trace in marks] == FIRST.kinds
    for trace in marks:
        assert trace["x"] == [FIRST.figures(name, trace["name"])["tau"] for name in trace["y"]]
    words = chart(page, "bench-tau")["words"]
    assert all(f" {tau:.2f}" in words for tau in bars["x"]) and charts_are_named(page)
    for shown, key in (("speed", ""), ("decoding", "decode_")):
        speeds = data(page, shown)[0]["x"]
        assert speeds == [FIRST.figures(name)[f"{key}tokens_per_second"] for name in names]
    [grid] = data(page, "acceptance")
    for name, row in zip(grid["y"], grid["z"], strict=True):
        rates = FIRST.figures(name)["acceptance_by_position"]
        assert row[: len(rates)] == pytest.approx([100 * rate for rate in rates])
    draft, verify, _ = data(page, "times")
    for at, name in enumerate(draft["y"]):
        spent = FIRST.figures(name)["seconds"]
        assert draft["x"][at] / verify["x"][at] == pytest.approx(spent["draft"] / spent["verify"])


def check_sources(page):
    """Each chart says what, when, where and how."""
    for name in ("tau", "speed", "decoding", "acceptance", "times"):
        words = page.inner_text(f"#bench-{name}-source")
        for part in (FIRST.date, FIRST.machine, FIRST.precision, FIRST.commit, "Command"):
            assert part in words
    box = page.locator("#bench-tau-source details").first
    assert not box.locator("pre").is_visible()
    box.locator("summary").focus()
    page.keyboard.press("Enter")
    box.locator("pre").wait_for()
    assert box.locator("pre").inner_text() == FIRST.command
    page.keyboard.press("Enter")


def test_filters_change_what_is_shown(tab):
    page = tab()
    second = OURS[1]
    page.locator("#bench-recordings").get_by_label(second.name).check()
    wait_for_rows(page, *FIRST.methods, *second.methods)
    whiskers = [trace["high"] for trace in data(page, "decoding") if trace["high"]]
    for one, drawn in zip((FIRST, second), whiskers, strict=True):
        found = [one.figures(name) for name in one.methods]
        key = "decode_tokens_per_second"
        assert drawn == pytest.approx([each[f"{key}_spread"][1] - each[key] for each in found])
    for one in (FIRST, second):
        assert one.name in page.inner_text("#bench-claims")
    page.locator("#bench-recordings").get_by_label(FIRST.name).uncheck()
    wait_for_rows(page, *second.methods)
    page.locator("#bench-methods").get_by_label("EAGLE-2", exact=True).uncheck()
    left = [name for name in second.methods if name != "eagle2"]
    wait_for_rows(page, *left)
    kind = second.kinds[1]
    page.locator("#bench-kind").get_by_label(kind).check()
    page.wait_for_function(
        "() => document.querySelector('#bench-tau .js-plotly-plot')?.data?.length === 1"
    )
    [bars] = data(page, "tau")
    assert bars["x"] == [second.figures(name, kind)["tau"] for name in left]
    # Filters that leave nothing get a sentence, and what was shown comes back.
    page.locator("#bench-recordings").get_by_label(second.name).uncheck()
    page.wait_for_selector("#bench-empty:has-text('No recording is chosen')")
    assert page.locator(".js-plotly-plot").count() == 0
    assert not page.locator("#bench-csv").is_visible()
    page.locator("#bench-recordings").get_by_label(second.name).check()
    wait_for_rows(page, *left)
    everything = page.locator("#bench-methods input").first  # the box beside the group's name
    everything.click()
    wait_for_rows(page, *second.methods)
    everything.click()
    page.wait_for_selector("#bench-empty:has-text('No method is chosen')")


def test_a_recording_of_ones_own_stands_beside_ours(tab, tmp_path):
    mine = recording("", "bfloat16", "Loom ${6*7}", moa_n1=figures(3.3, 44.0),
                     **{"<b>odd</b>": figures(2.2, 33.0, kinds=("story", "<i>k</i>"))})  # fmt: skip
    path = tmp_path / "summary.json"
    path.write_text(json.dumps(mine.results), encoding="utf-8")
    page = tab()
    upload(page, path)
    assert "2 methods" in status(page, "Opened Yours: summary")
    wait_for_rows(page, *FIRST.methods, *mine.methods)
    page.locator("#bench-recordings").get_by_label(FIRST.name).uncheck()
    wait_for_rows(page, *mine.methods)
    assert data(page, "tau")[0]["x"] == [3.3, 2.2]
    assert data(page, "speed")[0]["x"] == [44.0, 33.0]
    assert "Loom ${6*7}" in page.inner_text("#bench-tau-source")
    assert "<i>k</i>" in page.inner_text("#bench-tau-source")
    page.click("#bench-precision input")
    page.get_by_role("option", name="float32").click()
    page.wait_for_selector("#bench-empty:has-text('with this precision')")
    page.click("#bench-precision input")
    page.get_by_role("option", name="bfloat16").click()
    wait_for_rows(page, *mine.methods)
    # A wrong file gets a sentence and loses nothing.
    before = data(page, "tau")
    for name, text in (("notes.txt", "hello"), ("odd.json", '{"methods": "<b>none</b>"}')):
        (tmp_path / name).write_text(text, encoding="utf-8")
        upload(page, tmp_path / name)
        assert "summary.json" in status(page, f"{name} is not a benchmark's results".split("'")[0])
    assert data(page, "tau") == before


def test_the_table_comes_as_csv_and_the_papers_stands_apart(tab):
    page = tab()
    assert page.locator("#bench-table").inner_text().count("moa-n1") > 0
    with page.expect_download() as download:
        page.click("#bench-csv")
    assert download.value.suggested_filename == "benchmarks.csv"
    with open(download.value.path(), encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    whole = {row["method"]: row for row in rows if row["kind"] == "all"}
    assert list(whole) == list(FIRST.methods)
    for name, row in whole.items():
        assert float(row["τ"]) == pytest.approx(FIRST.figures(name)["tau"], abs=0.001)
    assert len(rows) == len(FIRST.methods) * (1 + len(FIRST.kinds))
    words = page.inner_text("#bench-paper")
    assert "Not measured here" in words and "2410.03804" in words
    assert page.locator("#bench-paper td:has-text('†')").count() == 3
    places = [page.locator(f"#bench-{name}").bounding_box()["y"] for name in ("table", "paper")]
    assert places == sorted(places)
