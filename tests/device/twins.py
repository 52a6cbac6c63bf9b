"""For tests: what the browser drafts with, in Python, and what it should draft."""

import base64
from contextlib import closing, contextmanager
from threading import Thread
from time import sleep

import msgspec
import numpy as np
import onnxruntime
import torch
import uvicorn
from starlette.applications import Starlette
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from moa_core.decoding.verify import Sampling, choose, walk
from moa_core.engine.session import rows
from moa_core.engine.web import web_drafter, web_files
from moa_core.link.wire import pack as pack_half
from moa_core.link.wire import unpack
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


def packed_session(files):
    """The graph as it is downloaded, in Python."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    names = ["head", "layers"]
    sizes = [len(files[name]) for name in names]
    options.add_external_initializers_from_files_in_memory(
        names, [files[name] for name in names], sizes
    )
    return onnxruntime.InferenceSession(files["draft"], options, ["CPUExecutionProvider"])


def twin(target, drafter):
    """The drafter as a browser has it, in Python: its graph, run by onnxruntime."""
    files, kind = web_files(drafter, target), type(web_drafter(drafter, target))
    draft = packed_session(files)
    words = torch.arange(len(target.embed.weight))
    words = words if drafter.vocabulary is None else drafter.vocabulary
    places = {int(word): place for place, word in enumerate(words)}

    class Twin(kind):
        _table = None

        def session(self):
            return draft

        def _embedded(self, tokens):
            known = np.array([places.get(int(token), -1) for token in tokens])
            outside = target.embed.weight[torch.as_tensor(tokens)].numpy()[None]
            return {"places": known, "outside": outside}

        def _ask(self, run, tokens, start, past, seen, **more):
            count = len(tokens)
            at = range(start, start + count) if seen is None else [start] * count
            inputs = {**rows(tokens, at, past, seen), **more, **self._embedded(tokens)}
            del inputs["tokens"]
            kept = 1 if seen is None else count
            shapes = {"logits": (1, kept, len(words))}
            shapes |= {f"new.{name}": (1, kept, target.config.hidden_size) for name in more}
            logits, *found = run(inputs, shapes)
            return [logits[0], *found]

    return Twin(drafter, target, True)


@torch.inference_mode()
def replay(target, drafter, prompt, tree, count, kind="f32"):
    """A greedy run whose trees are drafted as in a browser: of each cycle the ids learnt, the root,
    the server half (MessagePack in base64) and the tree."""
    own = twin(target, drafter)
    target, capacity = target.fork(), len(prompt) + count + 128
    drafter.open_server(target, capacity)
    own.open(target, capacity)
    logits, learnt = target.prefill(prompt, capacity)
    token, written, cycles = int(logits.argmax()), 1, []
    while written < count:
        packed = pack_half(drafter.server_outputs(learnt), kind)
        own.observe(learnt.ids, unpack(packed, torch.float32, torch.device("cpu")))
        drafted = own.propose(token, tree)
        packed = base64.b64encode(msgspec.msgpack.encode(packed)).decode()
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
def alone(target, drafter, text, count):
    """What a drafter writes by itself after the last token of a text, as in a browser."""
    own = twin(target, drafter)
    target, capacity = target.fork(), len(text) + count + 8
    drafter.open_server(target, capacity)
    own.open(target, capacity)
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
        self._thread.join()


@contextmanager
def serving(device):
    with closing(Page(device)) as page:
        yield page
