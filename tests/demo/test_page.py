"""The page around the tabs: who may open it, what a Space decides, links, style sheets."""

import json
import re
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager
from urllib.parse import parse_qsl

import gradio as gr
import pytest

from demo.access import MOST_PASSWORD, door, is_password
from demo.common.theme import CSS
from demo.compare import tab as compare
from demo.engine import Engine
from demo.share import address_of, query_of, settings_of
from demo.space import BUNDLE, GPU_PRESET, NUMBERS, chosen_preset, number
from demo.ui import ICON, build_demo, launch_options
from moa_core.errors import UserError
from moa_core.loading.presets import PRESETS
from tests.demo.conftest import opened, unset
from tests.serving import fetched

SECRET = "tok-5f1c9e-SECRET"


@pytest.mark.parametrize("host", [None, "127.0.0.1", "127.9.9.9", "localhost", "::1", "[::1]"])
def test_this_machine_needs_no_password(host):
    said = "[::1]" if host == "::1" else host  # as gradio wants it
    assert door(host, "", False, {}) == {"server_name": said, "share": False}


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "", "192.168.1.5", "example.org", "localhost.example.org"]
)
def test_others_need_one_or_it_must_be_meant(host):
    for environ, given in (({}, host), ({"GRADIO_SERVER_NAME": host}, None)):
        with pytest.raises(UserError, match=r"MOA_PASSWORD.* or give --open-to-all"):
            door(given, "", False, environ)
        assert "auth" not in door(given, "", True, environ)
        assert door(given, "x", False, environ)["auth"]("anybody", "x")
        assert door(given, "", False, environ | {"SPACE_ID": "a/b"})["share"] is False


def test_a_password_is_compared_and_not_shown():
    password = is_password(SECRET)
    assert password("me", SECRET) and SECRET not in repr(password)
    for wrong in ("", "x", SECRET[:-1], SECRET + "x", "é" * 999, "\ud800"):
        assert not password(SECRET, wrong)
    assert door("0.0.0.0", "é" * MOST_PASSWORD, False, {})["auth"]("me", "é" * MOST_PASSWORD)
    with pytest.raises(UserError, match="201 characters long: use at most 200"):
        door("127.0.0.1", "x" * 201, False, {})


@contextmanager
def launched(**options):
    """The address of a page with a box."""
    with gr.Blocks() as page:
        gr.Textbox("inside")
    _, url, _ = page.launch(quiet=True, prevent_thread_lock=True, **options)
    try:
        yield url
    finally:
        page.close()


def test_nobody_sees_the_page_without_its_password():
    with launched(**launch_options(Engine()), **door("127.0.0.1", SECRET, False, {})) as url:
        for path in ("config", "gradio_api/info", "gradio_api/file=/etc/passwd",
                     "device/facts/moa-n0"):  # fmt: skip
            with pytest.raises(urllib.error.HTTPError) as refused:
                ask(url + path)
            assert refused.value.code == 401
        assert b'"inside"' not in ask(url).read()
        with pytest.raises(urllib.error.HTTPError):
            ask(url + "login", username="me", password="guess")
        cookie = ask(url + "login", username="me", password=SECRET).headers["set-cookie"]
        told = ask(url + "config", cookie.partition(";")[0]).read()
        assert b'"inside"' in told and SECRET.encode() not in told


def ask(url, cookie="", **form):
    data = urllib.parse.urlencode(form).encode() if form else None
    request = urllib.request.Request(url, data, {"Cookie": cookie} if cookie else {})
    return fetched(request)


def test_secrets_are_shown_nowhere_and_no_link_carries_them(loads, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", f"hf_{SECRET}")
    monkeypatch.setenv("MOA_TOKEN", SECRET)
    page = build_demo(Engine())
    assert SECRET not in json.dumps(page.get_config_file(), default=str)
    assert SECRET not in json.dumps(page.get_api_info(), default=str)
    secrets = {"token": SECRET, "password": SECRET, "server": f"ws://{SECRET}", "HF_TOKEN": SECRET}
    assert query_of(secrets | {"seed": 3}) == "seed=3"
    assert settings_of({**secrets, "seed": "3"}) == ({"seed": 3}, [])


# ---- a Space ----


def test_a_space_has_a_preview_picture_and_any_page_an_icon(monkeypatch):
    """Wherever the program was started: a Space's address of it names the whole path."""
    assert "og:image" not in launch_options(Engine())["head"]
    monkeypatch.setenv("SPACE_HOST", "someone-moa.hf.space")
    monkeypatch.setattr("demo.ui.PREVIEW", ICON)  # any picture
    options = launch_options(Engine())
    [path] = re.findall(r"https://someone-moa.hf.space/(gradio_api/file=\S+?)\"", options["head"])
    with launched(**options) as url:
        assert ask(url + path).read() == ICON.read_bytes()
        assert ask(url + "favicon.ico").read() == ICON.read_bytes()


SPACE, TOKEN = {"SPACE_ID": "someone/moa"}, {"HF_TOKEN": "hf_secret"}


@pytest.mark.parametrize(
    ("environ", "cuda", "preset", "words"),
    [
        ({}, True, None, ""), ({}, False, None, ""),
        ({"MOA_PRESET": GPU_PRESET}, False, GPU_PRESET, ""),
        (SPACE | TOKEN, True, GPU_PRESET, ""),
        (SPACE | TOKEN | {"MOA_PRESET": "another"}, True, "another", ""),
        (SPACE, True, None, "no secret HF_TOKEN"),
        (SPACE | {"HF_TOKEN": " "}, True, None, GPU_PRESET),
        (SPACE, False, None, "no GPU"), (SPACE | TOKEN, False, None, "no GPU"),
        (SPACE | TOKEN | {"MOA_PRESET": BUNDLE}, True, None, ""),
        (SPACE | {"MOA_PRESET": BUNDLE}, False, None, ""),
    ],
)  # fmt: skip
def test_which_models_a_space_runs_and_what_it_says_of_them(environ, cuda, preset, words):
    found, note = chosen_preset(environ, cuda)
    assert found == preset and words in note and "hf_secret" not in note
    assert bool(words) == bool(note)
    assert GPU_PRESET in PRESETS and BUNDLE not in PRESETS


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_have_defaults_and_bounds(name):
    default, low, high = NUMBERS[name]
    assert number({}, name) == number({name: " "}, name) == default
    assert number({name: f" {low} "}, name) == low and number({name: str(high)}, name) == high
    for wrong in (str(low - 1), str(high + 1), "many", "1.5", "-3", "²", "9" * 5000):
        with pytest.raises(UserError, match=f"{name} is .*from {low} to {high}"):
            number({name: wrong}, name)


# ---- links ----

SETTINGS = {
    "target": "tiny", "method": "moa-n1", "prompt": "A fox & a hen?\n100 % ${6*7} <b> é 🦊",
    "tokens": 64, "depth": 4, "breadth": 3, "budget": 10,
    "temperature": 0, "top_p": 0.9, "seed": 7,
}  # fmt: skip
COMPARED = {
    "methods": ["moa-n0", "vanilla"], "repeats": 2, "auto_tree": 0, "tokens": 48,
    "temperature": 0.5, "seed": 3, "depth": 4, "breadth": 2, "budget": 9,
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tokens", "many"), ("tokens", "0"), ("tokens", "513"), ("depth", "-1"), ("seed", "1e3"),
        ("temperature", "nan"), ("temperature", "inf"), ("top_p", "0"), ("budget", ""),
    ],
)  # fmt: skip
def test_settings_come_back_but_for_one_that_cannot_be_used_which_is_named(name, value):
    given = dict(parse_qsl(query_of(SETTINGS)))
    assert settings_of(given) == (SETTINGS, [])
    found, [sentence] = settings_of(given | {name: value})
    assert found == {other: SETTINGS[other] for other in SETTINGS if other != name}
    assert sentence.startswith(f"{name} must be a number from")


def brought(query):
    """(status, {name: value}) of an address of Side by side."""
    return opened(compare, compare.LINKED, Engine(), dict(parse_qsl(query.removeprefix("?"))))


def test_a_comparison_comes_back_as_it_was(loads):
    given = COMPARED | {"prompt": "A & B", "target": "fake"}
    status, query = address_of("compare", given)
    assert status["kind"] == "done" and "prompt=A+%26+B" in query and "tokens=48" in query
    status, found = brought(query)
    assert unset(status) and found == COMPARED
    assert brought(query.replace("&auto_tree=0", ""))[1] == COMPARED  # a shape is a fixed one


def test_an_address_of_a_comparison_says_which_methods_it_cannot_use(loads):
    status, found = brought("?tab=compare&methods=moa-n1,moa-n7,magic,moa,moa-n1&seed=4")
    for word in ("N = 7", "magic", "no moa drafter", "choose from moa-n0, moa-n0+ngram, moa-n1"):
        assert word in status["text"]
    assert ".;" not in status["text"]
    assert (found["methods"], found["seed"]) == (["moa-n1"], 4) and unset(found["repeats"])
    assert all(unset(value) for value in brought("?tab=live&repeats=2")[1].values())


# ---- style sheets and scripts ----


@pytest.mark.parametrize("path", CSS, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_selectors_survive_gradios_prefixer(path):
    """It splits selectors at every comma, and in @media it puts its own container before them."""
    bare = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.S)
    for selector in re.findall(r"([^{};]+)\{", bare):
        if not selector.strip().startswith("@"):
            assert not re.search(r"\([^()]*,", selector), selector
    for block in re.findall(r"@media[^{]*\{((?:[^{}]*\{[^{}]*\})*)", bare):
        assert not re.search(r"(^|[,{}])\s*(\.gradio-container|\.dark|:root|body)\b", block), block
