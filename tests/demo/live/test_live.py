"""The Live tab: runs over the page's link, saved traces, measurements, settings and links."""

import json
from threading import Event

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient
from starlette.websockets import WebSocketDisconnect

from demo.common.elements import SORRY
from demo.engine import Engine
from demo.live import tab
from demo.live.link import LESSON, MOST_WAITING, Stage, Visitor
from demo.live.measure import figures, ratio, speed
from demo.live.settings import NAMES, choose
from demo.share import address_of
from moa_core.decoding.trace import Prefilled, Trace, Verified
from tests.demo.conftest import PROMPT, opened, unset
from tests.models import save_bundle
from tests.serving import until

SETTINGS = {
    "target": "", "prompt": PROMPT, "method": "vanilla", "tli": 0, "auto_tree": False,
    "depth": 3, "breadth": 2, "budget": 6, "tokens": 20, "temperature": 0.0, "top_p": 1.0,
    "seed": 0,
}  # fmt: skip


class Page:
    """A page's end of a link: what it heard. act: is called with each line."""

    def __init__(self, engine, act=lambda line: None):
        self.heard, self.act = [], act
        self.visitor = Visitor(engine, self._hear)

    def _hear(self, line):
        self.heard.append(line)
        self.act(line)

    def ask(self, do, lane="drafter", **changes):
        self.heard.clear()
        self.tell(do, lane=lane, settings=SETTINGS | changes).join(60)
        return list(self.heard)

    def tell(self, do, **more):
        return self.visitor.hear(json.dumps({"do": do, **more}))

    @property
    def trace(self):
        return Trace.from_json(self.heard[-1]["trace"])


@pytest.fixture
def engine(loads):
    made = Engine()
    made.target()
    return made


@pytest.fixture
def page(engine):
    return Page(engine)


def test_mistakes_and_failures_become_sentences(page, engine, breaks):
    [said] = page.ask("run", prompt="")
    assert said["kind"] == "error" and "empty" in said["said"]
    for name, value, what in (
        ("seed", 3.7, "The seed"), ("seed", None, "The seed"), ("depth", 2.5, "Tree depth"),
        ("tokens", 3.7, "The number of new tokens"),
    ):  # fmt: skip
        [said] = page.ask("run", **{name: value})
        assert said["said"].startswith(f"{what} must be a whole number")
    for changes in ({"method": 3}, {"more": 1}, {"tli": "x"}):
        [said] = page.ask("run", **changes)
        assert "are not the page’s" in said["said"]
    for text in ("", "[]", "{}", '{"do": 1}', '{"do": "fly"}', "\ud800", "[" * 50_000):
        assert page.visitor.hear(text) is None
    breaks()
    *_, end, said = page.ask("run")
    assert end["end"] == "error" and said["said"] == SORRY and not engine.busy


def test_a_job_says_nothing_more_once_a_new_one_has_begun_which_still_waits(page, engine):
    gates, prepare = [Event(), Event()], engine.prepare
    waits = iter(gates)
    engine.prepare = lambda *all: next(waits).wait(20) and prepare(*all)
    jobs = [page.tell("run", settings=SETTINGS) for _ in gates]
    while len(engine.worker.waiting) < 2:
        assert all(job.is_alive() for job in jobs)
    for at, job in enumerate(jobs):
        gates[at].set()
        job.join(60)
        assert len(engine.worker.waiting) == 1 - at
    assert [line["end"] for line in page.heard if "end" in line] == ["length"]


def test_who_waits_is_told_and_too_many_are_refused(page, engine):
    """A measurement gives way to the next visitor, and plain decoding waits its turn."""
    engine.worker.waiting.add("somebody")
    said, *_, end, _ = page.ask("run", method="moa", tokens=50)
    assert "yours starts next" in said["said"] and end["end"] == "length"
    assert not any("said" in line for line in page.ask("run", "plain", method="moa", tokens=50))
    assert page.trace.about["method"] == "vanilla"
    job = page.tell("measure", settings={**SETTINGS, "method": "moa"})
    while not any("another visitor" in line.get("step", "") for line in page.heard):
        assert job.is_alive()
    assert not engine.worker.gives_way
    engine.worker.waiting.discard("somebody")
    job.join(60)
    assert page.heard[-1]["measured"]["runs"] == 3 and not engine.worker.gives_way
    for number in range(MOST_WAITING):
        engine.worker.waiting.add(str(number))
    [said] = page.ask("run")
    assert "Too many visitors" in said["said"]


def spent(seconds):
    yield Prefilled((1,), 9, 0.5, 0.1 if seconds else 0.0)
    yield Verified(0, (), 9, (9,), (0.5,), (1.0,), (9,), seconds, 0)


@pytest.mark.parametrize(
    ("base", "ours", "found"),
    [
        ((0.1, 0.11, 0.09), (0.3, 0.31, 0.29), 0.5),
        ((0.3, 0.31, 0.29), (0.1, 0.11, 0.09), 2.0),
        ((0.1, 0.2), (0.4, 0.41), [0.475, 0.392, 0.6]),  # plain decoding's own runs differ too much
        ((0.4, 0.41), (0.1, 0.2), [2.104, 1.667, 2.55]),
        ((0.1, 0.11), (0.105, 0.12), None),  # the ranges overlap
        ((0.2,), (0.1,), 1.5),
        ((0,), (0,), None),
    ],
)
def test_a_speed_is_told_only_where_the_runs_agree(base, ours, found):
    traces = [[Trace({}, [*spent(each)]) for each in all_of] for all_of in (ours, base)]
    assert ratio(*map(speed, traces)) == found
    if all(base):
        lanes = figures("moa-n0", {"vanilla": traces[1], "moa-n0": traces[0]})["lanes"]
        assert [lane["method"] for lane in lanes] == ["moa-n0", "vanilla"]


# ---- the link itself ----


def test_the_link_is_of_this_page_alone_and_shows_that_it_is_alive(engine, monkeypatch):
    monkeypatch.setattr("demo.live.link.ALIVE", 0.05)
    for welcome, origin in ((True, "http://evil.example"), (False, "http://testserver")):
        stage = Stage(engine, lambda _, welcome=welcome: welcome)
        client = TestClient(Starlette(routes=[stage.route()]))
        with (
            pytest.raises(WebSocketDisconnect),
            client.websocket_connect("/live/link", headers={"origin": origin}),
        ):
            pass
    client = TestClient(Starlette(routes=[Stage(engine, lambda _: True).route()]))
    with client.websocket_connect("/live/link", headers={"origin": "http://testserver"}) as link:
        assert link.receive_json() == {"alive": 1}
        link.send_json({"do": "run", "lane": "drafter", "settings": SETTINGS})
        heard = []
        while not heard or "trace" not in heard[-1]:
            heard.append(link.receive_json())
        assert "run" in [key for line in heard for key in line]


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    save_bundle(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOA_MODELS", str(folder))
        patch.setattr("demo.live.link.ALONE", 1000)
        made = Engine()
        made.target()
        yield made


def test_in_a_lesson_a_cut_may_last_until_somebody_else_waits(real, monkeypatch):
    monkeypatch.setattr("demo.live.link.PATIENCE", 0.1)
    page, settings = Page(real), SETTINGS | {"prompt": "Tell me a story.", "method": "moa"}
    job = page.tell("run", settings=settings, lesson=True)
    page.tell("cut")  # before its link is there
    job.join(1)
    assert job.is_alive() and page.heard[0]["patience"] == LESSON
    real.worker.waiting.add("somebody")
    job.join(20)
    real.worker.waiting.discard("somebody")
    assert page.trace.reason == "offline"


def test_a_cut_reaches_the_newest_run_though_the_one_before_ends_after_its_start(real):
    settings = SETTINGS | {"method": "moa", "tokens": 200}
    jobs = []

    def act(line):
        if line.get("lane") == "plain" and "first" in line:
            jobs.append(page.tell("run", settings=settings))
            assert until(lambda: page.visitor._cut, 20)
        elif line.get("lane") == "drafter" and line.get("cycle") == 3:  # the other is over
            page.tell("cut")
        elif "offline" in line:
            page.tell("mend")

    page = Page(real, act)
    page.ask("run", "plain", tokens=300)
    jobs[0].join(60)
    assert any("down" in line for line in page.heard) and page.visitor._cut is None


# ---- saved traces ----


def test_a_saved_trace_opens_without_models_and_shows_the_same(page, loads):
    shown = page.ask("run")
    text = shown[-1]["trace"]
    loads.clear()
    page.heard.clear()
    page.tell("open", text=text).join(60)
    *opened, trace, said = page.heard
    assert opened[1:] == shown[1:-1] and loads == []  # but for the id of the run
    assert Trace.from_json(trace["trace"]) == Trace.from_json(text)
    assert "Opened: Plain for fake" in said["said"]


# ---- settings ----


def address(engine, **query):
    return opened(tab, NAMES[1:], engine, query)


def test_an_address_sets_what_it_names(engine):
    status, found = address(engine, method="moa-n1", prompt="Hi", depth="2", tab="live")
    assert unset(status) and unset(found["tokens"])
    assert (found["prompt"], found["method"], found["tli"]) == ("Hi", "moa", 1)
    assert found["depth"] == 2 and unset(found["breadth"]) and found["auto_tree"] is False
    assert unset(address(engine, tokens="2")[1]["auto_tree"])
    for query, expected in (({"auto_tree": "1", "depth": "2"}, True), ({"auto_tree": "0"}, False)):
        assert address(engine, **query)[1]["auto_tree"] is expected
    for query in ({"tab": "live"}, {"tab": "compare", "method": "moa-n7", "tokens": "20"}):
        status, found = address(engine, **query)
        assert unset(status) and all(unset(value) for value in found.values())
    assert address(engine, tokens="20")[1]["tokens"] == 20  # a bare one opens Live


@pytest.mark.parametrize(
    ("kind", "tli", "near", "said"),
    [("moa", 1, None, "N = 1"), ("moa", 3, 1, "N = 1"), ("ngram", 3, None, "TLI is part of MoA")],
)
def test_an_n_without_a_drafter_becomes_the_nearest_that_has_one(engine, kind, tli, near, said):
    slider, words, chosen = choose(engine, "", kind, tli, 0)
    assert slider.get("value") == near and said in words
    assert chosen == (tli if near is None else near)


@pytest.mark.parametrize(("before", "given", "near"), [(3, 2, 1), (1, 2, 3), (0, 1, 1), (3, 3, 3)])
def test_a_key_moves_over_an_n_without_a_drafter(engine, monkeypatch, before, given, near):
    monkeypatch.setattr(engine, "stops", lambda target="": [0, 1, 3])
    assert choose(engine, "", "moa", given, before)[-1] == near


def test_what_an_address_cannot_set_is_said(engine):
    status, found = address(engine, method="moa-n7", tokens="x", prompt="Hi")
    for word in ("N = 7", "tokens must be a number"):
        assert word in status["text"]
    assert found["prompt"] == "Hi" and unset(found["method"])
    status, found = address(engine, tab="nowhere", target="x", method="gpt9", tokens="20")
    assert status["text"].startswith(
        "Part of the address was not used: tab must be one of live, compare, "
    )
    assert "target must be fake;" in status["text"] and found["tokens"] == 20
    assert (
        "no gpt9 drafter for this target: choose from moa-n0, moa-n0+ngram, moa-n1, "
        in status["text"]
    )
    assert unset(address(engine, target="fake")[0])
    status, found = address(engine, tli="9", methd="x", tokens="20", __theme="dark", view="api")
    assert "not used: no setting is named tli, methd." in status["text"] and found["tokens"] == 20


def test_a_link_carries_the_settings_and_refuses_long_prompts():
    given = SETTINGS | {"target": "tiny", "prompt": "A & B", "method": "moa", "tli": 2}
    status, query = address_of(tab.ID, given)
    assert query.startswith("?tab=live&target=tiny&method=moa-n2&prompt=A+%26+B&tokens=20")
    assert query.endswith("auto_tree=0") and status["kind"] == "done"
    status, query = address_of(tab.ID, given | {"prompt": "x" * 2000})
    assert query == "" and "1,500 characters" in status["text"]
