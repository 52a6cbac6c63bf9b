"""The tab Layers (TLI), driven as a visitor would."""

from demo.tli.tab import records
from tests.browser.conftest import every_look, keep_picture
from tests.browser.driving import SEEN, can_be_read, chart, open_tab, wait_for_status

FITS = "table => table.getBoundingClientRect().right <= window.innerWidth"
# An old address, whose settings the tab no longer has.
ADDRESS, READY = "?tab=tli&tokens=48&repeats=2&prompt=Hi", "#layers-link a"


def test_the_drawing_follows_the_n_in_focus_beside_what_each_n_gains(page):
    assert page.get_by_role("tab", name="Layers (TLI)").get_attribute("aria-selected") == "true"
    assert page.locator(".status-line[data-kind=error]:visible").count() == 0
    labels = page.locator("#layers-focus label").all_inner_texts()
    assert [words.strip() for words in labels if words.startswith("N")] == ["N = 0", "N = 1"]
    always = 2  # head and embeddings
    borrowed = page.locator("#layers-drawing path.bonus")
    assert borrowed.count() == always + 1  # it opens where N shows
    for tli in (0, 1):  # the trained ones
        page.get_by_label(f"N = {tli}", exact=True).check()
        page.wait_for_selector(f"#layers-drawing svg:has-text('What N = {tli} means')")
        assert borrowed.count() == always + tli
    recorded, sized = (one.methods for one in records())
    page.wait_for_selector("#layers-gains td")
    rows = page.locator("#layers-gains tr").all_inner_texts()
    assert f"{recorded['moa-n0']['tau']:.2f}" in rows[6] and "4.56" in rows[10]
    marked = page.locator("#layers-gains .chosen").all_inner_texts()
    assert marked[0].replace("\u00a0", " ") == "N = 1" and "4.56" in marked
    said = page.inner_text("#layers-about .conclusion").replace("\u00a0", " ")
    assert " × plain decoding’s speed with N = 0, " in said
    bars, _ = chart(page, "layers-speed")
    names = {"moa-n0": "MoA N=0", "moa-n1": "MoA N=1", "moa-n3": "MoA N=3", "vanilla": "Plain"}
    assert bars["y"] == [*names.values()]
    assert bars["x"] == [sized[name]["tokens_per_second"] for name in names]
    assert chart(page, "layers-times")[0]["y"] == bars["y"]
    card = page.request.get(page.locator("#layers-about a").evaluate("one => one.href"))
    assert "How they were trained" in card.text()
    for _ in every_look(page):
        assert can_be_read(
            page, "#layers-about p", "#layers-about a", "#layers-source p", "#layers-gains td",
            "#layers-link a", ".tli-drawing figcaption",
        )  # fmt: skip
        assert page.locator("#layers-gains table").evaluate(FITS)
        keep_picture(page, "tli")


def test_its_link_compares_every_n_on_the_visitors_prompt(page):
    page.set_viewport_size({"width": 1280, "height": 800})
    assert page.evaluate(SEEN, "#layers-link a")  # all of it is on one screen
    open_tab(page, "Live")
    page.fill("#prompt textarea", "Tell me a story.")
    open_tab(page, "Layers (TLI)")
    page.click("#layers-link a")
    wait_for_status(page, "All 12 runs are done.", "compare-")
    bars, _ = chart(page, "compare-tau")
    assert bars["y"] == ["MoA N=0", "MoA N=1", "EAGLE-2", "Plain"]
    assert page.locator("#compare-prompt textarea").input_value() == "Tell me a story."
    page.click("#compare-all > button")
    assert page.inner_text("#compare-table").count("auto, ") == 3  # plain decoding has no tree
