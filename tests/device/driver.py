"""For tests: drafters in a browser, told what to do, and what they should do."""

from functools import cache

from demo.device.weights import pack
from moa_core.drafters.base import Drafter
from tests.device.twins import loud, replay
from tests.models import tiny_target

NEAR = 1e-4  # log-probabilities closer than this may change places
PROMPT = [5, 9, 33, 2, 17, 40, 11, 29, 60, 3, 8, 8, 21, 50, 1, 0, 44, 19]  # of two shares
TARGET = tiny_target()

DRAFT = """async ([name, cycles, tree]) => {
  const [{ drafter, open }, { grow }, { decode, unpack }] = await Promise.all(
    ["weights", "tree", "wire"].map((file) => import(`/device/js/${file}.js`)));
  const { hash } = await (await fetch(`/device/facts/${name}`)).json();
  const file = await (await fetch(`/device/weights/${name}/${hash}`)).arrayBuffer();
  const one = drafter(open(file), 1024);
  const trees = [];
  for (const { ids, half, token } of cycles) {
    const bytes = Uint8Array.from(atob(half), (char) => char.charCodeAt(0));
    one.observe(ids, unpack([decode(bytes)]));
    trees.push(await grow(token, one.root(token), (level) => one.expand(level), tree));
    one.forget();
  }
  return trees;
}"""

RUN = """([name, { link, ...run }, plan]) => new Promise((done) => {
  const worker = new Worker("/device/js/worker.js", { type: "module" }), events = [];
  Object.assign(window, { heard: events, worker });
  const began = performance.now();
  setTimeout(() => done([...events, { type: "failed", words: "it does not end" }]), 90_000);
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
      worker.terminate();
      done(events);
    }
  };
  worker.postMessage({ do: "open", base: "/device", name });
})"""


@cache
def drafter_for(name: str) -> Drafter:
    return loud(name, TARGET)


def run(page, name="moa-n1", plan=(), count=120, **settings):
    """The events of a run in which the link is treated as planned."""
    settings = {"prompt": PROMPT, "count": count, "patience": 20_000, **settings}
    events = page.evaluate(RUN, [name, settings, list(plan)])
    assert events[-1]["type"] == "finished", events[-1]
    return events


def begin(page, count):
    """A run that goes on by itself, as `over`, once it has had a few answers."""
    settings = {"prompt": PROMPT, "count": count, "patience": 20_000}
    page.evaluate(f"args => {{ window.over = ({RUN})(args); }}", ["moa-n1", settings, []])
    page.wait_for_function("window.heard?.filter(({ type }) => type === 'verified').length >= 3")


def kinds(events, kind):
    return [event for event in events if event["type"] == kind]


def compare(found, wanted):
    """Whether two trees are one; if not, their nodes must be as probable as each other."""
    same = found["tokens"] == list(wanted["tokens"]) and found["parents"] == list(wanted["parents"])
    pairs = zip(found["logProbs"], wanted["logProbs"], strict=True)
    if not same:
        pairs = zip(sorted(found["logProbs"]), sorted(wanted["logProbs"]), strict=True)
    assert all(abs(one - other) < NEAR for one, other in pairs), (found, wanted)
    return same


def check_trees(page, target, drafter, prompt, tree, count):
    """Of the trees of a run, the browser's and Python's: tokens learnt before each; near ties."""
    cycles = replay(target, drafter, pack(target, drafter), prompt, tree, count)
    shape = {"depth": tree.depth, "breadth": tree.breadth, "budget": tree.budget}
    found = page.evaluate(DRAFT, [drafter.name, cycles, shape])
    ties = [compare(*both) for both in zip(found, cycles, strict=True)].count(False)
    return [len(one["ids"]) for one in cycles], ties
