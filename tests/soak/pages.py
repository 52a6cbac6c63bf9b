"""Visitors with a browser: a Chromium each, in which they open the page and use all its tabs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from tempfile import mkdtemp
from time import monotonic
from urllib.parse import urlencode

from playwright.sync_api import Browser, Page, Playwright, TimeoutError, sync_playwright

from demo.trace_view import ENDINGS
from tests.browser.driving import KEPT, open_tab
from tests.soak.places import (
    CHROMIUM,
    FAR_METHODS,
    FLAGS,
    LENGTHS,
    LINKS,
    METHODS,
    RUNS,
    SAYS_ONE,
    STATE,
    TABS,
    WATCH,
    Tab,
)
from tests.soak.visitor import HOSTILE, PATIENCE, PROMPTS, REFUSED, Visitor


class Closed(Exception):
    """The visitor has closed the page."""


class Guest(Visitor):
    """A person at a browser. `asked`: prompt and length of what the page is set to."""

    def come(self) -> None:
        self._playwright: Playwright = sync_playwright().start()
        self._browser: Browser = self._playwright.chromium.launch(
            executable_path=CHROMIUM, args=FLAGS
        )
        self._window = self._browser.new_context(viewport={"width": 1280, "height": 800})
        self._window.add_init_script(f"({WATCH})()")
        self._folder = Path(mkdtemp(prefix="moa-soak-"))

    def go(self) -> None:
        self._browser.close()
        self._playwright.stop()

    def arrive(self, tab: str, **settings: object) -> Page:
        """Open the page, anew, at a tab with settings in its address."""
        self.does("a page is opened")
        page = self._window.new_page()
        page.set_default_timeout(30_000)
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.wrong(f"an error in the page: {error}"))
        page.on("response", lambda got: got.status < 400 or self.wrong(f"{got.status} {got.url}"))
        page.on("request", lambda sent: self._sent(sent.url))
        page.goto(f"{self.url}?{urlencode({'tab': tab, **settings})}")
        page.wait_for_selector("#machine .status-line:has-text('Target')", timeout=120_000)
        return page

    def _heard(self, said: object) -> None:
        if said.type == "error":
            self.wrong(f"the browser's console: {said.text}")

    def _sent(self, url: str) -> None:
        if not url.startswith((self.url, self.url.replace("http", "ws"), "data:", "blob:")):
            self.wrong(f"a request to {url}")

    def visit(self) -> None:
        tab = self.rng.choice([*TABS, "live", "network", "inside", "benchmarks"])
        self.prompt, self.length = self.rng.choice(PROMPTS), self.rng.choice(LENGTHS)
        page = self.arrive(tab, **self.settings(tab))
        try:
            self.act(page, tab)
            while self.wants_more:
                tab = self.rng.choice([*TABS, "live", "inside", "benchmarks"])
                open_tab(page, {"inside": "Inside a cycle", "benchmarks": "Benchmarks"}.get(
                    tab) or TABS[tab].name)  # fmt: skip
                self.length = 0  # other tabs have lengths of their own
                self.act(page, tab)
        except Closed:
            return
        self.listen(page)
        page.close()

    def settings(self, tab: str) -> dict[str, object]:
        """An address's settings for a tab: short runs, for there are many."""
        if tab == "live":
            return {"method": self.rng.choice(METHODS), "tokens": self.length}
        if tab == "network":
            return {
                "method": self.rng.choice(FAR_METHODS), "tokens": self.length,
                "link": self.rng.choice(LINKS),
            }  # fmt: skip
        if tab == "compare":
            chosen = self.rng.sample(METHODS, self.rng.choice((1, 2, 3)))
            return {"methods": ",".join(chosen), "repeats": 1, "tokens": 48}
        if tab == "tli":
            return {"repeats": 1, "tokens": 32, "seed": self.rng.choice((1, "none"))}
        return {}

    def act(self, page: Page, tab: str) -> None:
        """One thing on the tab that is open."""
        others = {"inside": self.inside, "benchmarks": self.benchmarks}
        if tab in others:
            others[tab](page)
        elif tab == "live" and self.rng.random() < 0.2:
            self.rng.choice((self.compare_plain, self.open_file, self.share))(page)
        elif self.rng.random() < 0.2:
            self.refused(page, TABS[tab])
        else:
            self.run_here(page, tab)
        self.listen(page)

    # ---- runs ----

    def run_here(self, page: Page, tab: str) -> None:
        """A run to its end, or stopped, left for another tab, or closed with its page."""
        where = TABS[tab]
        hostile = self.rng.random() < 0.15
        self.write(page, where, HOSTILE if hostile else self.prompt)
        end: Callable[..., None] = self.rng.choices(
            (self.finish, self.stop, self.leave, self.close), (5, 3, 1, 1)
        )[0]
        self.does(f"{where.name}: a run, {end.__name__}")
        began = self.press(page, where.run)
        if tab == "network":
            self.cut_and_heal(page, where)
        end(page, where, began)
        if end == self.finish and self.length and not hostile and tab in ("live", "network"):
            self.keep_text(page, tab)

    def write(self, page: Page, where: Tab, prompt: str) -> None:
        """Type a prompt, a moment after the tab was opened: it brings the newest prompt along."""
        page.wait_for_timeout(500)
        page.fill(f"{where.prompt} textarea", prompt)

    def press(self, page: Page, button: str) -> float:
        """Press a button that begins a run; when that was."""
        page.wait_for_selector(f"{button}:not([disabled])", timeout=1000 * PATIENCE)
        page.evaluate(RUNS, button)
        page.click(button)
        return monotonic()

    def ended(self, page: Page, what: str, began: float) -> None:
        """Wait until the run of the last `press` is over."""
        try:
            page.wait_for_function("window.ran", timeout=1000 * PATIENCE)
        except TimeoutError:
            self.wrong(f"{what} does not end: {page.evaluate(STATE)}")
            raise
        self.timed(what, began)

    def finish(self, page: Page, where: Tab, began: float) -> None:
        """Wait for its end."""
        self.ended(page, where.name, began)

    def stop(self, page: Page, where: Tab, began: float) -> None:
        """Stop it at a random moment, if it still goes on."""
        self.pause(page)
        pressed = monotonic()
        if not page.evaluate("window.ran") and page.locator(where.stop).is_enabled():
            try:
                page.click(where.stop, timeout=2000)
            except Exception:  # it ended just now
                self.tally.did("Stop came too late")
        self.ended(page, f"{where.name}: from Stop to its end", pressed)

    def leave(self, page: Page, where: Tab, began: float) -> None:
        """Go elsewhere meanwhile, begin another run there, and so end this one."""
        self.pause(page)
        other = TABS["how" if where is not TABS["how"] else "live"]
        open_tab(page, other.name)
        self.ended(page, f"{other.name}: after another", self.press(page, other.run))

    def close(self, page: Page, where: Tab, began: float) -> None:
        """Close the tab of the browser."""
        self.pause(page)
        self.listen(page)
        page.close()
        raise Closed

    def cut_and_heal(self, page: Page, where: Tab) -> None:
        """Press the link's button at random moments; in the end it is up."""
        switch = "#net-switch button"
        for _ in range(self.rng.choice((0, 1, 1, 2))):
            try:
                page.wait_for_selector(f"{switch}:not([disabled])", timeout=20_000)
                page.wait_for_timeout(self.rng.uniform(0, 1500))
                page.click(f"{switch}:text-is('Cut the link')", timeout=1000)
                self.tally.did("Network: the link is cut")
                page.wait_for_timeout(self.rng.uniform(200, 6000))
                page.click(f"{switch}:text-is('Restore the link')", timeout=1000)
            except TimeoutError:  # the run has ended, or the button changed just now
                if page.locator(f"{switch}:text-is('Restore the link'):enabled").is_visible():
                    page.click(switch)
                return

    def keep_text(self, page: Page, tab: str) -> None:
        """The text that is shown, if it is the target's own to its end."""
        view = {"live": "#view", "network": "#net-view"}[tab]
        said = page.inner_text(f"{TABS[tab].status} .status-line")
        whole = any(ENDINGS[reason] in said for reason in ("eos", "length", "context"))
        if not whole or "not verified" in said:  # a link, say, was lost for good
            return
        page.wait_for_function(
            "view => document.querySelector(`${view} .token-view`).dataset.state === 'done'",
            arg=view,
        )
        text = page.evaluate(KEPT, view)
        self.tally.wrote(("page", self.prompt, str(self.length)), text, f"{self.name}, {tab}")

    # ---- other things ----

    def refused(self, page: Page, where: Tab) -> None:
        """A prompt that cannot be used gets its sentence."""
        kind, (prompt, words) = self.rng.choice(list(REFUSED.items()))
        self.does(f"{where.name}: a prompt {kind}")
        self.write(page, where, prompt)
        began = self.press(page, where.run)
        self.ended(page, f"{where.name}: a refusal", began)
        line = f"{where.status} .status-line"
        try:  # soon: a busy page has its button back before it has the line's words
            page.wait_for_function(SAYS_ONE, arg=[line, [words, "Choose 2", "no server"]])
        except TimeoutError:
            said, held = page.inner_text(line), page.input_value(f"{where.prompt} textarea")[:40]
            self.wrong(f"a prompt {kind} on {where.name}, now {held!r}, got: {said!r}")

    def compare_plain(self, page: Page) -> None:
        """Compare with plain decoding, after a run or without one."""
        self.does("Live: compare with plain decoding")
        self.ended(page, "Live: compare with plain", self.press(page, "#compare-plain"))

    def open_file(self, page: Page) -> None:
        """Open what is no trace."""
        self.does("Live: a file that is no trace")
        path = self._folder / "trace.json"
        path.write_bytes(self.rng.choice((
            b"", b"{", b"\xff\xfe", b"[1, 2]", json.dumps({"about": {}, "events": [{}]}).encode(),
            b"[" * 100_000, b'{"version": 1, "events": 7}', HOSTILE.encode(),
        )))  # fmt: skip
        if not page.locator("#open").is_visible():
            page.get_by_role("button", name="Save, open, share").click()
        page.set_input_files("#open input[type=file]", path)
        try:
            page.wait_for_selector("#status .status-line[data-kind=error]")
        except TimeoutError:
            self.wrong(f"{path.read_bytes()[:40]!r} as a trace got {page.evaluate(STATE)}")

    def share(self, page: Page) -> None:
        """Press both presets."""
        self.does("Live: presets")
        for name in ("slow motion, to teach", "full speed"):
            page.get_by_role("button", name=f"Preset: {name}").click()
            page.wait_for_selector(f"#status .status-line:has-text('{name.partition(',')[0]}')")

    def inside(self, page: Page) -> None:
        """Look into a cycle of the last run, or of the example."""
        page.wait_for_selector("#inside-example, .inside-view .node", timeout=PATIENCE * 1000)
        page.wait_for_timeout(500)  # which of them is shown
        button = "#inside-look" if page.locator("#inside-look").is_visible() else "#inside-example"
        if page.locator(button).is_visible():
            self.does(f"Inside a cycle: {button.removeprefix('#inside-')}")
            self.ended(page, "Inside a cycle", self.press(page, button))
        else:
            self.does("Inside a cycle: only looked at")

    def benchmarks(self, page: Page) -> None:
        """Open what is no recording."""
        self.does("Benchmarks: a file that is no recording")
        page.wait_for_selector("#bench-times .js-plotly-plot .main-svg")
        path = self._folder / "results.json"
        path.write_text(self.rng.choice(("{", "[]", '{"methods": 3}', HOSTILE, "[" * 50_000)))
        with page.expect_file_chooser() as chooser:
            page.click("#bench-upload")
        chooser.value.set_files(path)
        page.wait_for_selector("#bench-status .status-line[data-kind=error]")

    def pause(self, page: Page) -> None:
        """A random moment."""
        page.wait_for_timeout(self.rng.uniform(0, 4000))

    def listen(self, page: Page) -> list[str]:
        """What the page has said of errors since the last time; returns what it said of waiting."""
        waits = []
        for kind, text in page.evaluate("window.told.splice(0)"):
            if kind == "wait":
                waits.append(text)
            else:
                self.tally.said(text, self.name)
        return waits

    def last(self) -> None:
        page = self.arrive("live", tokens=16)
        self.write(page, TABS["live"], PROMPTS[0])
        self.ended(page, "the last simple run", self.press(page, "#run"))
        self.listen(page)
        page.close()

    def alone(self) -> list[str]:
        """A run when nobody else is there; what the page said of waiting."""
        page = self.arrive("live", tokens=16)
        self.write(page, TABS["live"], PROMPTS[0])
        self.ended(page, "a run alone", self.press(page, "#run"))
        waits = self.listen(page)
        page.close()
        return waits
