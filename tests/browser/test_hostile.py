"""Files of strangers: whatever is in them, and however they are called, the page only shows it."""

import json

from tests.browser.driving import DONE, FILES, KEPT, RUN, open_tab, status, wait_for_status
from tests.models import worded_trace

ADDRESS, READY = "", RUN
HIT = "window.hit = 1"
WORDS = (
    f'<img src=x onerror="{HIT}">', f"<script>{HIT}</script>", f'<a href="javascript:{HIT}">x</a>',
    "${window.hit = 1}", "{{window.hit}}", "{0.__class__}", "%s%n", "../../x", "=1+1", "\u202ertl",
    "</script><b>x</b>",
)  # fmt: skip
ALL = " ".join(WORDS)
HARM = """() => ({
  hit: window.hit ?? null,
  made: document.querySelectorAll('img[src="x"], a[href^="javascript:"], [onerror]').length,
  bold: [...document.querySelectorAll('b')].filter(one => one.textContent === 'x').length,
})"""
NONE = {"hit": None, "made": 0, "bold": 0}


def hostile_trace():
    """A true run, with other words: every text that a trace has is hostile."""
    data = json.loads(worded_trace())
    words = data["about"]["words"]
    words["prompt"] = ALL + "\x00"
    words["alone"] = {token: WORDS[int(token) % len(WORDS)] for token in words["alone"]}
    words["output"] = [WORDS[at % len(WORDS)] for at in range(len(words["output"]))]
    words["output"][3] = "\ud800"
    data["about"] |= {"method": ALL, "target": ALL, "drafter": ALL, "machine": {ALL: ALL}}
    data["events"][-1]["reason"] = ALL
    return data


def test_a_trace_of_a_stranger_is_only_shown(page, tmp_path):
    path = tmp_path / "<img src=x onerror=alert(1)> ${6*7} %s {0}.json"
    path.write_text(json.dumps(hostile_trace()))
    page.get_by_role("button", name=FILES).click()
    page.set_input_files("#open", path)
    wait_for_status(page, "Opened: ")
    page.wait_for_function(DONE)
    written = page.evaluate(KEPT)
    for word in WORDS[:3] + WORDS[4:9]:
        assert word in written, word
    assert WORDS[0] in status(page) and WORDS[3] in status(page)
    for place in page.locator("#view .token").all()[:12]:
        place.dispatch_event("mousemove")
    assert page.evaluate(HARM) == NONE
    open_tab(page, "Inside a cycle")
    page.wait_for_selector(".inside-view svg")
    assert WORDS[0] in page.locator(".inside-view").first.inner_text()
    assert page.evaluate(HARM) == NONE


def test_no_file_of_the_machine_is_served(page, app):
    for place in ("/etc/passwd", "app.py", "../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd",
                  "demo/access.py", "/proc/self/environ"):  # fmt: skip
        for form in ("gradio_api/file=", "file=", "static/", "assets/"):
            body = page.request.get(app + form + place).text()
            secrets = ("root:", "MOA_MODELS", "parse_args", "hmac")
            assert not any(secret in body for secret in secrets)
