"""Who may open the page, how much one visitor may have, and what no page shows."""

import json
import urllib.error
import urllib.parse
import urllib.request

import gradio as gr
import pytest

from demo.access import MOST_PASSWORD, Password, door
from demo.compare.run import Plan
from demo.engine import MOST_NEW_TOKENS, Engine, Request, check_length
from demo.share import query_of, settings_of
from demo.ui import build_demo, launch_options
from moa_core.decoding.tree import TreeSettings
from moa_core.decoding.verify import Sampling
from moa_core.errors import UserError
from moa_core.link.connection import Address
from moa_core.text import LONGEST_PROMPT

SECRET = "tok-5f1c9e-SECRET"
HERE = (None, "127.0.0.1", "127.9.9.9", "localhost", "::1", "[::1]")
ELSEWHERE = ("0.0.0.0", "::", "", "192.168.1.5", "example.org", "localhost.example.org")


@pytest.mark.parametrize("host", HERE)
def test_this_machine_needs_no_password(host):
    assert door(host, "", False, {}) == {"server_name": host, "share": False}


@pytest.mark.parametrize("host", ELSEWHERE)
def test_others_need_one_or_it_must_be_meant(host):
    for environ, given in (({}, host), ({"GRADIO_SERVER_NAME": host}, None)):
        with pytest.raises(UserError, match=r"MOA_PASSWORD .* or give --open-to-all"):
            door(given, "", False, environ)
        assert "auth" not in door(given, "", True, environ)
        assert door(given, "x", False, environ)["auth"]("anybody", "x")
        assert door(given, "", False, environ | {"SPACE_ID": "a/b"})["share"] is False


def test_the_page_refuses_to_start_where_others_come(monkeypatch, capsys):
    """Before anything is loaded."""
    import runpy

    monkeypatch.setattr("sys.argv", ["app.py", "--host", "0.0.0.0"])
    monkeypatch.setattr("demo.ui.build_demo", lambda *_: pytest.fail("it goes on"))
    with pytest.raises(SystemExit) as ended:
        runpy.run_path("app.py", run_name="__main__")
    assert ended.value.code == 2 and "MOA_PASSWORD" in capsys.readouterr().err


def test_a_password_that_nobody_could_give_is_refused():
    options = door("0.0.0.0", "é" * MOST_PASSWORD, False, {})
    assert options["auth"]("me", "é" * MOST_PASSWORD)
    with pytest.raises(UserError, match="201 characters long, and 200 is the most"):
        door("127.0.0.1", "x" * 201, False, {})


def test_a_password_is_compared_and_not_shown():
    password = Password(SECRET)
    assert password("me", SECRET) and SECRET not in repr(password)
    for wrong in ("", "x", SECRET[:-1], SECRET + "x", "é" * 999, "\ud800"):
        assert not password(SECRET, wrong)


def test_nobody_sees_the_page_without_its_password():
    with gr.Blocks() as page:
        gr.Textbox("inside")
    options = {**launch_options(), **door("127.0.0.1", SECRET, False, {})}
    _, url, _ = page.launch(quiet=True, prevent_thread_lock=True, **options)
    try:
        for path in ("config", "gradio_api/info", "gradio_api/file=/etc/passwd"):
            with pytest.raises(urllib.error.HTTPError) as refused:
                ask(url + path)
            assert refused.value.code == 401
        assert b'"inside"' not in ask(url).read()
        with pytest.raises(urllib.error.HTTPError):
            ask(url + "login", username="me", password="guess")
        cookie = ask(url + "login", username="me", password=SECRET).headers["set-cookie"]
        told = ask(url + "config", cookie.partition(";")[0]).read()
        assert b'"inside"' in told and SECRET.encode() not in told
    finally:
        page.close()


def ask(url, cookie="", **form):
    data = urllib.parse.urlencode(form).encode() if form else None
    request = urllib.request.Request(url, data, {"Cookie": cookie} if cookie else {})
    return urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=10)


# ---- how much one visitor may have ----


def test_new_tokens_are_limited_wherever_they_are_asked_for(loads):
    with pytest.raises(UserError, match="At most 512 new tokens"):
        check_length(Request("Hi", max_new_tokens=MOST_NEW_TOKENS + 1))
    engine = Engine()
    plan = Plan("Hi", ("moa-n1", "vanilla"), 1, MOST_NEW_TOKENS + 1)
    with pytest.raises(UserError, match="At most 512"):
        engine.prepare(plan.request("moa-n1"))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Plan("Hi", ("moa-n1", "vanilla"), 6), lambda: Plan("Hi", ("vanilla",) * 2),
        lambda: Plan("Hi", tuple(f"moa-n{n}" for n in range(5))), lambda: TreeSettings(33),
        lambda: TreeSettings(1, 65), lambda: TreeSettings(1, 1, 1025), lambda: Sampling(1e9),
        lambda: Sampling(seed=10**30), lambda: Sampling(seed="x" * 10**6),
    ],
)  # fmt: skip
def test_no_setting_is_without_a_limit(wrong):
    with pytest.raises(UserError):
        wrong()


def test_a_prompt_is_limited(loads):
    for request in (Request("x" * (LONGEST_PROMPT + 1)), Request("word " * 600)):
        with pytest.raises(UserError, match="Shorten it"):
            Engine().prepare(request)


# ---- what no page shows ----


def test_the_page_knows_a_server_s_token_and_shows_it_nowhere(loads, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", f"hf_{SECRET}")
    monkeypatch.setenv("MOA_TOKEN", SECRET)
    page = build_demo(Engine(), Address("ws://127.0.0.1:1", SECRET))
    assert SECRET not in json.dumps(page.get_config_file(), default=str)
    assert SECRET not in json.dumps(page.get_api_info(), default=str)


def test_a_link_carries_what_it_is_meant_to_and_nothing_else():
    secrets = {"token": SECRET, "password": SECRET, "server": f"ws://{SECRET}", "HF_TOKEN": SECRET}
    assert query_of(secrets | {"seed": 3}) == "seed=3"
    found, [complaint] = settings_of({**secrets, "seed": "3"})
    assert found == {"seed": 3} and "no setting token" in complaint and SECRET not in complaint
