"""Runs over an emulated link, to a real server on a tiny bundle: healed, kept, refused."""

import threading

import pytest

from demo.engine import Engine, Request
from demo.inside.view import packed
from demo.live.run import open_trace
from demo.network.run import compare, run
from demo.network.server import Far
from demo.network.settings import CUSTOM, Settings
from demo.network.switch import press
from demo.session import Visit, Visits, guarded
from moa_core.decoding.trace import LinkBack, LinkDown, OfflineToken, Verified
from moa_core.errors import UserError
from moa_core.link.connection import Address, parts_of
from moa_core.link.emulator import LinkSettings, link
from moa_core.loading.load import load_drafter, load_target
from tests.models import save_bundle
from tests.serving import serving

FAST = LinkSettings(rtt_ms=4)
SLOW = LinkSettings(rtt_ms=60)  # some cycles between two updates of the page
NARROW = LinkSettings(rtt_ms=60, down_mbps=0.01)  # a streamed token is some hundredths of a second
PROMPT = "The fox ran home."


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """(engine, far): a tiny bundle, and a server of it that the page was given the address of."""
    folder = tmp_path_factory.mktemp("models")
    save_bundle(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOA_MODELS", str(folder))
        patch.setenv("MOA_CACHE", str(tmp_path_factory.mktemp("cache")))
        target = load_target()
        with serving(target, lambda name: load_drafter(name, target), "open") as (_, port):
            engine = Engine()
            yield engine, Far(engine, Address(f"ws://127.0.0.1:{port}", "open"))


class Asked(Settings):
    """Settings with a link that no slider can say."""

    emulated = FAST


def asked(method="moa-n0", tokens=40, settings=FAST, prompt=PROMPT, **more):
    more = {"alone_rate": 0.0, **more}
    made = Asked("", prompt, method, CUSTOM, 0, 0, 0, 0, 0, tokens=tokens, **more)
    object.__setattr__(made, "emulated", settings)
    return made


def outputs(visit, page, wanted):
    """What a run yields: (status, view, switch), again and again."""
    visit.begin()
    yield from guarded(lambda visit, stop: run(visit, *page, wanted, stop), 3, visit)


def finished(page, wanted):
    visit = Visit()
    *_, (status, _, switch) = outputs(visit, page, wanted)
    assert status["kind"] == "done", status
    assert switch["state"] == "idle" and visit.link is None
    return visit, status["text"]


def local(page, method="moa-n0", tokens=40):
    made = page[0].prepare(Request(PROMPT, method, tokens))
    for _ in made.events:
        pass
    return made.trace.output_ids


@pytest.mark.parametrize("method", ["moa-n0", "moa-n1", "eagle2", "vanilla"])
def test_over_a_link_the_text_is_the_local_runs(page, method):
    visit, said = finished(page, asked(method))
    trace = visit.far.trace
    assert trace.output_ids == local(page, method) and not trace.of(LinkDown)
    assert said.startswith(f"{len(trace.output_ids)} tokens in {trace.target_calls} server calls")
    assert trace.about["link"]["settings"] == FAST.spec and trace.seconds["network"] > 0


def test_numbers_travel_as_asked_for(page):
    bytes_down = {}
    for numbers in ("f32", "int8"):
        visit, _ = finished(page, asked("eagle2", numbers=numbers))
        bytes_down[numbers] = sum(one.received for one in visit.far.trace.of(Verified))
        assert visit.far.trace.about["link"]["numbers"] == numbers
    assert bytes_down["int8"] < bytes_down["f32"]


def test_cut_by_itself_the_drafter_writes_alone_and_the_text_heals(page):
    visit, said = finished(page, asked(cut_after=10, cut_for=2.0, alone_rate=20.0))
    trace = visit.far.trace
    assert len(trace.of(LinkDown)) == len(trace.of(LinkBack)) == 1
    # About a second alone, at twenty tokens a second at most.
    assert 1 <= len(trace.of(OfflineToken)) <= 25
    assert trace.output_ids == local(page) == trace.verified_ids
    assert " confirmed, " in said


def test_cut_by_hand_and_kept_the_text_is_labelled(page, tmp_path):
    visit, back = Visit(), threading.Event()
    seen = []
    for status, _, switch in outputs(
        visit, page, asked(tokens=60, settings=SLOW, back="keep", alone_rate=20.0)
    ):
        seen.append((switch["state"], status["text"]))
        if visit.link and not back.is_set():
            alone = len(visit.far.trace.of(OfflineToken))
            if switch["state"] == "up" and visit.far.trace.of(Verified):
                press(visit.link)
            elif alone:
                press(visit.link)
                back.set()
    trace = visit.far.trace
    [kept] = [event for event in trace.of(Verified) if event.kept]
    alone = [event.token for event in trace.of(OfflineToken)]
    assert list(kept.emitted[: len(alone)]) == alone
    assert ("lost", "The link is lost: the drafter goes on alone.") in seen
    assert "kept; they are the drafter’s, not the target’s." in seen[-1][1]
    # Saved, it opens in the other tabs.
    (tmp_path / "trace.json").write_text(trace.to_json())
    status, view = open_trace(Visit(), str(tmp_path / "trace.json"), "full")
    assert status["kind"] == "done" and f'"kept":{len(alone)}' in view
    assert packed(trace)


def test_a_stop_while_the_link_is_lost_ends_the_run(page):
    visit = Visit()
    for status, _, switch in outputs(visit, page, asked("vanilla", 60, NARROW)):
        if switch["state"] == "up" and visit.far.trace.of(Verified):
            press(visit.link)
        if "nothing goes on" in status["text"]:
            visit.stop()
    assert visit.far.trace.reason == "stopped" and not visit.far.trace.of(OfflineToken)
    assert "stopped by you" in status["text"]


def test_a_visitor_who_leaves_ends_a_run_that_only_waits(page):
    visits = Visits()
    request = type("Asked", (), {"session_hash": "somebody"})()
    visit = visits.arrive(request)
    for status, _, switch in outputs(visit, page, asked("vanilla", 60, NARROW)):
        if switch["state"] == "up" and visit.far.trace.of(Verified):
            press(visit.link)
        if "nothing goes on" in status["text"]:
            visits.leave("somebody")
    assert visit.far.trace.reason == "stopped" and not page[0].busy


def test_two_visitors_have_a_link_each(page):
    one, two = Visit(), Visit()
    first = outputs(one, page, asked(settings=SLOW))
    next(step for step in first if one.link)
    press(one.link)
    assert press(two.link)["state"] == "idle" and one.link.switch["state"] == "cut"
    press(one.link)
    *_, (status, _, _) = first
    assert status["kind"] == "done" and one.far.trace.output_ids == local(page)


def test_a_page_that_is_closed_leaves_no_link_and_no_turn(page):
    visit = Visit()
    steps = outputs(visit, page, asked(tokens=200))
    next(step for step in steps if visit.link)
    link = visit.link.link
    steps.close()
    assert visit.link is None and link.closed and not page[0].busy


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        (asked(settings=link("offline")), "Nothing passes this link"),
        (asked("moa-n3"), "No MoA drafter is trained for TLI N = 3"),
        (asked(prompt=" "), "The prompt is empty"),
    ],
)
def test_what_cannot_run_gets_a_sentence(page, wanted, words):
    *_, (status, *_) = outputs(Visit(), page, wanted)
    assert status["kind"] == "error" and words in status["text"]


def test_a_server_that_cannot_be_reached_gets_a_sentence(page):
    engine, _ = page
    *_, (status, *_) = outputs(Visit(), (engine, Far(engine, Address("ws://127.0.0.1:9"))), asked())
    assert status["kind"] == "error" and "no server at ws://127.0.0.1:9" in status["text"]


def test_a_wrong_token_gets_a_sentence(page):
    engine, far = page
    *_, (status, *_) = outputs(
        Visit(), (engine, Far(engine, Address(far.named.url, "guess"))), asked()
    )
    assert status["kind"] == "error" and "token is wrong" in status["text"]


def compared(page, visit):
    visit.begin()
    *_, (status, view) = guarded(lambda visit, stop: compare(visit, *page, stop), 2, visit)
    return status["text"], view


def test_the_same_run_without_a_link_is_compared_on_demand(page):
    assert "Run a prompt first" in compared(page, Visit())[0]
    visit, _ = finished(page, asked())
    said, view = compared(page, visit)
    count = len(visit.far.trace.output_ids)
    assert said.startswith(f"All {count} tokens are the same without a link. Without a link ")
    assert '"same":true' in view.splitlines()[-1]


def test_what_was_kept_is_why_texts_part(page):
    visit, _ = finished(page, asked("eagle2", 60, back="keep", cut_after=8, cut_for=2.0))
    said, _ = compared(page, visit)
    trace = visit.far.trace
    if trace.output_ids == local(page, "eagle2", 60):
        assert "are the same" in said
    else:
        assert "from there what was written offline was kept" in said


@pytest.mark.parametrize("url", ["elsewhere", "http://host:80", "ws://host", "ws://host:port"])
def test_an_address_that_is_none_is_refused_at_once(url):
    with pytest.raises(UserError, match="no address of a server"):
        Far(Engine(), Address(url))


def test_an_address_has_a_host_and_a_port():
    assert parts_of("ws://example.org:8765/here") == ("example.org", 8765)
    assert parts_of("ws://[::1]:80") == ("::1", 80)


def test_what_a_client_weighs_grows_with_n(page):
    sizes = {}
    for method in ("moa-n0", "moa-n1"):
        visit, _ = finished(page, asked(method, 4))
        sizes[method] = (
            page[1].client().weighs(page[1].client().drafter(method, page[0].spec(method)))
        )
        assert "Download size: " in visit.far.weight
    assert sizes["moa-n0"]["layers"] == 0 < sizes["moa-n1"]["layers"]
    assert sizes["moa-n0"]["embeddings"] == sizes["moa-n1"]["embeddings"] > 0
