"""Where things are on the page, and what a soak's visitors watch there."""

from __future__ import annotations

from dataclasses import dataclass

CHROMIUM = "/usr/bin/chromium"
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
METHODS = ("moa-n0", "moa-n1", "moa-n3", "moa-auto", "eagle2", "glide", "ngram", "vanilla")
FAR_METHODS = ("moa-n0", "moa-n1", "eagle2", "vanilla")
LINKS = ("rtt=20,jitter=0", "rtt=80,jitter=10", "4g", "fibre", "rtt=5,down=0.05")
LENGTHS = (16, 64, 160)
# Keeps what status lines and gradio's own notices say of errors and of waiting.
WATCH = """() => {
  const kept = new WeakMap();
  window.told = [];
  setInterval(() => {
    const lines = '.status-line[data-kind=error], .status-line[data-kind=wait], .toast-body';
    for (const line of document.querySelectorAll(lines)) {
      const text = line.textContent.trim(), kind = line.dataset.kind ?? 'notice';
      if (text && kept.get(line) !== text) window.told.push([kind, text]);
      kept.set(line, text);
    }
  }, 100);
}"""
# Whether a Run button that is pressed after this has been off and is on again, or has gone.
RUNS = """id => {
  const button = document.querySelector(id);
  let off = false;
  window.ran = false;
  const look = () => {
    if (button.isConnected && button.disabled) off = true;
    else if (off) { window.ran = true; observer.disconnect(); clearInterval(clock); }
  };
  const observer = new MutationObserver(look);
  observer.observe(button, { attributes: true });
  const clock = setInterval(look, 100);
}"""
# Whether a status line has one of these in it.
SAYS_ONE = """([line, words]) => {
  const said = document.querySelector(line).textContent;
  return words.some(one => said.includes(one));
}"""
# What the page shows, for the report on a run that does not end.
STATE = """() => ({
  on: Array.from(document.querySelectorAll('button:enabled[id]'), one => one.id),
  says: Array.from(document.querySelectorAll('.status-line'), one => one.textContent),
})"""


@dataclass(frozen=True)
class Tab:
    """Where a tab's runs are begun and ended."""

    name: str
    prompt: str
    run: str
    stop: str
    status: str


TABS = {
    "live": Tab("Live", "#prompt", "#run", "#stop", "#status"),
    "compare": Tab("Side by side", "#compare-prompt", "#compare-run", "#compare-stop",
                   "#compare-status"),
    "tli": Tab("TLI", "#sweep-prompt", "#sweep-run", "#sweep-stop", "#sweep-status"),
    "network": Tab("Network", "#net-prompt", "#net-run", "#net-stop", "#net-status"),
    "how": Tab("How it works", "#how-prompt", "#how-draft-run", "#how-draft-stop",
               "#how-draft-status"),
}  # fmt: skip
