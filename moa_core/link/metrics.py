"""What a server counts, for Prometheus to collect."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The counts of one server."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self.sessions = Gauge(
            "moa_sessions", "Sessions with a cache of their own", registry=registry
        )
        self.waiting = Gauge(
            "moa_waiting", "Connections whose client has not said a good hello", registry=registry
        )
        self.requests = Counter(
            "moa_requests", "Requests, repeated ones included", ["kind"], registry=registry
        )
        self.refused = Counter(
            "moa_refused", "Clients sent away, malformed frames included", registry=registry
        )
        self.seconds = Counter(
            "moa_work_seconds", "Seconds of the target's work", registry=registry
        )
        self.sent = Counter("moa_sent_bytes", "Bytes of messages to clients", registry=registry)
        self.received = Counter(
            "moa_received_bytes", "Bytes of messages from clients", registry=registry
        )
        self.tokens = Counter(
            "moa_gained_tokens",
            "Tokens that clients gained: the first one after a prompt, accepted and bonus tokens",
            registry=registry,
        )

    def text(self) -> str:
        """All of it, in Prometheus' text format."""
        return generate_latest(self._registry).decode()
