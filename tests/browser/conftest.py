"""A browser, and the app as a process of its own on a tiny made-up bundle."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from moa_core.drafters.moa import MoAConfig, MoADrafter, MoANet, Sizes
from moa_core.formats import save_drafter
from moa_core.target import Target
from moa_core.train.tokenizer import train_tokenizer

ROOT = Path(__file__).parents[2]
CHROMIUM = Path("/usr/bin/chromium")
HOSTILE = ("${6*7}", "<b>x</b>", "{{x}}", "`y`", "<script>")
STORY = "Once upon a time there lived an old fox who sang every night beside one quiet river.\n"
TREE = {"depth": 3, "breadth": 3, "budget": 8}


@pytest.fixture(scope="session")
def bundle(tmp_path_factory):
    """A target that recites one text for ever, hostile strings included, and two drafters that
    know it by heart but are disturbed, so that some drafts are accepted and some rejected."""
    folder = tmp_path_factory.mktemp("models")
    torch.manual_seed(0)
    tokenizer = train_tokenizer(iter([STORY] * 20), 600)
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


@pytest.fixture(scope="session")
def app(bundle, tmp_path_factory):
    """The app's address, and when its process was started."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log = tmp_path_factory.mktemp("app") / "log.txt"
    env = os.environ | {"MOA_MODELS": str(bundle), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    started = time.monotonic()
    with log.open("w") as out:
        command = [sys.executable, "app.py", "--port", str(port)]
        process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=out, stderr=out)
    url = f"http://127.0.0.1:{port}/"
    try:
        wait_for(url, process, log)
        yield url, started
    finally:
        process.terminate()
        process.wait(20)


def wait_for(url, process, log):
    """Until the page answers; with the log if it never does."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    for _ in range(240):
        if process.poll() is not None:
            break
        try:
            opener.open(url, timeout=2).close()
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.25)
    pytest.fail(f"the app did not start:\n{log.read_text()[-2000:]}")


@pytest.fixture(scope="session")
def browser():
    if not CHROMIUM.exists():
        pytest.skip("there is no /usr/bin/chromium")
    playwright = pytest.importorskip("playwright.sync_api")
    flags = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
    with playwright.sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=str(CHROMIUM), args=flags)
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser, app):
    """A fresh visitor's page, ready to run. Fails on a console error or a request to elsewhere."""
    trouble = []
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.set_default_timeout(20_000)
    page.on("console", lambda said: trouble.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on(
        "request", lambda request: trouble.append(request.url) if outside(request.url) else None
    )
    page.goto(app[0])
    page.wait_for_selector("#run:not([disabled])")
    page.wait_for_selector(".token-view .tiles")
    yield page
    context.close()
    assert not trouble, json.dumps(trouble, indent=1)


def outside(url):
    return not url.startswith(("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:"))
