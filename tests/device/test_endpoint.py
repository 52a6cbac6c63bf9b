"""The endpoint of drafters in browsers: who may come in, how much they may send, what is cached."""

import json
import random
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from socket import create_connection

import psutil
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.sync.client import ClientConnection, connect

from demo.device.endpoint import MOST_BODY, Device
from demo.device.weights import pack
from moa_core.decoding.tree import DraftTree
from moa_core.drafters.base import Vanilla
from moa_core.link.session import Limits, drafter_mark
from moa_core.link.wire import (
    MOST_HELLO,
    MOST_UP,
    VERSION,
    Alive,
    Answer,
    Hello,
    Joiner,
    Prefill,
    Refused,
    Share,
    Verify,
    Welcome,
    encode,
)
from moa_core.text import prompt_ids
from tests.device.twins import Page, serving
from tests.models import plain_greedy, tiny_target, tiny_tokenizer, useful
from tests.serving import fetched, until

TOKENIZER = tiny_tokenizer()
TARGET = tiny_target(vocab_size=len(TOKENIZER))
TARGET.tokenizer = TOKENIZER
DRAFTER = useful("moa-n0", TARGET)
HELLO = Hello(VERSION, drafter="moa-n0", fingerprint=drafter_mark(DRAFTER), kind="f32")
LIMITS = Limits(sessions=3, context=200)


@pytest.fixture
def page() -> Iterator[Page]:
    with serving(Device(lambda: TARGET, lambda name: DRAFTER, LIMITS, each=4)) as page:
        yield page


@contextmanager
def visit(
    page: Page, hello: Hello | None = HELLO, origin: str | None = ""
) -> Iterator[ClientConnection]:
    """A connection as a page of this server makes it, or one of elsewhere."""
    where = page.url if origin == "" else origin
    with connect(
        f"ws://127.0.0.1:{page.port}/device/link", origin=where, compression=None, proxy=None,
        ping_interval=None, close_timeout=1,
    ) as found:  # fmt: skip
        if hello is not None:
            found.send(encode(hello))
        yield found


def hear(socket: ClientConnection) -> object:
    joiner = Joiner()
    while True:
        message = joiner.take(socket.recv(20))
        if message not in (None, Alive()):
            return message


def get(url: str, body: bytes | None = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and content. body: to be sent along."""
    try:
        with fetched(urllib.request.Request(url, body, headers)) as found:
            return found.status, dict(found.headers), found.read()
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers), error.read()


@pytest.mark.parametrize("origin", [None, "http://elsewhere.example", "http://127.0.0.1:1", "null"])
def test_only_its_own_page_comes_in(origin, page):
    with pytest.raises(InvalidStatus, match="403"), visit(page, origin=origin):
        pass


def test_a_visitor_who_is_not_welcome():
    device = Device(lambda: TARGET, lambda name: DRAFTER, welcome=lambda visitor: False)
    with serving(device) as page:
        with pytest.raises(InvalidStatus, match="403"), visit(page):
            pass
        assert get(f"{page.url}/device/facts/moa-n0")[0] == 401
        assert get(f"{page.url}/device/ids", b'{"text": "Hi"}')[0] == 401


def test_connections_from_one_address_are_few_and_places_are_given_back(page):
    with ExitStack() as held:
        for _ in range(4):
            held.enter_context(visit(page, hello=None))
        with pytest.raises(InvalidStatus, match="403"), visit(page):
            pass
    assert until(lambda: page.device._here.total() == 0)
    with visit(page) as again:
        assert isinstance(hear(again), Welcome)


@pytest.mark.parametrize(
    "frame", [b"\x00" * (MOST_HELLO + 1), b"\xc1", "text", encode(Hello(VERSION + 1))]
)
def test_a_bad_first_message_ends_it(frame, page):
    with visit(page, hello=None) as socket:
        socket.send(frame)
        with pytest.raises(ConnectionClosed):
            while True:
                assert isinstance(hear(socket), Refused)
    assert until(lambda: page.device._here.total() == 0)


def test_long_messages_and_floods_are_not_held(page):
    for frames in ([b"\x00" * (MOST_UP + 1)], [encode(Prefill(1, [1] * 150, 180))] * 200):
        with visit(page) as socket:
            assert isinstance(hear(socket), Welcome)
            with pytest.raises(ConnectionClosed):
                for frame in frames:
                    socket.send(frame)
                while True:
                    hear(socket)
        assert until(lambda: page.device._here.total() == 0)


def write(page: Page, prompt: list[int], count: int) -> list[int]:
    """What a client decodes plainly, a token a question."""
    with visit(page) as socket:
        assert isinstance(hear(socket), Welcome)
        socket.send(encode(Prefill(1, prompt, 100)))
        told = [hear(socket).token]  # type: ignore[attr-defined]
        for place in range(count - 1):
            root, position = DraftTree.only_root(told[-1]), len(prompt) + place
            socket.send(encode(Verify(2 + place, position, list(root.tokens), list(root.parents))))
            while not isinstance(answer := hear(socket), Answer):
                assert isinstance(answer, Share)
            told.append(answer.tokens[0])
    return told


@pytest.mark.parametrize("frames", [50, pytest.param(10_000, marks=pytest.mark.slow)])
def test_twenty_at_once_have_texts_of_their_own_whatever_others_send(frames):
    """One sends garbage, each frame from a connection of its own, let in or not; some say nothing,
    and some do not even end their request."""
    prompts = [[5 + one, 9, 33 - one, 2 + one] for one in range(20)]
    garbage = random.Random(0)

    def disturb(page: Page) -> None:
        for one in range(frames):
            hello = HELLO if one % 2 else None
            with suppress(OSError, WebSocketException), visit(page, hello) as socket:
                socket.send(garbage.randbytes(garbage.randrange(1, 2 * MOST_HELLO)))
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


def test_weights_are_named_by_their_hash(page):
    status, headers, body = get(f"{page.url}/device/facts/moa-n0")
    facts, file = json.loads(body), pack(TARGET, DRAFTER)
    assert status == 200 and facts["bytes"] == len(file)
    url = f"{page.url}/device/weights/moa-n0/{facts['hash']}"
    status, headers, body = get(url)
    assert (status, body) == (200, file) and "immutable" in headers["cache-control"]
    assert get(url, **{"If-None-Match": headers["etag"]})[0] == 304
    assert get(f"{page.url}/device/weights/moa-n0/{'0' * 32}")[0] == 404


def test_drafters_that_it_has_not():
    with serving(Device(lambda: TARGET, lambda name: Vanilla())) as page:
        status, _, body = get(f"{page.url}/device/facts/vanilla")
    assert status == 404 and b"cannot draft in a browser" in body


def test_token_ids_of_a_prompt(page):
    status, _, body = get(f"{page.url}/device/ids", b'{"text": "The fox ran."}')
    assert status == 200
    assert json.loads(body)["ids"] == prompt_ids(TOKENIZER, "The fox ran.")


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"text": " "}', b"1" * (MOST_BODY + 1), b"\xff"])
def test_a_prompt_that_is_none(body, page):
    status, _, answer = get(f"{page.url}/device/ids", body)
    assert status == 400 and json.loads(answer)["error"]
