"""How a visitor drives the Live tab, and what they can read there."""

# A slider takes a typed number over when its handle has moved.
TAKEN = "([id, value]) => (document.querySelector(id)?.value ?? value) == value"
TEXT = ".token-view .text"
NEW_RUN = "old => document.querySelector('.token-view').getAttribute('data-run') !== old"
DONE = "() => document.querySelector('.token-view').dataset.state === 'done'"
KEPT = """() => {
  const text = document.querySelector('.token-view .text').cloneNode(true);
  for (const extra of text.querySelectorAll('.rejected, .more, .break')) extra.remove();
  return text.textContent;
}"""


def type_prompt(page, text):
    page.fill("#prompt textarea", text)


def start(page):
    """Press Run; wait until the new run's first tokens are there."""
    before = page.locator(".token-view").get_attribute("data-run")
    page.click("#run")
    page.wait_for_function(NEW_RUN, arg=before)


def finish(page):
    page.wait_for_function(DONE)
    page.wait_for_selector("#run:not([disabled])")


def status(page):
    return page.inner_text("#status .status-line")


def wait_for_status(page, word):
    page.wait_for_function(
        "word => document.querySelector('#status .status-line').textContent.includes(word)",
        arg=word,
    )


def settings(page, **values):
    """Open the settings and type numbers in."""
    page.get_by_role("button", name="Draft tree, sampling, length and pace").click()
    for name, value in values.items():
        type_number(page, f"#{name}", value)


def type_number(page, component, value):
    """Type into a slider or number field; again where the page was still setting it up."""
    for _ in range(10):
        field = page.locator(f"{component} input[type=number]")
        field.fill(str(value))
        field.press("Tab")
        page.wait_for_timeout(100)
        if page.evaluate(TAKEN, [f"{component} input[type=range]", value]):
            return
    raise AssertionError(f"{component} does not take {value}")


def tile(page, name):
    return page.inner_text(f".token-view .tile:has(dt:text-is('{name}')) .value")


def contrast(page, selector):
    """WCAG contrast of an element's text with all the grounds below it."""
    return page.evaluate(CONTRAST, selector)


CONTRAST = """selector => {
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
  const grounds = [];
  for (let node = element; node; node = node.parentElement)
    grounds.unshift(rgba(getComputedStyle(node).backgroundColor));
  const ground = grounds.reduce(
    (below, [r, g, b, a]) => [r, g, b].map((c, i) => c * a + below[i] * (1 - a)), [255, 255, 255]);
  const [one, two] = [light(ground), light(rgba(getComputedStyle(element).color).slice(0, 3))];
  return (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
}"""
