"""A drafter in the browser: its trees, its text, and what becomes of both when the link is cut."""

import json
from collections import Counter
from contextlib import closing
from dataclasses import asdict
from random import Random
from time import sleep

import pytest

from demo.device.endpoint import Device
from demo.device.weights import _words, pack
from moa_core.decoding.trace import Trace
from moa_core.decoding.tree import TreeSettings
from moa_core.decoding.verify import Sampling
from moa_core.text import TokenText
from tests.device.driver import (
    PROMPT,
    RUN,
    TARGET,
    Mortal,
    begin,
    check_trees,
    drafter_for,
    hear,
    kinds,
    run,
    told,
)
from tests.device.twins import Page, alone, loud, serving
from tests.models import plain_greedy, tiny_target, tiny_tokenizer, traced

NARROW, WIDE = TreeSettings(4, 2, 8), TreeSettings(6, 5, 20)

TOLD = (
    "prefilled", "drafted", "verified", "link down", "offline token", "link back", "finished",
)  # fmt: skip
DO = "(act) => worker.postMessage({ do: act })"

WORST = [
    {"after": "prefilled", "times": 1, "act": "cut", "lasts": 0},
    {"after": "offline token", "times": 1, "act": "drop"},
    {"after": "link back", "times": 1, "act": "cut", "lasts": 200},
    {"after": "verified", "times": 9, "act": "drop"},
    {"after": "offline token", "times": 5, "act": "cut", "lasts": 30},
]


@pytest.fixture(scope="module")
def served():
    with serving(Device(lambda: TARGET, drafter_for)) as page:
        yield page


@pytest.mark.parametrize(
    ("name", "family", "tree"),
    [
        ("moa-n0", "llama", WIDE), ("moa-n1", "llama", NARROW), ("moa-n3", "llama", WIDE),
        ("moa-n2", "qwen2", NARROW), ("moa-n2", "qwen3", WIDE), ("eagle2", "llama", WIDE),
    ],
)  # fmt: skip
def test_trees_are_those_of_python(name, family, tree, blank):
    """qwen2 has biases, qwen3 norms on its heads. A long prompt is read in parts."""
    target = tiny_target(family=family)
    drafter, prompt = loud(name, target), PROMPT * (4 if tree is WIDE else 1)
    with serving(Device(lambda: target, lambda _: drafter)) as served:
        learnt, ties = check_trees(blank(served), target, drafter, prompt, tree, 40)
    assert len(set(learnt)) > 2, "drafts must be taken and refused"
    assert ties <= len(learnt) / 20


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(0.8, 0.9, 20, 7)])
def test_a_cut_loses_and_doubles_no_token(sampling, served, blank):
    events = run(blank(served), "moa-n1", WORST, sampling=asdict(sampling))
    local = traced(TARGET, "vanilla", PROMPT, max_new_tokens=120, sampling=sampling)
    assert events[-1]["ids"] == local.output_ids
    assert kinds(events, "link down") and kinds(events, "link back")
    kept = {"version": 1, "about": {}, "events": events[-1]["trace"]}
    trace = Trace.from_json(json.dumps(kept))
    assert trace.output_ids == local.output_ids and trace.reason == "length"
    seen = [event["type"].replace(" ", "") for event in events if event["type"] in TOLD]
    assert [type(event).__name__.lower() for event in trace.events] == seen
    assert trace.tokens_per_second


def test_the_link_is_cut_after_so_many_tokens_and_can_be_mended(served, blank):
    plan = [{"after": "offline token", "times": 4, "act": "mend"}]
    events = run(blank(served), "moa-n1", plan, cutAt=20, pause=20)
    assert events[-1]["ids"] == plain_greedy(TARGET, PROMPT, 120)
    [down] = [at for at, event in enumerate(events) if event["type"] == "link down"]
    before = [token for one in kinds(events[:down], "verified") for token in one["emitted"]]
    assert 20 <= 1 + len(before) < 20 + NARROW.depth + 2
    times = [event["now"] for event in kinds(events, "offline token")]
    assert times[3] - times[0] >= 40  # three pauses of 20 ms; the page may hear of the first late


@pytest.mark.slow
@pytest.mark.parametrize("name", ["moa-n0", "moa-n1", "moa-n3", "eagle2"])
def test_no_cut_loses_or_doubles_a_token(name, served, blank):
    """Of many random schedules, for each drafter."""
    page, own = blank(served), plain_greedy(TARGET, PROMPT, 120)
    for seed in range(25):
        draw = Random(seed)
        plan = []
        for _ in range(draw.randint(1, 5)):
            after = draw.choice(["prefilled", "drafted", "verified", "link back", "offline token"])
            times, act = draw.randint(1, 12), draw.choice(["cut", "drop"])
            lasts = draw.choice([0, 20, 300, 1500])
            plan.append({"after": after, "times": times, "act": act, "lasts": lasts})
        assert run(page, name, plan)[-1]["ids"] == own, plan


@pytest.mark.slow
def test_sixty_cuts_lose_and_double_no_token(blank, context):
    """By either side, by the browser's own network, and by the death of the server."""
    draw, own, seen = Random(0), plain_greedy(TARGET, PROMPT, 230), Counter()
    acts = ["cut", "drop", "offline", "kill"] * 15
    draw.shuffle(acts)
    with Mortal() as server:
        page = blank(server)
        ways = {
            "cut": (lambda: page.evaluate(DO, "cut"), lambda: page.evaluate(DO, "mend")),
            "drop": (lambda: page.evaluate("void fetch('/drop')"), lambda: None),
            "offline": (lambda: context.set_offline(True), lambda: context.set_offline(False)),
            "kill": (server.kill, server.start),
        }
        while acts:
            begin(page, count=230, link={"delay": 20, "up": 0, "down": 0}, limit=600_000)
            there = True
            while acts and there:  # the text has not ended
                before = told(page, "link down")
                lose, mend = ways[acts[-1]]
                lose()
                lost = hear(page, "link down", before + 1)
                sleep(draw.choice([0, 0.02, 0.3, 1.5]))
                mend()
                if there := lost and hear(page, "link back", before + 1):
                    seen[acts.pop()] += 1
                    hear(page, "verified", told(page, "verified") + draw.randint(1, 4))
            events = page.evaluate("over")
            assert events[-1]["ids"] == own
            alone = len(kinds(events, "offline token"))
            seen += Counter(texts=1, tokens_alone=alone)
    print(dict(seen))


def test_a_new_server_reads_the_text_anew(blank):
    """Ours ends within a run, and another one takes its port."""
    first = Page(Device(lambda: TARGET, drafter_for))
    page = blank(first)
    begin(page, count=150)
    first.close()
    with closing(Page(Device(lambda: TARGET, drafter_for), first.port)):
        events = page.evaluate("over")
    assert events[-1]["ids"] == plain_greedy(TARGET, PROMPT, 150)
    assert kinds(events, "link back")


def test_offline_by_the_browser(served, blank, context):
    page = blank(served)
    begin(page, count=200)
    context.set_offline(True)
    page.wait_for_function("heard.some(({ type }) => type === 'offline token')")
    context.set_offline(False)
    assert page.evaluate("over").pop()["ids"] == plain_greedy(TARGET, PROMPT, 200)


@pytest.mark.parametrize("name", ["moa-n3", "eagle2"])
def test_cut_for_good_it_writes_to_the_end_alone(name, served, blank):
    plan = [{"after": "verified", "times": 3, "act": "cut"}]
    last = run(blank(served), name, plan, count=100, patience=0)[-1]
    assert last["reason"] == "offline"
    assert last["ids"] == plain_greedy(TARGET, PROMPT, len(last["ids"]))
    text = PROMPT + last["ids"]
    wanted = alone(TARGET, drafter_for(name), text, 100 - len(last["ids"]))
    assert last["alone"] == wanted


def test_text_written_alone_is_told_to_be_confirmed_or_changed(served, blank):
    plan = [{"after": "verified", "times": 3, "act": "cut"}]
    plan += [{"after": "offline token", "times": 20, "act": "mend"}]
    events = run(blank(served), "eagle2", plan)
    assert events[-1]["ids"] == plain_greedy(TARGET, PROMPT, 120)
    healed = [event["line"] for event in kinds(events, "verified")]
    became = sum(line["confirmed"] + line["changed"] for line in healed)
    assert became == len(kinds(events, "offline token")) >= 20
    whole = PROMPT + events[-1]["ids"]
    written = kinds(events, "offline token")
    right = [whole[event["position"]] == event["token"] for event in written]
    assert sum(line["confirmed"] for line in healed) == right.index(False)


def test_parts_are_fetched_once_and_old_ones_go(served, blank):
    page = blank(served)
    page.evaluate("""async () => {
      const store = await caches.open("moa-drafters");
      for (const key of await store.keys()) await store.delete(key);
      await store.put("/device/parts/old", new Response("old"));
    }""")
    first, second = run(page, "moa-n0", count=3), run(page, "moa-n0", count=3)
    facts, _ = pack(TARGET, drafter_for("moa-n0"))
    parts = [part for file in facts["files"].values() for part in file]
    size = kinds(first, "facts")[0]["bytes"]
    assert kinds(first, "progress")[-1]["bytes"] == size == sum(sent for _, _, sent in parts)
    assert kinds(second, "facts")[0]["left"] == 0 and not kinds(second, "progress")
    kept = "caches.open('moa-drafters').then((s) => s.keys()).then((k) => k.map(({ url }) => url))"
    names = {url.rpartition("/")[2] for url in page.evaluate(kept)}
    assert names == {"moa-n0", *(name for name, _, _ in parts)}
    third = run(page, "moa-n1", count=3)  # of its own: graph and layers
    assert 0 < kinds(third, "facts")[0]["left"] < size  # what both drafters share is here


def test_a_download_goes_on_where_it_stopped(served, blank):
    page, names = blank(served), []
    page.evaluate("caches.delete('moa-drafters')")
    parts = "**/device/parts/*"
    page.route(
        parts,
        lambda route: route.abort() if len(names) > 2 else (names.append(1), route.continue_()),
    )
    last = page.evaluate(RUN, ["moa-n0", {"prompt": PROMPT, "count": 3}, []])[-1]
    assert last["type"] == "failed"
    page.unroute(parts)
    facts = kinds(run(page, "moa-n0", count=3), "facts")[0]
    assert 0 < facts["left"] < facts["bytes"]


def test_a_browser_that_keeps_nothing_downloads_all_the_same(served, blank):
    """Some reject the store of a page whose cookies they block."""
    found = blank(served).evaluate("""async () => {
      CacheStorage.prototype.open = () => Promise.reject(new DOMException("", "SecurityError"));
      const { download, facts } = await import("/device/js/download.js");
      const base = new URL("/device", location).href, told = await facts(base, "moa-n0");
      return [told.left === told.bytes, Object.keys(await download(base, told, () => {})).length];
    }""")
    assert found == [True, 6]


def test_text_of_tokens(served, blank):
    """After each of them, as the Python reader tells it: whole characters, no special tokens."""
    tokenizer = tiny_tokenizer()
    text = "The fox ran home: čaj, 東京, 🦊🏽! The answer is 7."
    ids = [*tokenizer.encode(text), tokenizer.eos_token_id, *tokenizer.encode(" And then")]
    words, special = _words(tokenizer, len(tokenizer) + 3)  # rows that no token has
    assert len(json.loads(words)) == len(tokenizer) + 3
    reader, pieces = TokenText(tokenizer), []
    wanted = ["".join(pieces := [*pieces, *reader.push([token])]) for token in ids]
    found = blank(served).evaluate(
        """async ([words, ids]) => {
          const { Reader, Words } = await import("/device/js/text.js");
          const reader = new Reader(new Words(...words));
          return ids.reduce((told, id) => [...told, (told.at(-1) ?? "") + reader.push(id)], []);
        }""",
        [[json.loads(words), special], ids],
    )
    assert found == wanted
    assert wanted[-1] == tokenizer.decode(ids, skip_special_tokens=True)


ORDER = """async () => {
  let socket;
  window.WebSocket = class {
    constructor() { socket = this; }
    close() {}
  };
  const [{ Wire }, { encode }] = await Promise.all(
    ["connection", "wire"].map((file) => import(`/device/js/${file}.js`)));
  const comes = (message) => socket.onmessage({ data: encode(message).slice().buffer });
  const opened = Wire.open("", {}, { delay: 30, up: 0, down: 9 });
  comes({ type: "welcome" });
  const wire = await opened, sent = [...Array(400).keys()];
  for (const number of sent) {
    comes({ type: "answer", number, half: new Uint8Array(number % 2 ? 10 : 3000) });
    for (const until = performance.now() + 0.3; performance.now() < until; );
  }
  for (const number of sent) if ((await wire.receive(5000)).number !== number) return number;
  return "all";
}"""


def test_a_slower_link_keeps_the_order_of_messages(served, blank):
    assert blank(served).evaluate(ORDER) == "all"
