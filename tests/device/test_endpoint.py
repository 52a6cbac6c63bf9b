"""The endpoint of drafters in browsers: who may come in, how much they may send, what is cached."""

import gzip
import json
import random
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from socket import create_connection

import msgspec
import psutil
import pytest
import torch
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.sync.client import connect

from demo.device.endpoint import MOST_BODY, Device
from demo.device.weights import PART, pack
from moa_core.drafters.base import Vanilla
from moa_core.link import wire
from moa_core.link.client_weights import drafter_mark
from moa_core.link.session import Limits
from moa_core.text import prompt_ids
from tests.device.twins import serving
from tests.models import plain_greedy, tiny_target, tiny_tokenizer, useful
from tests.serving import fetched, until

TOKENIZER = tiny_tokenizer()
TARGET = tiny_target(vocab_size=len(TOKENIZER))
TARGET.tokenizer = TOKENIZER
DRAFTER = useful("moa-n0", TARGET)
HELLO = wire.Hello(wire.VERSION, drafter="moa-n0", fingerprint=drafter_mark(DRAFTER), kind="f32")
LIMITS = Limits(sessions=3, context=200)


@pytest.fixture
def page():
    with serving(Device(lambda: TARGET, lambda name: DRAFTER, LIMITS, each=4)) as page:
        yield page


@contextmanager
def visit(page, hello=HELLO, origin=""):
    """A connection as a page of this server makes it, or one of elsewhere."""
    where = page.url if origin == "" else origin
    with connect(
        f"ws://127.0.0.1:{page.port}/device/link", origin=where, compression=None, proxy=None,
        ping_interval=None, close_timeout=1,
    ) as found:  # fmt: skip
        if hello is not None:
            found.send(wire.encode(hello))
        yield found


def hear(socket):
    joiner = wire.Joiner()
    while True:
        message = joiner.take(socket.recv(20))
        if message not in (None, wire.Alive()):
            return message


def get(url, body=None, **headers):
    """Status, headers and content. body: to be sent along."""
    try:
        with fetched(urllib.request.Request(url, body, headers)) as found:
            return found.status, dict(found.headers), found.read()
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers), error.read()


def refused(page, **how):
    with pytest.raises(InvalidStatus, match="403"), visit(page, **how):
        pass
    return True


def test_only_its_own_page_comes_in_and_only_who_is_welcome(page):
    elsewhere = (None, "http://elsewhere.example", "http://127.0.0.1:1", "null", "http://[")
    assert all(refused(page, origin=origin) for origin in elsewhere)
    device = Device(lambda: TARGET, lambda name: DRAFTER, welcome=lambda visitor: False)
    with serving(device) as closed:
        assert refused(closed)
        assert get(f"{closed.url}/device/facts/moa-n0")[0] == 401
        assert get(f"{closed.url}/device/ids", b'{"text": "Hi"}')[0] == 401


def test_connections_from_one_address_are_few_and_places_are_given_back(page):
    with ExitStack() as held:
        for _ in range(4):
            held.enter_context(visit(page, hello=None))
        assert refused(page)
    assert until(lambda: page.device._here.total() == 0)
    with visit(page) as again:
        assert isinstance(hear(again), wire.Welcome)


@pytest.mark.parametrize(
    ("hello", "frames", "answers"),
    [
        (None, [b"\x00" * (wire.MOST_HELLO + 1)], wire.Refused),
        (None, [b"\xc1"], wire.Refused),
        (None, ["text"], wire.Refused),
        (None, [wire.encode(wire.Hello(wire.VERSION + 1))], wire.Refused),
        (HELLO, [b"\x00" * (wire.MOST_UP + 1)], object),
        (HELLO, [wire.encode(wire.Prefill(1, [1] * 150, 180))] * 200, object),
    ],
    ids=["long hello", "garbage", "text", "other version", "long", "flood"],
)
def test_what_cannot_be_read_or_held_ends_the_connection(hello, frames, answers, page):
    with visit(page, hello) as socket:
        assert not hello or isinstance(hear(socket), wire.Welcome)
        with pytest.raises(ConnectionClosed):
            for frame in frames:
                socket.send(frame)
            while True:
                assert isinstance(hear(socket), answers)
    assert until(lambda: page.device._here.total() == 0)


def write(page, prompt, count):
    """What a client decodes plainly, a token a question."""
    with visit(page) as socket:
        assert isinstance(hear(socket), wire.Welcome)
        socket.send(wire.encode(wire.Prefill(1, prompt, 100)))
        told = [hear(socket).token]
        for place in range(count - 1):
            question = wire.Verify(2 + place, len(prompt) + place, [told[-1]], [-1])
            socket.send(wire.encode(question))
            while not isinstance(answer := hear(socket), wire.Answer):
                assert isinstance(answer, wire.Share)
            told.append(answer.tokens[0])
    return told


@pytest.mark.parametrize("frames", [50, pytest.param(10_000, marks=pytest.mark.slow)])
def test_twenty_at_once_have_texts_of_their_own_whatever_others_send(frames):
    """One sends garbage, each frame from a connection of its own, let in or not; some say nothing,
    and some do not even end their request."""
    prompts = [[5 + one, 9, 33 - one, 2 + one] for one in range(20)]
    garbage = random.Random(0)

    def disturb(page):
        for one in range(frames):
            hello = HELLO if one % 2 else None
            with suppress(OSError, WebSocketException), visit(page, hello) as socket:
                socket.send(garbage.randbytes(garbage.randrange(1, 2 * wire.MOST_HELLO)))
                while True:
                    hear(socket)

    limits = Limits(sessions=24, context=200)
    device = Device(lambda: TARGET, lambda name: DRAFTER, limits, each=40)
    before = psutil.Process().memory_info().rss
    with serving(device) as page, ExitStack() as silent, ThreadPoolExecutor(21) as threads:
        for _ in range(8):
            silent.enter_context(visit(page, hello=None))
        for _ in range(100):
            half = silent.enter_context(create_connection(("127.0.0.1", page.port)))
            half.sendall(b"GET /device/link HTTP/1.1\r\nHost:")
        bad = threads.submit(disturb, page)
        found = list(threads.map(lambda prompt: write(page, prompt, 30), prompts))
        bad.result()
        assert found == [plain_greedy(TARGET, prompt, 30) for prompt in prompts]
        assert until(lambda: device._here.total() <= 8 and not device._server.sessions)
    grown = (psutil.Process().memory_info().rss - before) / 2**20
    print(f"{frames} frames, 20 texts: {grown:.0f} MB more")
    assert grown < 150


def test_parts_are_named_by_their_hash(page):
    status, _, body = get(f"{page.url}/device/facts/moa-n0")
    facts, (made, _) = json.loads(body), pack(TARGET, DRAFTER)
    assert status == 200 and facts == json.loads(json.dumps(made))
    assert facts["special"] == TOKENIZER.all_special_ids
    for name, size, sent in (part for file in facts["files"].values() for part in file):
        status, headers, body = get(f"{page.url}/device/parts/{name}")
        assert status == 200 and "immutable" in headers["cache-control"]
        assert headers["content-encoding"] == "gzip" and len(body) == sent
        whole = gzip.decompress(body)
        assert len(whole) == size and sha256(whole).hexdigest().startswith(name)
        assert size <= PART
    assert get(f"{page.url}/device/parts/{'0' * 32}")[0] == 404
    with serving(Device(lambda: TARGET, lambda name: Vanilla())) as other:
        status, _, body = get(f"{other.url}/device/facts/vanilla")
    assert status == 404 and b"cannot draft in a browser" in body


def test_embeddings_outside_the_vocabulary_come_with_the_text():
    """Of the prompt with its shares, the first token's with the last one, later with answers."""
    drafter = useful("moa-n0", TARGET)
    drafter.vocabulary = torch.tensor([5, 9, 33])
    hello = msgspec.structs.replace(HELLO, fingerprint=drafter_mark(drafter))
    prompt = [5, 2, 9, *range(60, 80)]
    device = Device(lambda: TARGET, lambda name: drafter, LIMITS)
    with serving(device) as page, visit(page, hello) as socket:
        assert isinstance(hear(socket), wire.Welcome)
        socket.send(wire.encode(wire.Prefill(1, prompt, 100)))
        told = [hear(socket).token]
        sent = [hear(socket).half["rows"] for _ in range(0, len(prompt), wire.SHARE)]
        socket.send(wire.encode(wire.Verify(2, len(prompt), told, [-1])))
        answer = hear(socket)
        sent.append(answer.half["rows"])
    new = [*prompt, *told, *answer.tokens]
    outside = [token for token in new if token not in (5, 9, 33)]
    rows = torch.cat([torch.frombuffer(bytearray(one.data), dtype=torch.float32) for one in sent])
    assert torch.equal(rows, TARGET.embed.weight[outside].flatten())


def test_token_ids_of_a_prompt(page):
    status, _, body = get(f"{page.url}/device/ids", b'{"text": "The fox ran."}')
    assert status == 200 and json.loads(body)["ids"] == prompt_ids(TOKENIZER, "The fox ran.")
    for body in (b"{", b"[]", b'{"text": " "}', b"1" * (MOST_BODY + 1), b"\xff", b"[" * 6000):
        status, _, answer = get(f"{page.url}/device/ids", body)
        assert status == 400 and json.loads(answer)["error"]
