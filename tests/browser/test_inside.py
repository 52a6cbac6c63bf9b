"""The tab Inside a cycle, driven as a visitor would."""

import pytest

from moa_core.attention import look
from moa_core.checkpoints import load_drafter, load_target
from moa_core.decode import Settings, decode
from moa_core.text import prompt_ids
from moa_core.trace import Drafted, Prefilled, Trace, Verified
from moa_core.tree import TreeSettings
from tests.browser.conftest import HOSTILE, LOOKS, TREE, keep_picture

pytestmark = pytest.mark.browser

PROMPT = "${6*7} <b>x</b> {{x}} `y` <script>alert(1)</script>"
KEPT = """() => {
  const text = document.querySelector('.token-view .text').cloneNode(true);
  for (const extra of text.querySelectorAll('.rejected, .more, .break')) extra.remove();
  return text.textContent;
}"""
# The top row, left to right, of every cycle: what the tree says was kept.
PATHS = """async () => {
  const slider = document.querySelector('.inside-view input[type=range]');
  const found = [];
  for (let cycle = 1; cycle <= Number(slider.max); cycle += 1) {
    slider.value = cycle;
    slider.dispatchEvent(new Event('input'));
    const kept = [...document.querySelectorAll('.inside-view .node:is(.accepted, .bonus)')];
    const left = node => node.getBoundingClientRect().left;
    kept.sort((one, other) => left(one) - left(other));
    const top = new Set(kept.map(node => node.getBoundingClientRect().top));
    found.push({
      tokens: kept.map(node => node.querySelector('text').textContent),
      kinds: kept.map(node => node.classList[1]),
      rows: top.size,
      root: document.querySelector('.inside-view .node.root text').textContent,
      sentence: document.querySelector('.inside-view .sentence').textContent,
    });
  }
  return found;
}"""
CHART = """name => {
  const data = document.querySelector(`#inside-${name}-chart .js-plotly-plot`).data;
  const heat = data.find(trace => trace.type === 'heatmap');
  return { z: heat.z.map(row => [...row]), bars: [...(data[0].y.length ? data[0].y : [])] };
}"""


def run_live(page, prompt, **choices):
    """Run a prompt on Live, then open the tab; returns Live's text."""
    page.fill("#prompt textarea", prompt)
    if choices.get("method"):
        page.get_by_label(choices["method"]).check()
    before = page.locator(".token-view").get_attribute("data-run")
    page.click("#run")
    page.wait_for_function(
        """old => { const view = document.querySelector('.token-view');
        return view.dataset.run !== old && view.dataset.state === 'done'; }""",
        arg=before,
    )
    page.wait_for_selector("#run:not([disabled])")
    text = page.evaluate(KEPT)
    open_tab(page)
    page.wait_for_selector(".inside-view .node")
    return text


def open_tab(page, name="Inside a cycle"):
    """Through the menu of further tabs where the page is too narrow for all of them."""
    tab = page.get_by_role("tab", name=name)
    if tab.count():
        tab.click()
    else:
        page.get_by_role("button", name="More tabs").click()
        page.locator(".overflow-dropdown").get_by_text(name).click()


def cycle(page):
    """Which cycle is shown, from 0."""
    return int(page.get_attribute(".inside-view", "data-cycle"))


def show(page, place):
    """Move to a cycle, from 0."""
    page.get_by_role("slider", name="Cycle").fill(str(place + 1))
    assert cycle(page) == place


def look_inside(page):
    page.click("#inside-look")
    page.wait_for_selector("#inside-layers-chart .main-svg")
    page.wait_for_selector("#inside-text-chart .main-svg")


@pytest.fixture(scope="module")
def recorded(bundle):
    """The same run in this process: its trace, target and drafter."""
    target = load_target(str(bundle / "tiny"))
    drafter = load_drafter(str(bundle / "moa-n0"), target)
    settings = Settings(128, TreeSettings(**TREE), eos_ids=target.eos_ids)
    trace = Trace()
    for _ in trace.record(decode(target, drafter, prompt_ids(target.tokenizer, PROMPT), settings)):
        pass
    return trace, target, drafter


def spaced(text):
    """Text as tokens are labelled in the tree."""
    return text.replace(" ", "␣").replace("\n", "↵")


@pytest.mark.parametrize("look_", LOOKS, ids=str)
def test_the_kept_paths_of_all_trees_are_the_text(open_page, recorded, look_):
    page = open_page(look=look_)
    page.wait_for_selector(".token-view .tiles")
    text = run_live(page, PROMPT)
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
    can_be_read(page)
    look_inside(page)
    for row in page.evaluate(CHART, "layers")["z"]:
        assert sum(row) == pytest.approx(1, abs=1e-4)
    assert fits(page)
    keep_picture(page, "inside")


def can_be_read(page):
    """Whether marks, nodes and words stand out from their grounds."""
    page.wait_for_selector(".inside-view .node.rejected")
    for kind in ("accepted", "rejected", "bonus", "root"):
        place, ground = f".inside-view .node.{kind}", f".inside-view .node.{kind} rect"
        assert contrast(page, f"{place} text", ground) >= 4.5, kind
        if kind != "root":
            assert contrast(page, f"{place} .number", ground) >= 4.5, kind
        assert contrast(page, f".inside-view .legend .key.{kind}") >= 4.5, kind
    for place in (".sentence", ".hint", ".figures dt", "summary", ".text .asked"):
        assert contrast(page, f".inside-view {place}") >= 4.5, place


def fits(page):
    """Whether nothing makes the page scroll sideways."""
    return page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def test_a_first_visitor_gets_a_sentence_and_an_example(open_page):
    page = open_page("?tab=inside")
    page.wait_for_selector("#inside-empty")
    assert "there is none yet" in page.inner_text("#inside-empty")
    assert page.locator(".inside-view").is_hidden() and page.locator("#inside-look").is_hidden()
    page.click("#inside-example")
    page.wait_for_selector(".inside-view .node.bonus")
    assert page.locator("#inside-empty").is_hidden() and page.locator("#inside-stop").is_hidden()
    assert "Cycle 1 of" in page.inner_text(".inside-view .count")


def test_slider_keys_and_buttons_move_without_asking_the_server(page):
    run_live(page, "Tell me a story.")
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    slider, root = page.get_by_role("slider", name="Cycle"), ".inside-view .node.root text"
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
    page.keyboard.press("ArrowRight")  # from the button, as well
    assert cycle(page) == 2 and slider.get_attribute("aria-valuetext").startswith("Cycle 3: ")
    page.get_by_role("button", name="Cycle before").click()
    assert cycle(page) == 1
    assert asked == []


def count(page):
    return page.inner_text(".inside-view .count")


def test_play_moves_on_until_paused_and_nothing_else_does(page):
    page.emulate_media(reduced_motion="reduce")
    run_live(page, "Tell me a story.")
    page.get_by_role("button", name="Play").click()
    assert cycle(page) == 0
    page.wait_for_selector(".inside-view[data-cycle='1']")
    page.get_by_role("button", name="Pause").click()
    at = cycle(page)
    page.wait_for_timeout(1_600)
    assert cycle(page) == at
    assert page.evaluate("document.querySelector('.inside-view').getAnimations().length") == 0


def test_text_figures_and_table_are_those_of_the_cycle(page, recorded):
    run_live(page, PROMPT)
    trace, target, _ = recorded
    drafted, verified = trace.of(Drafted)[2], trace.of(Verified)[2]
    show(page, 2)
    known = len(trace.of(Prefilled)[0].prompt_ids)
    written = target.tokenizer.decode(trace.output_ids[: drafted.position - known + 1])
    added = target.tokenizer.decode(verified.emitted)
    shown = page.text_content(".inside-view .text")
    assert shown.replace("↵\n", "\n").endswith(written + added)
    for kind, amount in (("root", 1), ("accepted", len(verified.path)), ("bonus", 1)):
        assert page.locator(f".inside-view .text .key.{kind}").count() == amount
    figures = page.inner_text(".inside-view .figures").split()
    assert (
        figures[: figures.index("Draft")]
        == (
            f"Root’s position {drafted.position} Drafted nodes {len(drafted.tree) - 1} "
            f"Accepted {len(verified.path)} Tokens gained {verified.gained}"
        ).split()
    )


def test_pointing_at_a_node_tells_what_drafter_and_target_gave_it(page, recorded):
    run_live(page, PROMPT)
    trace, target, _ = recorded
    place, node = next(
        (place, node)
        for place, found in enumerate(trace.of(Verified))
        for node in range(1, len(trace.of(Drafted)[place].tree))
        if node not in found.path
    )
    drafted, verified = trace.of(Drafted)[place], trace.of(Verified)[place]
    show(page, place)
    drawn = page.locator(f".inside-view .node[data-node='{node}']")
    drawn.hover()
    tip = page.locator(".inside-view .tip")
    said = tip.inner_text()
    assert "rejected draft: the target " in said and "drafter, whole path" in said
    for value in (drafted.tree.draft_prob(node), verified.draft_probs[node]):
        assert f"{100 * value:.1f} %" in said or "< 0.1 %" in said
    choice = target.tokenizer.decode([verified.choices[node]])
    named = "part of a character" if choice == "\ufffd" else f"“{choice}”"
    assert f"{named} {100 * verified.choice_probs[node]:.1f} %" in said
    assert drawn.get_attribute("aria-label").startswith("“")
    page.mouse.move(0, 0)
    assert tip.is_hidden()


def test_arrow_keys_move_between_nodes_of_the_tree(page):
    run_live(page, "Tell me a story.")
    page.locator(".inside-view .node.root").focus()
    tip = page.locator(".inside-view .tip")
    assert "the newest token" in tip.inner_text()
    page.keyboard.press("ArrowRight")
    level = "document.activeElement.getAttribute('aria-label')"
    assert "; level 1;" in page.evaluate(level) and cycle(page) == 0
    page.keyboard.press("ArrowDown")
    assert "rejected draft" in page.evaluate(level) and "rejected draft" in tip.inner_text()
    page.keyboard.press("Escape")
    assert tip.is_hidden()
    page.keyboard.press("ArrowLeft")
    assert "the newest token" in page.evaluate(level)


def test_attention_is_what_the_drafter_computes(page, recorded):
    run_live(page, PROMPT)
    trace, target, drafter = recorded
    whole = [*trace.of(Prefilled)[0].prompt_ids, *trace.output_ids]
    texts = [whole[: drafted.position + 1] for drafted in trace.of(Drafted)]
    place, ids = next(
        (place, ids)
        for place, ids in enumerate(texts)
        if place and all(word in target.tokenizer.decode(ids[-20:-1]) for word in HOSTILE)
    )
    show(page, place)
    look_inside(page)
    named = page.locator("#inside-layers-chart .y2tick text").all_text_contents()
    for word in HOSTILE:
        assert any(word in text for text in named), word
    found = look(target, drafter, ids)
    shown = page.evaluate(CHART, "layers")
    near = found.layers[-len(shown["z"]) :]
    close(shown["z"], near.mean(1).tolist())
    close([shown["bars"]], [found.layers.mean((0, 1)).tolist()])
    heads = page.evaluate(CHART, "text")["z"]
    close(heads[-len(near) :], found.text[:, -len(near) :].T.tolist())
    close([[sum(column) for column in zip(*heads, strict=True)]], [[1] * len(heads[0])])
    note = page.inner_text("#inside-note")
    assert f"the {len(ids) - 1} verified tokens" in note and "N = 0" in note
    page.get_by_label("Head of LSA").click()
    page.get_by_role("option", name="head 2").click()
    page.wait_for_function(
        """old => JSON.stringify(document.querySelector(
        '#inside-layers-chart .js-plotly-plot').data[0].y) !== JSON.stringify(old)""",
        arg=shown["bars"],
    )
    close(page.evaluate(CHART, "layers")["z"], near[:, 1].tolist())


def close(found, expected):
    for row, other in zip(found, expected, strict=True):
        assert row == pytest.approx(other, abs=1e-4)


def test_other_methods_have_no_lsa_and_their_trees_are_drawn(page):
    run_live(page, "Tell me a story.", method="EAGLE-2")
    page.wait_for_selector("#inside-about:has-text('drafted by EAGLE-2')")
    assert page.locator("#inside-look").is_hidden()
    open_tab(page, "Live")
    run_live(page, "Tell me a story.", method="Vanilla")
    page.wait_for_selector("#inside-about:has-text('drafted by Vanilla')")
    assert page.inner_text(".inside-view .sentence").startswith("Nothing was drafted")
    assert page.locator(".inside-view .node").count() == 2


def test_a_run_that_ends_while_the_tab_is_open_is_shown(page):
    run_live(page, "Tell me a story.")
    before = page.get_attribute(".inside-view", "data-run")
    open_tab(page, "Live")
    page.click("#run")
    open_tab(page)
    page.wait_for_function(
        "old => document.querySelector('.inside-view').dataset.run !== old", arg=before
    )


def contrast(page, selector, ground=None):
    """WCAG contrast of an element's ink with all the grounds below it, `ground` on top."""
    return page.evaluate(CONTRAST, [selector, ground])


CONTRAST = """([selector, ground]) => {
  const rgba = text => {
    const canvas = Object.assign(document.createElement('canvas'), { width: 1, height: 1 });
    const pen = canvas.getContext('2d');
    pen.fillStyle = text;
    pen.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pen.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const light = colour => {
    const [r, g, b] = colour.map(c => c / 255).map(
      c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const element = document.querySelector(selector);
  const grounds = ground ? [rgba(getComputedStyle(document.querySelector(ground)).fill)] : [];
  for (let node = element; node; node = node.parentElement)
    grounds.unshift(rgba(getComputedStyle(node).backgroundColor));
  const below = grounds.reduce(
    (below, [r, g, b, a]) => [r, g, b].map((c, i) => c * a + below[i] * (1 - a)), [255, 255, 255]);
  const style = getComputedStyle(element);
  const ink = rgba(element instanceof SVGElement ? style.fill : style.color).slice(0, 3);
  const [one, two] = [light(below), light(ink)];
  return (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
}"""
