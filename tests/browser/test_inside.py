"""The tab Inside a cycle, driven as a visitor would."""

import pytest

from demo.common.controls import NEW_TOKENS
from moa_core.decoding.decode import Settings, decode
from moa_core.decoding.trace import Drafted, Trace, Verified
from moa_core.decoding.tree import TreeSettings
from moa_core.loading.load import load_drafter, load_target
from moa_core.text import prompt_ids
from tests.browser.conftest import HOSTILE, LOOKS, TREE, every_look, keep_picture, visitor
from tests.browser.driving import (
    can_be_read,
    chart,
    charts_are_named,
    contrast,
    fits,
    open_tab,
    run,
    settings,
)

pytestmark = pytest.mark.browser

NAME = "Inside a cycle"
PROMPT = "${6*7} <b>x</b> {{x}} `y` <script>alert(1)</script>"
# The top row, left to right, of every cycle: what the tree says was kept.
PATHS = """async () => {
  const slider = document.querySelector('.inside-view input[type=range]');
  const found = [];
  for (let cycle = 1; cycle <= Number(slider.max); cycle += 1) {
    slider.value = cycle;
    slider.dispatchEvent(new Event('input'));
    const kept = [...document.querySelectorAll('.inside-view > .tree .node:is(.accepted, .bonus)')];
    const left = node => node.getBoundingClientRect().left;
    kept.sort((one, other) => left(one) - left(other));
    const top = new Set(kept.map(node => node.getBoundingClientRect().top));
    found.push({
      tokens: kept.map(node => node.querySelector('text').textContent),
      kinds: kept.map(node => node.classList[1]),
      rows: top.size,
      root: document.querySelector('.inside-view > .tree .node.root text').textContent,
      sentence: document.querySelector('.inside-view .sentence').textContent,
    });
  }
  return found;
}"""


def run_live(page, prompt=PROMPT):
    """Run a prompt on Live, its trees of one size, then open the tab; returns Live's text."""
    if not page.locator("#depth").is_visible():
        settings(page, **TREE)
        tli = page.get_by_role("slider", name="TLI")
        if tli.is_enabled():
            tli.fill("1")
    text = run(page, prompt)
    open_tab(page, NAME)
    page.wait_for_selector(".inside-view > .tree .node")
    return text


def drawn(page, name):
    """(heat map's rows, bars) of a chart of attention."""
    bars, heat = chart(page, f"inside-{name}-chart")["data"]
    return heat["z"], bars["y"]


def cycle(page):
    """Which cycle is shown, from 0."""
    return int(page.get_attribute(".inside-view", "data-cycle"))


def show(page, place):
    """Move to a cycle, from 0."""
    page.get_by_role("slider", name="Cycle").fill(str(place + 1))
    assert cycle(page) == place


def look_inside(page):
    page.click("#inside-look")
    for name in ("layers", "text"):
        chart(page, f"inside-{name}-chart")


@pytest.fixture(scope="module")
def recorded(bundle):
    """The same run in this process: its trace, target and drafter."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOA_MODELS", str(bundle))  # bundled drafters draft in int8, as on the page
        target = load_target("tiny")
        drafter = load_drafter("moa-n1", target)
    settings = Settings(NEW_TOKENS, TreeSettings(**TREE), eos_ids=target.eos_ids)
    trace = Trace()
    for _ in trace.record(decode(target, drafter, prompt_ids(target.tokenizer, PROMPT), settings)):
        pass
    return trace, target, drafter


@pytest.fixture(scope="module")
def shared(window, app, warm):
    """A page with a run, open on this tab; each test moves to the cycle that it is about."""
    with visitor(window, app) as opened:
        page = opened("?pace=full", ready="#run:not([disabled])")
        run_live(page)
        yield page


def spaced(text):
    """Text as tokens are labelled in the tree."""
    return text.replace(" ", "␣").replace("\n", "↵")


def test_the_kept_paths_of_all_trees_are_the_text(open_page, recorded):
    page = open_page("?pace=full", LOOKS[-1], "#run:not([disabled])")
    text = run_live(page)
    trace, target, _ = recorded
    paths = page.evaluate(PATHS)
    assert len(paths) == len(trace.of(Verified))
    for path, drafted, verified in zip(paths, trace.of(Drafted), trace.of(Verified), strict=True):
        kept = [*(drafted.tree.tokens[node] for node in verified.path), verified.bonus]
        assert path["tokens"] == [spaced(target.tokenizer.decode([token])) for token in kept]
        assert path["kinds"] == ["accepted"] * len(verified.path) + ["bonus"]
        assert path["rows"] == 1 and f": {verified.gained} token" in path["sentence"]
    whole = paths[0]["root"] + "".join(token for path in paths for token in path["tokens"])
    assert whole.startswith(spaced(text)) and len(text) > 300  # the last cycle may be cut
    for word in HOSTILE:
        assert word in whole, word
    assert page.locator(".inside-view :is(.text, .sentence, .tree) :is(b, script)").count() == 0
    assert fits(page)
    show(page, next(place for place, found in enumerate(trace.of(Verified)) if found.path))
    look_inside(page)
    rows, bars = drawn(page, "layers")
    for row in rows:
        assert sum(row) == pytest.approx(1, abs=1e-4)
    assert sum(bars) == pytest.approx(1, abs=1e-4)
    assert charts_are_named(page)
    for _ in every_look(page):
        check_contrast(page)
        keep_picture(page, "inside")


def check_contrast(page):
    """Marks, nodes and words stand out from their grounds."""
    page.wait_for_selector(".inside-view > .tree .node.rejected")
    for kind in ("accepted", "rejected", "bonus", "root"):
        place = f".inside-view > .tree .node.{kind}"
        ground = f"{place} rect"
        assert contrast(page, f"{place} text", ground) >= 4.5, kind
        if kind != "root":
            assert contrast(page, f"{place} .number", ground) >= 4.5, kind
        assert contrast(page, f".inside-view .legend .{kind} .mark") >= 4.5, kind
    words = (".sentence", ".hint", ".text .asked")
    assert can_be_read(page, *(f".inside-view {place}" for place in words))


def test_a_first_visitor_sees_the_recorded_run(open_page):
    page = open_page("?tab=inside")
    page.wait_for_selector(".inside-view > .tree .node.bonus")
    for kind in ("accepted", "rejected", "bonus"):  # a cycle that has all there is to see
        assert page.locator(f".inside-view > .tree .node.{kind}").count(), kind
    last = int(page.get_by_role("slider", name="Cycle").get_attribute("max")) - 1
    for place in (0, 11, last):  # and EAGLE-2's cycle at the same place of the text
        show(page, place)
        said = page.inner_text(".inside-view .rival .sentence")
        assert said.startswith("EAGLE-2 at the same place")
        roots = page.locator(".inside-view .node.root text").all_text_contents()
        assert len(roots) == 2 and (roots[0] == roots[1] or "begun" in said)


def test_slider_keys_and_buttons_move_without_asking_the_server(shared):
    page, asked = shared, []
    show(page, 0)
    page.on("request", lambda request: asked.append(request.url))
    slider, root = page.get_by_role("slider", name="Cycle"), ".inside-view > .tree .node.root text"
    last = int(slider.get_attribute("max")) - 1
    slider.focus()
    roots = [page.text_content(root)]
    for step in range(1, 5):
        page.keyboard.press("ArrowRight")
        assert cycle(page) == step
        roots.append(page.text_content(root))
    page.keyboard.press("ArrowLeft")
    assert cycle(page) == 3 and page.text_content(root) == roots[3]
    page.keyboard.press("End")
    assert cycle(page) == last and f"Cycle {last + 1} of {last + 1}" in count(page)
    page.keyboard.press("Home")
    page.get_by_role("button", name="Next cycle").click()
    assert cycle(page) == 1 and page.text_content(root) == roots[1]
    page.get_by_role("button", name="Next cycle").press("Enter")
    assert cycle(page) == 2 and slider.get_attribute("aria-valuetext").startswith("Cycle 3: ")
    page.get_by_role("button", name="Previous cycle").click()
    assert cycle(page) == 1
    assert asked == []


def count(page):
    return page.inner_text(".inside-view .count")


def test_pointing_at_a_node_tells_what_drafter_and_target_gave_it(shared, recorded):
    page, (trace, target, _) = shared, recorded
    place, node = next(
        (place, node)
        for place, found in enumerate(trace.of(Verified))
        for node in range(1, len(trace.of(Drafted)[place].tree))
        if node not in found.path
    )
    drafted, verified = trace.of(Drafted)[place], trace.of(Verified)[place]
    show(page, place)
    box = page.locator(f".inside-view > .tree .node[data-index='{node}']")
    box.hover()
    tip = page.locator(".inside-view .tip")
    said = tip.inner_text()
    assert "rejected draft: the target " in said and "drafter, whole path" in said
    for value in (drafted.tree.draft_prob(node), verified.draft_probs[node]):
        assert f"{100 * value:.1f} %" in said or "< 0.1 %" in said
    choice = target.tokenizer.decode([verified.choices[node]])
    named = "part of a character" if choice == "\ufffd" else f"“{choice}”"
    assert f"{named} {100 * verified.choice_probs[node]:.1f} %" in said
    assert box.get_attribute("aria-label").startswith("“")
    page.mouse.move(0, 0)
    assert tip.is_hidden()


def test_arrow_keys_move_between_nodes_of_the_tree(shared, recorded):
    page, (trace, *_) = shared, recorded
    place = next(at for at, found in enumerate(trace.of(Verified)) if not found.path)
    show(page, place)
    page.locator(".inside-view > .tree .node.root").focus()
    tip = page.locator(".inside-view .tip")
    assert "the newest token" in tip.inner_text()
    page.keyboard.press("ArrowRight")
    name = "document.activeElement.getAttribute('aria-label')"
    assert "bonus" in page.evaluate(name) and cycle(page) == place
    page.keyboard.press("ArrowDown")
    assert "rejected draft" in page.evaluate(name) and "; level 1;" in page.evaluate(name)
    assert "rejected draft" in tip.inner_text()
    page.keyboard.press("Escape")
    assert tip.is_hidden()
    page.keyboard.press("ArrowLeft")
    assert "the newest token" in page.evaluate(name)


def test_other_methods_have_no_lsa_and_their_trees_are_drawn(page):
    page.locator("#method").get_by_label("EAGLE-2").check()
    run_live(page)
    page.wait_for_selector("#inside-about:has-text('drafted by EAGLE-2')")
    assert page.locator("#inside-look").is_hidden()
    open_tab(page, "Live")
    page.locator("#method").get_by_label("Plain").check()
    run_live(page)
    page.wait_for_selector("#inside-about:has-text('drafted by Plain')")
    assert page.inner_text(".inside-view .sentence").startswith("Plain: Nothing was drafted")
    assert page.locator(".inside-view > .tree .node").count() == 2
