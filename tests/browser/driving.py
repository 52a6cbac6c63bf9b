"""How a visitor drives the page, and what they can read there."""

import json
from contextlib import contextmanager

from playwright.sync_api import TimeoutError

from demo.common.controls import SHAPE

# A slider takes a typed number over when its handle has moved.
TAKEN = "([id, value]) => (document.querySelector(id)?.value ?? value) == value"
SAYS = "([place, words]) => document.querySelector(place)?.textContent.includes(words)"
HOLDS = "([box, text]) => document.querySelector(`${box} textarea`)?.value === text"
SEEN = """place => {
  const box = document.querySelector(place)?.getBoundingClientRect();
  return box && box.top >= 0 && box.bottom <= window.innerHeight;
}"""
SCROLLS = "all => all.some((one) => one.scrollWidth > one.clientWidth)"  # sideways
# From now on `window.shifted` is the page's cumulative layout shift.
SHIFTS = """() => {
  window.shifted = 0;
  new PerformanceObserver((list) => {
    for (const one of list.getEntries()) if (!one.hadRecentInput) window.shifted += one.value;
  }).observe({ type: "layout-shift", buffered: true });
}"""
FILES = "Save, open, share"
RUN = "#run:not([disabled])"
LANE = "#view .lane[data-lane=drafter]"
TEXT = f"{LANE} .text"
PLAIN = "#view .lane[data-lane=plain]"
TREE = "[data-stage=tree]"
SMALL_RUN = "?tokens=60&depth=5&breadth=4&budget=11"  # its address
STORY = "Tell me a story."
HIDDEN = """ids => ids.filter(id => {
  const { top, bottom, width } = document.querySelector(id).getBoundingClientRect();
  return top < 0 || bottom > window.innerHeight || !width;
})"""
NEW_RUN = f"old => (document.querySelector('{LANE}')?.dataset.id ?? old) !== old"
DONE = "() => ['done', 'stopped'].includes(document.querySelector('#stage').dataset.run)"
# Whether what the target rewrote is in sight. view: of one text.
STRUCK = """view => {
  const [text, struck] = [".text", ".replaced"].map(
    (place) => document.querySelector(`${view} ${place}`)?.getBoundingClientRect());
  return struck && struck.top >= text.top && struck.top < text.bottom;
}"""
KEPT = """view => {
  const text = document.querySelector(`${view ?? '#view .lane'} .text`).cloneNode(true);
  const extras = '.rejected, .break, .special, .partial';
  for (const extra of text.querySelectorAll(extras)) extra.remove();
  return text.textContent;
}"""


@contextmanager
def slowed(page, times=50):
    """The page's clock of animations goes slowly: what the tiny model wrote in a moment can be
    paused, and stepped through."""
    page.evaluate(
        """times => {
      window.atSpeed = window.requestAnimationFrame;
      window.requestAnimationFrame = draw => window.atSpeed(time => draw(time / times));
    }""",
        times,
    )
    try:
        yield
    finally:
        page.evaluate("() => { window.requestAnimationFrame = window.atSpeed; }")


def start(page):
    """Press Run; wait until the new run's first tokens are there."""
    before = page.locator(LANE).get_attribute("data-id")
    page.click("#run")
    page.wait_for_function(NEW_RUN, arg=before)


def choose(page, method, box="#method"):
    """Pick an entry of a dropdown; again where gradio drew it anew, closed, in between."""
    option = page.get_by_role("option", name=method, exact=True)
    for _ in range(10):
        page.click(f"{box} .wrap-inner")
        try:
            option.click(timeout=3000)
            return
        except TimeoutError:
            page.keyboard.press("Escape")
    raise AssertionError(f"{method} cannot be chosen")


def headline(page):
    return page.inner_text("#view .headline")


def press(page, name):
    page.get_by_role("button", name=name, exact=True).click()


def finish(page):
    page.wait_for_function(DONE)
    page.wait_for_selector(RUN)


def run(page, prompt=None):
    """A whole run on the Live tab; returns the text that was kept."""
    if prompt is not None:
        page.fill("#prompt textarea", prompt)
    start(page)
    finish(page)
    return page.evaluate(KEPT)


def reload_changed(page, change):
    """Load the page again, after `change` of the run that it keeps."""
    kept = json.loads(page.evaluate("sessionStorage.getItem('moa-run')"))
    change(kept)
    page.evaluate("text => sessionStorage.setItem('moa-run', text)", json.dumps(kept))
    page.reload()
    page.wait_for_selector(f"{LANE}[data-state=done]")


def saved(page, path):
    """The trace of the newest run, as Save brings it."""
    page.get_by_role("button", name=FILES).click()
    with page.expect_download() as download:
        page.click("#save")
    download.value.save_as(path)
    return path.read_text()


def open_tab(page, name):
    page.get_by_role("tab", name=name).click()


def status(page, tab=""):
    """What a tab's status line says. tab: the start of its ids; "" is the Live tab."""
    return page.inner_text(f"#{tab}status .status-line")


def wait_for_status(page, words, tab=""):
    # Long: a busy machine takes a minute for a comparison.
    arg = [f"#{tab}status .status-line", words]
    page.wait_for_function(SAYS, arg=arg, timeout=180_000)


def settings(page, tab="", **values):
    """Type numbers into a tab's settings, which may be folded; again where one is still set up.
    A number of the tree's shape needs a tree of fixed shape."""
    for name, value in values.items():
        place = f"#{tab}{name} input"
        field = page.locator(f"{place}[type=number]")
        if not field.is_visible():
            fold = page.get_by_role("button", name="Draft tree, sampling and length")
            fold.locator("visible=true").click()
        if name in SHAPE:
            page.locator(f"#{tab}auto_tree input").uncheck()
            page.wait_for_selector(f"{place}[type=number]:not([disabled])")
        for _ in range(10):
            field.fill(str(value))
            field.press("Tab")
            page.wait_for_timeout(100)
            if page.evaluate(TAKEN, [f"{place}[type=range]", value]):
                break
        else:
            raise AssertionError(f"{place} does not take {value}")


def figure(page, name, part="#view"):
    """A number of the headline, or of a lane, once it is known."""
    place = f"{part} [data-figure={name}]"
    page.wait_for_selector(place, timeout=180_000)
    return float(page.get_attribute(place, "data-value"))


def chart(page, name):
    """The traces of the chart in a component, once it is drawn."""
    return page.wait_for_function(CHART, arg=name).json_value()


CHART = """id => {
  const plot = document.querySelector(`#${id} .js-plotly-plot`);
  if (!plot?.data || plot.getAttribute('role') !== 'img') return null;
  const list = values => Array.from(values ?? []);
  return plot.data.map(({ name, x, y, z, base, text }) => ({
    name, x: list(x), y: list(y), z: list(z).map(list), base: list(base), text: list(text),
  }));
}"""


def charts_are_named(page):
    """Whether every chart that is seen has its words, and none of plotly's buttons."""
    for plot in page.locator(".js-plotly-plot:visible").all():
        words = plot.get_attribute("aria-label") or ""
        assert plot.get_attribute("role") == "img" and words.endswith(".") and ": " in words, words
        assert not plot.locator("a:visible, button:visible, [tabindex]:visible").count()
    return True


def contrast(page, selector, ground=None):
    """WCAG contrast of an element's ink with the grounds below it; the shape `ground` on top."""
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


def can_be_read(page, *places):
    """Whether the text at each of these selectors has the contrast of 4.5 : 1."""
    for place in places:
        found = contrast(page, place)
        assert found >= 4.5, f"{place}: {found:.2f}"
    return True
