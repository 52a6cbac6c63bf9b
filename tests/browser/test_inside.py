"""The tab Inside a cycle, driven as a visitor would."""

import re

import pytest

from moa_core.decoding.trace import Drafted, Trace, Verified
from moa_core.text import RecordedText
from tests.browser.conftest import HOSTILE, TREE, every_look, keep_picture
from tests.browser.driving import (
    RUN,
    SCROLLS,
    can_be_read,
    chart,
    charts_are_named,
    choose,
    contrast,
    open_tab,
    run,
    saved,
    settings,
)

ADDRESS, READY = "?tab=inside", ".inside-view .own .node.bonus"
PROMPT = "${6*7} <b>x</b> {{x}} `y` <script>alert(1)</script>"
NODE = ".inside-view .own .node"
# The top row, left to right, of every cycle: what the tree says was kept.
PATHS = """async () => {
  const slider = document.querySelector('.inside-view input[type=range]');
  const found = [];
  for (let cycle = 1; cycle <= Number(slider.max); cycle += 1) {
    slider.value = cycle;
    slider.dispatchEvent(new Event('input'));
    const kept = [...document.querySelectorAll('.inside-view .own .node:is(.accepted, .bonus)')];
    const left = node => node.getBoundingClientRect().left;
    kept.sort((one, other) => left(one) - left(other));
    const top = new Set(kept.map(node => node.getBoundingClientRect().top));
    found.push({
      tokens: kept.map(node => node.querySelector('text').textContent),
      kinds: kept.map(node => node.classList[1]),
      rows: top.size,
      root: document.querySelector('.inside-view .own .node.root text').textContent,
      sentence: document.querySelector('.inside-view .sentence').textContent,
      claim: document.querySelector('.inside-view .conclusion').textContent,
    });
  }
  return found;
}"""
# How many nodes the tip hides.
HIDDEN = """() => {
  const box = (one) => one.getBoundingClientRect();
  const tip = box(document.querySelector('.inside-view .tip'));
  return [...document.querySelectorAll('.inside-view .own .node')].map(box).filter((node) =>
    node.left < tip.right && node.right > tip.left && node.top < tip.bottom && node.bottom > tip.top
  ).length;
}"""


def run_live(page):
    """Run a prompt on Live, then open the tab again; returns Live's text."""
    before = page.get_attribute(".inside-view", "data-run")
    text = run(page, PROMPT)
    open_tab(page, "Inside a cycle")
    page.wait_for_selector(f".inside-view:not([data-run='{before}'])")
    return text


def cycle(page):
    return int(page.get_attribute(".inside-view", "data-cycle"))


def show(page, place):
    page.get_by_role("slider", name="Cycle").fill(str(place + 1))
    assert cycle(page) == place


def spaced(text):
    """Text as tokens are labelled in the tree."""
    if re.fullmatch(r"<\|?(im_end|endoftext|eos|s)\|?>", text):
        return "end"
    shown = re.sub(r"^ (?=\S)", "", text).replace("\n", "↵")
    return re.sub(r"^ +| +$", lambda spaces: "␣" * len(spaces[0]), shown)


def test_a_first_visitor_sees_the_recorded_run(page):
    for kind in ("accepted", "rejected", "bonus"):  # a cycle that has all there is to see
        assert page.locator(f"{NODE}.{kind}").count(), kind
    about = page.inner_text(".inside-view .hint >> nth=-1")
    assert re.fullmatch(r"A recorded run \(.+\): MoA N=0, .+; target tiny; prompt “.+”", about)
    last = int(page.get_by_role("slider", name="Cycle").get_attribute("max")) - 1
    assert f"{last + 1} cycles, and the call for the prompt." in page.inner_text(".inside-view")
    for place in (cycle(page), 0, 11, last):  # and EAGLE-2's cycle at the same place of the text
        show(page, place)
        said = page.inner_text(".inside-view .rival .sentence")
        roots = page.locator(".inside-view .node.root text").all_text_contents()
        same = "begins at the same token" in said
        assert said.startswith("EAGLE-2’s cycle ") and len(roots) == 2
        assert same == (roots[0] == roots[1]) and same != ("earlier in the text" in said)


@pytest.fixture(scope="module")
def known(shared, tmp_path_factory):
    """A run of trees of one size, which the tab shows: Live's text, and the trace as it was saved;
    each test moves to the cycle that it is about."""
    open_tab(shared, "Live")
    shared.wait_for_selector(RUN)
    settings(shared, **TREE)
    shared.get_by_role("slider", name="Borrow").fill("1")
    text = run_live(shared)
    open_tab(shared, "Live")
    trace = Trace.from_json(saved(shared, tmp_path_factory.mktemp("run") / "trace.json"))
    open_tab(shared, "Inside a cycle")
    return text, trace


def test_the_kept_paths_of_all_trees_are_the_text(page, known):
    text, trace = known
    words, paths = RecordedText(trace), page.evaluate(PATHS)
    assert len(paths) == len(trace.of(Verified))
    for path, drafted, verified in zip(paths, trace.of(Drafted), trace.of(Verified), strict=True):
        kept = [*(drafted.tree.tokens[node] for node in verified.path), verified.bonus]
        assert path["tokens"] == [spaced(words.alone(token)) for token in kept]
        assert path["kinds"] == ["accepted"] * len(verified.path) + ["bonus"]
        assert path["rows"] == 1 and f" gains {len(verified.emitted)} token" in path["claim"]
        assert bool(verified.path) != ("as without a drafter" in path["sentence"])
    whole = paths[0]["root"] + "".join(token for path in paths for token in path["tokens"])
    flat = re.sub(r"[\s␣↵]", "", text)
    whole = re.sub(r"[␣↵]", "", whole)
    assert whole.startswith(flat) and len(text) > 300  # the last cycle may be cut
    assert all(word in whole for word in HOSTILE)
    assert page.locator(".inside-view :is(.text, .sentence, .tree) :is(b, script)").count() == 0


def test_a_look_inside_has_weights_that_add_up_and_all_of_it_can_be_read(page, known):
    _, trace = known
    show(page, next(place for place, found in enumerate(trace.of(Verified)) if found.path))
    page.click("#inside-look")
    bars, heat = chart(page, "inside-layers-chart")
    for weights in (*heat["z"], bars["y"]):
        assert sum(weights) == pytest.approx(1, abs=1e-4)
    assert chart(page, "inside-text-chart") and charts_are_named(page)
    page.wait_for_selector(f"{NODE}.rejected")
    for _ in every_look(page):
        for kind in ("accepted", "rejected", "bonus", "root"):
            place = f"{NODE}.{kind}"
            assert contrast(page, f"{place} text", f"{place} rect") >= 4.5, kind
            if kind != "root":
                assert contrast(page, f"{place} .number", f"{place} rect") >= 4.5, kind
            assert contrast(page, f".inside-view .legend .{kind} .mark") >= 4.5, kind
        words = (".sentence", ".hint", ".text .asked")
        assert can_be_read(page, *(f".inside-view {place}" for place in words))
        assert not page.locator(".inside-view .tree:visible").evaluate_all(SCROLLS)
        keep_picture(page, "inside")


def test_slider_keys_and_buttons_move_without_asking_the_server(page, known):
    asked, roots = [], {}
    show(page, 0)
    page.on("request", lambda request: asked.append(request.url))
    slider, keys = page.get_by_role("slider", name="Cycle"), page.keyboard
    back, on = (page.get_by_role("button", name=f"{way} cycle") for way in ("Previous", "Next"))
    last = int(slider.get_attribute("max")) - 1
    slider.focus()
    moves = [(keys, "ArrowRight", place) for place in range(1, 5)]
    moves += [(keys, "ArrowLeft", 3), (keys, "End", last), (keys, "Home", 0)]
    moves += [(on, "Enter", 1), (on, "Enter", 2)]
    for pressed, key, place in moves:
        pressed.press(key)
        assert cycle(page) == place
        root = page.text_content(f"{NODE}.root text")
        assert root == roots.setdefault(place, root)
        assert f"Cycle {place + 1} of {last + 1}" in page.inner_text(".inside-view .count")
        assert slider.get_attribute("aria-valuetext").startswith(f"Cycle {place + 1}: ")
    assert len(set(roots.values())) > 1
    back.click()
    assert cycle(page) == 1
    assert asked == []


def test_the_chat_template_shows_where_the_prompt_is_then_the_cycle_again(page, known):
    text, toggle = page.locator(".inside-view .text"), page.get_by_role("button", name="Chat templ")
    text.evaluate("box => box.style.height = '1em'")
    toggle.click()
    assert text.evaluate("box => box.scrollTop") == 0
    toggle.click()
    assert text.evaluate("box => box.scrollTop") > 0


def test_pointing_at_a_node_tells_what_drafter_and_target_gave_it(page, known):
    _, trace = known
    place, node = next(
        (place, node)
        for place, (drafted, found) in enumerate(trace.cycles)
        for node in range(1, len(drafted.tree))
        if node not in found.path
    )
    drafted, verified = trace.cycles[place]
    show(page, place)
    box = page.locator(f"{NODE}[data-index='{node}']")
    box.hover()
    tip = page.locator(".inside-view .tip")
    said = tip.inner_text()
    assert "rejected guess: the target " in said and "drafter, whole path" in said
    for value in (drafted.tree.draft_prob(node), verified.draft_probs[node]):
        assert f"{100 * value:.1f} %" in said or "< 0.1 %" in said
    choice = RecordedText(trace).alone(verified.choices[node])
    named = "part of a character" if choice == "\ufffd" else f"“{choice.lstrip(' ') or choice}”"
    assert f"{named} {100 * verified.choice_probs[node]:.1f} %" in said
    assert page.evaluate(HIDDEN) == 0
    assert box.get_attribute("aria-label").startswith(("“", "part of a character"))
    page.mouse.move(0, 0)
    assert tip.is_hidden()


def test_arrow_keys_move_between_nodes_of_the_tree(page, known):
    _, trace = known
    place = next(at for at, found in enumerate(trace.of(Verified)) if not found.path)
    show(page, place)
    page.locator(f"{NODE}.root").focus()
    tip = page.locator(".inside-view .tip")
    assert "the newest token" in tip.inner_text()
    page.keyboard.press("ArrowRight")
    name = "document.activeElement.getAttribute('aria-label')"
    assert "the target’s own token" in page.evaluate(name) and cycle(page) == place
    page.keyboard.press("ArrowDown")
    assert "rejected guess" in page.evaluate(name) and "; level 1;" in page.evaluate(name)
    assert "rejected guess" in tip.inner_text()
    page.keyboard.press("Escape")
    assert tip.is_hidden()
    page.keyboard.press("ArrowLeft")
    assert "the newest token" in page.evaluate(name)


def test_attention_is_pale_beside_another_cycle(page, known):
    for place in (2, 3):
        show(page, place)
        page.click("#inside-look")
        page.wait_for_selector(f"#inside-told .conclusion:has-text('Cycle {place + 1}: ')")
        assert not page.locator("#inside-found.before").count()
        show(page, place + 1)
        assert page.locator("#inside-found.before").count()


def test_other_methods_have_no_lsa_and_their_trees_are_drawn(page):
    for method in ("EAGLE-2", "Plain"):
        open_tab(page, "Live")
        choose(page, method)
        run_live(page)
        page.wait_for_selector(f"#inside-about:has-text('drafted by {method}')")
        assert page.locator("#inside-look").is_hidden()
    assert page.inner_text(".inside-view .sentence").startswith("Plain: Nothing was drafted")
    assert page.locator(NODE).count() == 2


def test_measuring_a_run_in_live_brings_eagle_2s_cycles(page):
    open_tab(page, "Live")
    choose(page, "MoA")
    run_live(page)
    page.wait_for_selector(".inside-view .hint:has-text('press Measure speed in Live')")
    open_tab(page, "Live")
    page.click("#measure")
    page.wait_for_selector("#charts .about:has-text('Measured')", timeout=180_000)
    open_tab(page, "Inside a cycle")
    page.wait_for_selector(".inside-view .rival .sentence:has-text('EAGLE-2’s cycle')")
