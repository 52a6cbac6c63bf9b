"""The link of a run that goes on, and the button on the page that cuts it."""

from __future__ import annotations

import threading
from typing import Any

import gradio as gr

from demo.common.theme import script
from moa_core.link.emulator import Link

STATES = {  # what the page says of them
    "idle": "Start a run, then cut the link.",
    "up": "The link is up.",
    "cut": "The link is cut. Waiting for a time-out ...",
    "lost": "The link is cut.",
    "mended": "The link is up; the client has not found the server again yet.",
}


def switch_view(**kwargs: Any) -> gr.HTML:
    """The client, the link with its button, the server. Its events: `pressed`."""
    return gr.HTML(
        switch(),
        html_template=(
            '<div class="net-switch" role="group" aria-label="The link"><div class="way">'
            '<span class="place">This page<small>drafter</small></span><i class="line"></i>'
            '<button type="button" disabled></button><i class="line"></i>'
            '<span class="place">Server<small>target</small></span></div>'
            '<p aria-live="polite"></p></div>'
        ),
        js_on_load=script("network/switch.js"),
        apply_default_css=False,
        **kwargs,
    )


def switch(state: str = "idle") -> dict[str, str]:
    """The value of the switch."""
    return {"state": state, "words": STATES[state]}


class Switch:
    """Cuts and restores one run's link, which is its visitor's alone and ends with the run.

    `lost` is whether the client has noticed; the run says so.
    """

    def __init__(self, link: Link) -> None:
        self.link = link
        self.lost = self._changed = False
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()

    def press(self) -> None:
        """Cut it, or restore it if it is cut."""
        self._set(not self.link.is_cut)

    def cut_for(self, seconds: float) -> None:
        """Cut it, and restore it by itself."""
        self._set(True)
        self._timer = threading.Timer(seconds, lambda: self._set(False))
        self._timer.daemon = True
        self._timer.start()

    def close(self) -> None:
        """The run is over: nothing is cut or restored any more."""
        if self._timer is not None:
            self._timer.cancel()

    def changed(self) -> bool:
        """Whether it was cut or restored since this was last asked."""
        changed, self._changed = self._changed, False
        return changed

    def _set(self, cut: bool) -> None:
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
            if cut == self.link.is_cut:
                return
            self.link.cut() if cut else self.link.restore()
            self._changed = True

    @property
    def switch(self) -> dict[str, str]:
        """What the page shows of it."""
        if self.link.is_cut:
            return switch("lost" if self.lost else "cut")
        return switch("mended" if self.lost else "up")


def press(link: Switch | None) -> dict[str, str]:
    """The button was pressed. Without a run there is nothing to cut."""
    if link is None:
        return switch()
    link.press()
    return link.switch
