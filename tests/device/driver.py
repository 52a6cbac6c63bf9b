"""For tests: drafters in a browser, told what to do, and what they should do."""

from functools import cache
from multiprocessing import get_context

import pytest

from demo.device.endpoint import Device
from tests.device.twins import Page, loud, replay
from tests.models import tiny_target

NEAR = 1e-4  # log-probabilities closer than this may change places
PROMPT = [5, 9, 33, 2, 17, 40, 11, 29, 60, 3, 8, 8, 21, 50, 1, 0, 44, 19]  # of two shares
TARGET = tiny_target()

DRAFT = """async ([name, cycles, tree, embedded]) => {
  const [{ download, facts }, { drafter, open }, { grow }, { decode, unpack }] = await Promise.all(
    ["download", "drafter", "tree", "wire"].map((file) => import(`/device/js/${file}.js`)));
  const base = new URL("/device", location).href, found = await facts(base, name);
  const model = await open(found, await download(base, found, () => {}));
  const rows = new Map(embedded.map(([token, row]) => [token, Float32Array.from(row)]));
  const one = drafter(model, 1024, rows), trees = [];
  for (const { ids, half, token } of cycles) {
    const bytes = Uint8Array.from(atob(half), (char) => char.charCodeAt(0));
    one.observe(ids, unpack([decode(bytes)]));
    trees.push(await grow(token, one, tree));
    one.forget();
  }
  return trees;
}"""

RUN = """([name, { link, limit = 90_000, ends = true, ...run }, plan]) => new Promise((done) => {
  const worker = new Worker("/device/js/worker.js", { type: "module" }), events = [];
  Object.assign(window, { heard: events, worker });
  const began = performance.now();
  setTimeout(() => done([...events, { type: "failed", words: "it does not end" }]), limit);
  const count = (type) => events.filter((event) => event.type === type).length;
  worker.onerror = (error) => done([...events, { type: "failed", words: error.message }]);
  worker.onmessage = ({ data }) => {
    events.push({ ...data, now: performance.now() - began });
    if (data.type === "facts") worker.postMessage({ do: "fetch" });
    if (link && data.type === "ready") worker.postMessage({ do: "link", ...link });
    if (data.type === "ready") worker.postMessage({ do: "run", kind: "f32", ...run });
    if (plan.length && count(plan[0].after) >= plan[0].times) {
      const { act, lasts } = plan.shift();
      if (act === "drop") fetch("/drop");
      else worker.postMessage({ do: act });
      if (lasts !== undefined) setTimeout(() => worker.postMessage({ do: "mend" }), lasts);
    }
    if (data.type === "failed" || data.type === "finished") {
      if (ends) worker.terminate();
      done(events);
    }
  };
  worker.postMessage({ do: "open", base: "/device", name });
})"""


@cache
def drafter_for(name):
    return loud(name, TARGET)


def asked(settings):
    return {"prompt": PROMPT, "count": 120, "patience": 20_000, **settings}


def run(page, name="moa-n1", plan=(), **settings):
    """The events of a run in which the link is treated as planned."""
    events = page.evaluate(RUN, [name, asked(settings), list(plan)])
    assert events[-1]["type"] == "finished", events[-1]
    return events


def begin(page, **settings):
    """A run that goes on by itself, as `over`, once it has had a few answers."""
    page.evaluate(f"args => {{ window.over = ({RUN})(args); }}", ["moa-n1", asked(settings), []])
    hear(page, "verified", 3)


def told(page, kind):
    return page.evaluate("(kind) => heard.filter(({ type }) => type === kind).length", kind)


def hear(page, kind, times):
    """Wait for so many events of a kind, or the last: whether they came."""
    page.wait_for_function(
        """([kind, times]) => heard.filter(({ type }) => type === kind).length >= times
            || ["finished", "failed"].includes(heard.at(-1)?.type)""",
        arg=[kind, times],
    )
    return told(page, kind) >= times


def kinds(events, kind):
    return [event for event in events if event["type"] == kind]


def check_trees(page, target, drafter, prompt, tree, count, kind="f32"):
    """Of the trees of a run, the browser's and Python's: tokens learnt before each; near ties."""
    cycles = replay(target, drafter, prompt, tree, count, kind)
    shape = {"depth": tree.depth, "breadth": tree.breadth, "budget": tree.budget}
    words = () if drafter.vocabulary is None else set(drafter.vocabulary.tolist())
    seen = {token for one in cycles for token in (*one["ids"], one["token"])}
    rows = [[token, target.embed.weight[token].tolist()] for token in seen - set(words) if words]
    found, ties = page.evaluate(DRAFT, [drafter.name, cycles, shape, rows]), 0
    for ours, wanted in zip(found, cycles, strict=True):
        probs = [ours["logProbs"], list(wanted["logProbs"])]
        if any(ours[part] != list(wanted[part]) for part in ("tokens", "parents")):
            probs, ties = [sorted(one) for one in probs], ties + 1  # nodes that are as probable
        assert probs[0] == pytest.approx(probs[1], rel=0, abs=NEAR), (ours, wanted)
    return [len(one["ids"]) for one in cycles], ties


class Mortal:
    """A page in a process of its own, which can be killed and started again."""

    def __init__(self):
        self._context, self._port = get_context("forkserver"), 0
        self._context.set_forkserver_preload(["tests.device.twins"])

    def start(self):
        here, there = self._context.Pipe()
        self._process = self._context.Process(target=_live, args=(self._port, there), daemon=True)
        self._process.start()
        self._port = here.recv()
        self.url = f"http://127.0.0.1:{self._port}"

    def kill(self):
        self._process.kill()
        self._process.join()

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.kill()


def _live(port, pipe):
    page = Page(Device(lambda: TARGET, drafter_for), port)
    pipe.send(page.port)
    page.last()
