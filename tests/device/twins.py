"""For tests: what the browser drafts with, in Python, and what it should draft."""

import base64
import copy
import json
from contextlib import closing, contextmanager
from threading import Thread
from time import sleep

import msgspec
import numpy as np
import torch
import uvicorn
from starlette.applications import Starlette
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from moa_core.decoding.verify import Sampling, choose, walk
from moa_core.drafters.eagle import EagleDrafter, EagleNet
from moa_core.drafters.moa import MoADrafter, MoANet
from moa_core.link.wire import pack as pack_half
from moa_core.model.target import Target
from tests.models import useful

BLANK = "<!doctype html><title>A drafter in the browser</title><link rel=icon href=data:,>"


@torch.no_grad()
def loud(method, target):
    """An untrained drafter that is right now and then, though all its parts have much to say."""
    drafter = useful(method, target)
    torch.manual_seed(1)
    for name, weight in drafter.net.named_parameters():
        if name.startswith("fc."):  # it hands on the embedding
            continue
        if weight.ndim > 1:
            last = name.endswith(("o_proj.weight", "down_proj.weight"))
            weight.normal_(std=0.03 if last else 0.25)
        elif "norm" in name:
            weight.copy_(1 + 0.1 * torch.randn_like(weight))
        else:
            weight.normal_(std=0.1)
    return drafter


def read(file):
    """Header and tensors of a drafter's file, in float32."""
    size = int.from_bytes(file[:4], "little")
    header, body = json.loads(file[4 : 4 + size]), file[4 + size :]
    return header, {name: _tensor(body, place) for name, place in header["tensors"].items()}


def _tensor(body, place):
    shape, count = place["shape"], int(np.prod(place["shape"]))
    if "scales" not in place:
        return torch.tensor(np.frombuffer(body, np.float32, count, place["data"])).view(shape)
    whole = np.frombuffer(body, np.int8, count, place["data"]).astype(np.float32).reshape(shape)
    scales = np.frombuffer(body, np.float32, shape[0], place["scales"])
    return torch.from_numpy(whole * scales[:, None])


def twins(target, drafter, file):
    """Target and drafter with the weights of a file, where it has them."""
    header, tensors = read(file)
    model = copy.deepcopy(target.model)
    layers = model.base_model.layers
    own = {"embed": "embed_tokens.weight", "norm": "norm.weight"}
    with torch.no_grad():
        for name, tensor in tensors.items():
            if name.startswith("tail."):
                _, place, rest = name.split(".", 2)
                first = len(layers) - header["tli"]
                layers[first + int(place)].get_parameter(rest).copy_(tensor)
            elif name in own:
                model.base_model.get_parameter(own[name]).copy_(tensor)
            elif name == "head":
                model.get_output_embeddings().weight.copy_(tensor)
    twin = Target(model, target.tokenizer, target.name)
    if isinstance(drafter, MoADrafter):
        net = MoANet(drafter.net.config)
        made = MoADrafter(net, twin, drafter.tli, drafter.name)
    else:
        net = EagleNet(drafter.net.config)
        made = EagleDrafter(net, twin, drafter.name)
    named = {"sa": "self_attention", "ca": "cross_attention", "eagle": "layers.0", "fc": "fc"}
    state = dict(drafter.net.state_dict())
    for name, tensor in tensors.items():
        first, _, rest = name.partition(".")
        if first in named:
            state[f"{named[first]}.{rest}"] = tensor
    net.load_state_dict(state)
    net.eval().requires_grad_(False)
    return twin, made


@torch.inference_mode()
def replay(target, drafter, file, prompt, tree, count):
    """A greedy run whose trees are drafted with a file's weights: of each cycle the ids learnt, the
    server outputs (MessagePack in base64), the root and the tree."""
    twin, own = twins(target, drafter, file)
    target, capacity = target.fork(), len(prompt) + count + 128
    drafter.open_server(target, capacity)
    own.open(twin, capacity)
    logits, learnt = target.prefill(prompt, capacity)
    token, written, cycles = int(logits.argmax()), 1, []
    while written < count:
        half = drafter.server_outputs(learnt)
        own.observe(learnt.ids, half)
        drafted = own.propose(token, tree)
        packed = base64.b64encode(msgspec.msgpack.encode(pack_half(half, "f32"))).decode()
        found = {
            "tokens": drafted.tokens,
            "parents": drafted.parents,
            "logProbs": drafted.log_probs,
        }
        cycles.append({"ids": learnt.ids, "half": packed, "token": token, **found})
        choices = choose(target.verify(drafted), drafted, 0, Sampling())
        path, token = walk(drafted, choices.tokens)
        learnt = target.keep(path)
        written += len(path) + 1
    return cycles


@torch.inference_mode()
def alone(target, drafter, file, text, count):
    """What a drafter with a file's weights writes by itself after the last token of a text."""
    twin, own = twins(target, drafter, file)
    target, capacity = target.fork(), len(text) + count + 8
    drafter.open_server(target, capacity)
    own.open(twin, capacity)
    _, learnt = target.prefill(text[:-1], capacity)
    own.observe(learnt.ids, drafter.server_outputs(learnt))
    steps = own.alone(text[-1])
    written = [int(next(steps).argmax())]
    while len(written) < count:
        written.append(int(steps.send(written[-1]).argmax()))
    return written


class Page:
    """A blank page, what its drafters need, and /drop, which cuts everybody off: an app in a thread
    until it is closed."""

    def __init__(self, device, port=0):
        async def drop(request):
            for visitor in list(device._server.sessions.values()):
                visitor.abort()
            return Response()

        routes = [Route("/", lambda request: HTMLResponse(BLANK)), Route("/drop", drop)]
        config = uvicorn.Config(
            Starlette(routes=[*routes, device.mount()]), "127.0.0.1", port, log_level="critical",
            lifespan="off", timeout_graceful_shutdown=1,
        )  # fmt: skip
        self.device, self._server = device, uvicorn.Server(config)
        self._thread = Thread(target=self._server.run, name="page")
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive()
            sleep(0.01)
        self.port = self._server.servers[0].sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def close(self):
        """The app ends, and forgets all sessions."""
        self._server.should_exit = True
        self._thread.join(20)

    def last(self):
        """Wait for its end."""
        self._thread.join()


@contextmanager
def serving(device):
    """A page while it is needed."""
    with closing(Page(device)) as page:
        yield page
