"""A browser, and the app as a process of its own on a tiny made-up bundle."""

import json
import os
import sys
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from demo.engine import Engine
from demo.live.recording import record
from moa_core.drafters.eagle import EagleConfig, EagleDrafter, EagleNet
from moa_core.drafters.moa import MoAConfig, MoADrafter, MoANet, Sizes
from moa_core.loading.drafter_files import save_drafter
from moa_core.model.target import Target
from tests.models import made_tokenizer
from tests.serving import free_port, page_of

ROOT = Path(__file__).parents[2]
HOSTILE = ("${6*7}", "<b>x</b>", "{{x}}", "`y`", "<script>")
STORY = "Once upon a time there lived an old fox who sang every night beside one quiet river.\n"
LOOKS = [(1280, 800, "light"), (390, 844, "dark")]  # each test of a look sees both themes
CHARTS_FIT = """() => [...document.querySelectorAll(".js-plotly-plot .main-svg")].every(
    (chart) => chart.getBoundingClientRect().width <= window.innerWidth)"""
TREE = {"depth": 3, "breadth": 3, "budget": 8}


@pytest.fixture(scope="session")
def bundle(tmp_path_factory):
    """A target that recites one text for ever, hostile strings included, and drafters that
    know it by heart but are disturbed, so that some drafts are accepted and some rejected."""
    folder = tmp_path_factory.mktemp("models")
    torch.manual_seed(0)
    tokenizer = made_tokenizer([STORY] * 20, 600)
    tokenizer.add_tokens(list(HOSTILE))
    text = tokenizer.encode("".join(f"{word} " for word in HOSTILE) + STORY)
    text = list(dict.fromkeys(text))  # each token has one that follows it
    config = LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=64, intermediate_size=32, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=1024,
        eos_token_id=tokenizer.eos_token_id, tie_word_embeddings=False,
    )  # fmt: skip
    model = LlamaForCausalLM(config)
    memorise(model, [tokenizer.encode("<|assistant|>")[0], *text, text[0]])
    model.save_pretrained(folder / "tiny")
    tokenizer.save_pretrained(folder / "tiny")
    target = Target(model, tokenizer, "tiny")
    for tli, noise in ((0, 12.0), (1, 14.0)):
        drafter = MoADrafter(disturbed(target, noise), target, tli)
        save_drafter(folder / f"moa-n{tli}", drafter, target, {"tree": TREE}, torch.float32)
    save_drafter(
        folder / "eagle2", EagleDrafter(disturbed_eagle(40.0), target), target, {"tree": TREE},
        torch.float32,
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOA_MODELS", str(folder))
        record(Engine(), 1)  # the first screen's run
    return folder


@torch.no_grad()
def memorise(model, text):
    """Make the model answer each token of a text with the next one, whatever came before."""
    for layer in model.model.layers:
        layer.self_attn.o_proj.weight.zero_()
        layer.mlp.down_proj.weight.zero_()
    embedding = torch.randn_like(model.model.embed_tokens.weight)
    model.model.embed_tokens.weight.copy_(embedding)
    head = torch.randn_like(model.lm_head.weight) / 8
    head[text] = 0
    for token, following in pairwise(text):
        head[following] += embedding[token] / embedding[token].norm()
    model.lm_head.weight.copy_(head)


@torch.no_grad()
def disturbed(target, noise):
    """A random MoA net that passes its input on, with noise added."""
    sizes = Sizes(4, 2, 16, 32)
    lsa = Sizes(4, 4, target.kv_width // 4, 32)
    net = MoANet(MoAConfig(target.config.hidden_size, target.kv_width, sizes, sizes, lsa, 1e-6))
    net.self_attention.self_attn.o_proj.weight *= noise
    net.cross_attention.self_attn.o_proj.weight *= noise
    return net


@torch.no_grad()
def disturbed_eagle(noise):
    """A random EAGLE net that passes its token's embedding on, with noise added."""
    net = EagleNet(EagleConfig(64, 4, 2, 16, 32, 1e-6))
    net.fc.weight.copy_(torch.cat([torch.eye(64), torch.zeros(64, 64)], 1))
    net.fc.bias.zero_()
    net.layers[0].self_attn.o_proj.weight *= noise
    return net


@contextmanager
def running_app(bundle, log):
    """A process of the app: its address."""
    port = free_port()
    env = os.environ | {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    env |= {"MOA_MODELS": str(bundle), "MOA_CACHE": str(log.parent / "cache")}
    command = [sys.executable, "app.py", "--port", str(port)]
    with page_of(command, port, log, cwd=ROOT, env=env) as url:
        yield url


@pytest.fixture(scope="session")
def window(browser):
    return browser.new_context()


def new_tab(window, look=LOOKS[0]):
    page = window.new_page()
    page.set_default_timeout(60_000)  # for the busiest machines; others need a hundredth
    return looks(page, look)


def looks(page, look=LOOKS[0]):
    """The page in front, as it is for this look: one behind another is painted once a second."""
    width, height, scheme = look
    page.bring_to_front()
    page.emulate_media(color_scheme=scheme, reduced_motion="no-preference")
    page.set_viewport_size({"width": width, "height": height})
    return page


@pytest.fixture(scope="session")
def app(bundle, window, tmp_path_factory):
    """The app's address. Its models are loaded, and a first run has ended."""
    with running_app(bundle, tmp_path_factory.mktemp("app") / "log.txt") as url:
        page = new_tab(window)
        page.goto(url)
        page.wait_for_selector("#machine .status-line:has-text('Target tiny')")
        page.click("#run")
        page.wait_for_selector("#stage[data-run=done]")
        page.close()
        yield url


def listen(page, within):
    """A list that gets every error of the page, and every request to an address elsewhere."""
    said = []
    page.on("console", lambda one: said.append(one.text) if one.type == "error" else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda one: None if one.url.startswith(within) else said.append(one.url))
    return said


HERE = ("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:")
CUT_OFF = ("signal is aborted", "Connection errored out", "BodyStreamBuffer was aborted")
OFFLINE = "ERR_INTERNET_DISCONNECTED"  # a test has no network for a moment


@contextmanager
def without_network(page):
    """For a moment; the context's other pages, too."""
    page.context.set_offline(True)
    try:
        yield
    finally:
        page.context.set_offline(False)


@contextmanager
def visitor(window, app):
    """Gives open_page(address="", look=LOOKS[0], ready="body"): a fresh visitor's page.

    It waits until the models are there, and for the selector `ready`. Any console error and any
    request to elsewhere fails the test. Not so what gradio's client says of requests under way when
    a page was loaded again: the browser cuts them off.
    """
    trouble = {}

    def opened(address="", look=LOOKS[0], ready="body"):
        page = new_tab(window, look)
        said = trouble[page] = listen(page, HERE)

        def loaded(_):
            said[:] = [text for text in said if not any(words in text for words in CUT_OFF)]

        page.on("domcontentloaded", loaded)
        page.goto(app + address)
        page.wait_for_selector("#machine .status-line:has-text('Target tiny')")
        page.wait_for_selector(ready)
        return page

    yield opened
    for page in trouble:
        page.close()
    faults = [text for said in trouble.values() for text in said if OFFLINE not in text]
    assert not faults, json.dumps(faults, indent=1)


@pytest.fixture
def open_page(window, app):
    with visitor(window, app) as opened:
        yield opened


@pytest.fixture(scope="module")
def shared(request, window, app):
    """The page of a module's ADDRESS, once the module's READY is there."""
    with visitor(window, app) as opened:
        yield opened(request.module.ADDRESS, ready=request.module.READY)


@pytest.fixture
def page(shared):
    """It again, as the tests before have left it, but for its look."""
    return looks(shared)


SETTLE = """() => document.getAnimations().filter(one => one instanceof CSSTransition)
  .forEach(one => one.finish())"""


def both_themes(page):
    """The page in the theme that it has, then in the other, as if the system had changed to it."""
    dark = "document.body.classList.contains('dark')"
    first = "dark" if page.evaluate(dark) else "light"
    for scheme in (first, {"dark": "light", "light": "dark"}[first]):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function(f"dark => {dark} === dark", arg=scheme == "dark")
        page.evaluate(SETTLE)  # colours change slowly
        yield scheme


def every_look(page):
    """The page at both widths, in both themes; charts fit, and nothing makes it scroll sideways."""
    for width, height, _ in LOOKS:
        page.set_viewport_size({"width": width, "height": height})
        page.wait_for_function(CHARTS_FIT)
        yield from both_themes(page)
        page.wait_for_function("document.documentElement.scrollWidth <= window.innerWidth")


def keep_picture(page, name):
    """A screenshot of the whole page, where MOA_SCREENSHOTS names a folder for them."""
    folder = os.environ.get("MOA_SCREENSHOTS")
    if folder:
        size = page.viewport_size
        scheme = "dark" if page.evaluate("document.body.classList.contains('dark')") else "light"
        file = Path(folder) / f"{name}-{size['width']}-{scheme}.png"
        page.screenshot(path=file, full_page=True)
