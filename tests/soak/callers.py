"""Visitors without a browser: programs that call the endpoints `decode` and `compare`.

They cover what pages do not: streams that are cancelled or simply dropped, and input of wrong
kinds. They cost a hundredth of a Chromium.
"""

from __future__ import annotations

import json
from time import monotonic
from typing import Any

import httpx
from gradio_client import Client
from gradio_client.exceptions import AppError

from tests.soak.visitor import HOSTILE, PATIENCE, PROMPTS, REFUSED, Visitor

METHODS = ("moa-n0", "moa-n1", "moa-n2", "moa-n3", "moa-auto", "eagle2", "eagle", "glide",
           "medusa", "independent", "ngram", "vanilla")  # fmt: skip
LENGTHS = (16, 48, 96)
WRONG: dict[str, Any] = {  # settings of `decode` that are refused
    "too many tokens": {"max_new_tokens": 513},
    "no tokens": {"max_new_tokens": 0},
    "half a token": {"max_new_tokens": 2.5},
    "an unknown method": {"method": "../../etc/passwd"},
    "a cold temperature": {"temperature": -1},
    "no top-p": {"top_p": 0},
    "a huge tree": {"depth": 10**6},
    "a negative tree": {"budget": -1},
}


class Caller(Visitor):
    """A program that calls the app."""

    def come(self) -> None:
        self.client: Client | None = None

    def go(self) -> None:
        if self.client is not None:
            self.client.close()

    def arrive(self) -> Client:
        """A new session."""
        self.go()
        self.client = Client(self.url, verbose=False)
        self.does("a program comes")
        return self.client

    def warm(self) -> None:
        """Every method reads every prompt once, so that all is loaded and has been used.

        oneDNN alone keeps up to 1,024 compiled products, one for each shape that it has met.
        """
        self.come()
        client = self.arrive()
        for prompt in PROMPTS:
            for method in METHODS:
                text, _ = client.predict(prompt, method, 48, api_name="/decode")
                self.tally.wrote(("API", prompt, "48"), text, f"{self.name}, {method}")
        self.go()

    def visit(self) -> None:
        client = self.arrive()
        acts = (self.decode, self.decode, self.sampled, self.cancel, self.drop, self.refused,
                self.compare, self.nonsense)  # fmt: skip
        while self.wants_more:
            act = self.rng.choice(acts)
            self.does(f"API: {act.__name__}")
            act(client)
            self.over.wait(self.rng.uniform(0, 2))

    def decode(self, client: Client) -> None:
        """A greedy text, by any method: the same whichever it is."""
        prompt, length = self.rng.choice(PROMPTS), self.rng.choice(LENGTHS)
        began = monotonic()
        method = self.rng.choice(METHODS)
        text, figures = client.submit(
            prompt, method, length, api_name="/decode"
        ).result(timeout=PATIENCE)  # fmt: skip
        self.timed("API: decode", began)
        if not 1 <= figures["tokens"] <= length or "reason" not in figures:
            self.wrong(f"odd figures: {figures}")
        self.tally.wrote(("API", prompt, str(length)), text, f"{self.name}, {method}")

    def sampled(self, client: Client) -> None:
        """Hostile words, a temperature, a tree of one's own."""
        client.submit(
            HOSTILE, self.rng.choice(METHODS), 32, 1.0, 0.9, 3, 4, 3, 8, HOSTILE,
            api_name="/decode",
        ).result(timeout=PATIENCE)  # fmt: skip

    def cancel(self, client: Client) -> None:
        """Ask for a long text, and cancel it."""
        job = client.submit(
            self.rng.choice(PROMPTS), self.rng.choice(METHODS), 400, api_name="/decode"
        )
        self.pause()
        job.cancel()

    def drop(self, client: Client) -> None:
        """Ask, listen for a while, and hang up."""
        data = [self.rng.choice(PROMPTS), self.rng.choice(METHODS), 400, 0, 1, 0, 0, 0, 0, ""]
        with httpx.Client(trust_env=False, timeout=PATIENCE) as http:
            place = f"{self.url}gradio_api/call/decode"
            event = http.post(place, json={"data": data}).json()["event_id"]
            with http.stream("GET", f"{place}/{event}") as stream:
                for heard, _ in enumerate(stream.iter_lines()):
                    if heard > self.rng.randrange(12):
                        return

    def refused(self, client: Client) -> None:
        """Input that cannot be used."""
        if self.rng.random() < 0.5:
            prompt, _ = self.rng.choice(list(REFUSED.values()))
            more: dict[str, Any] = {}
        else:
            prompt, more = self.rng.choice(PROMPTS), self.rng.choice(list(WRONG.values()))
        self.must_refuse(client, "/decode", prompt=prompt, **more)

    def compare(self, client: Client) -> None:
        """Two methods side by side, or too few of them."""
        prompt = self.rng.choice(PROMPTS)
        if self.rng.random() < 0.3:
            self.must_refuse(client, "/compare", prompt=prompt, methods=["moa-n0"])
            return
        began = monotonic()
        job = client.submit(prompt, self.rng.sample(METHODS, 2), 1, 32, api_name="/compare")
        found = job.result(timeout=PATIENCE)
        self.timed("API: compare", began)
        if len(found["rows"]) != 2:
            self.wrong(f"odd rows: {found}")

    def nonsense(self, client: Client) -> None:
        """What is no call at all: it is refused, and the log says nothing."""
        place = f"{self.url}gradio_api/"
        bodies = (b"{", b"[]", b'{"data": "fox"}', json.dumps({"data": [[], {}]}).encode())
        with httpx.Client(trust_env=False, timeout=PATIENCE) as http:
            sent = self.rng.choice(bodies)
            got = http.post(f"{place}call/nowhere", content=sent)
            if got.status_code < 400:
                self.wrong(f"{sent!r} to an endpoint that is not there got {got.status_code}")

    def must_refuse(self, client: Client, name: str, **given: Any) -> None:
        """Ask for what cannot be had, and be told why."""
        try:
            got = client.submit(api_name=name, **given).result(timeout=PATIENCE)
        except AppError as error:
            self.tally.said(str(error), self.name)
        except ValueError as error:  # gradio_client itself refused it
            self.tally.said(str(error), self.name)
        else:
            words = {key: str(value)[:40] for key, value in given.items()}
            self.wrong(f"{name} took {words} and gave {str(got)[:80]}")

    def pause(self) -> None:
        """A random moment."""
        self.over.wait(self.rng.uniform(0, 4))

    def last(self) -> None:
        began = monotonic()
        self.arrive().submit(PROMPTS[0], "moa-n0", 16, api_name="/decode").result(timeout=PATIENCE)
        self.timed("the last simple run", began)
