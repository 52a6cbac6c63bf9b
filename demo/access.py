"""Who may open the page: only this machine, unless the command line says otherwise."""

import hmac
import socket
from collections.abc import Callable, Mapping
from ipaddress import ip_address
from typing import Any

from starlette.requests import HTTPConnection

from demo.space import on_space
from moa_core.errors import UserError

MOST_PASSWORD = 200  # characters that are compared


def door(
    host: str | None, password: str, open_to_all: bool, environ: Mapping[str, str]
) -> dict[str, Any]:
    """Options for `launch`: the address to listen on, and the visitors' password.

    host         None: what GRADIO_SERVER_NAME says, else this machine only
    password     any user name goes with it; "": none is needed
    open_to_all  whether a page without a password is intended

    UserError if other machines can reach the page without a decision to let them in, or for a
    password that is too long. A Space is open: the Hub decides who sees it.
    """
    where = environ.get("GRADIO_SERVER_NAME", "127.0.0.1") if host is None else host
    if not (_here(where) or password or open_to_all or on_space(environ)):
        raise UserError(
            "Other machines can reach this address: set MOA_PASSWORD, the password for visitors, "
            "or give --open-to-all."
        )
    if len(password) > MOST_PASSWORD:
        raise UserError(
            f"The password is {len(password)} characters long: use at most {MOST_PASSWORD}."
        )
    if ":" in where:  # as gradio wants an address of IPv6
        host = f"[{where.strip('[]')}]"
    options: dict[str, Any] = {"server_name": host, "share": False}
    if password:
        options["auth"] = is_password(password)
        options["auth_message"] = "Enter any name and the password."
    return options


def check_host(host: str | None) -> None:
    """UserError unless this machine can listen there. None: gradio's own choice."""
    if host is None:
        return
    try:
        found = socket.getaddrinfo(host.strip("[]"), 0, type=socket.SOCK_STREAM)
        for family, kind, _, _, address in found:
            with socket.socket(family, kind) as probe:  # gradio would wait forever
                probe.bind(address)
    except (OSError, UnicodeError) as error:
        raise UserError(
            f"This machine cannot listen on {host}: name an address of its own."
        ) from error


def check_port(port: int | None) -> None:
    """UserError for a port that is taken. None: gradio finds one."""
    if port is None:
        return
    try:
        with socket.socket() as probe:  # as gradio tries it, which ends with a traceback
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", port))
    except (OSError, OverflowError) as error:
        raise UserError(
            f"Port {port} is not available: leave out --port to use a free one."
        ) from error


def _here(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def is_password(password: str) -> Callable[[str, str], bool]:
    """Compares in constant time, and does not show the password when it is printed."""
    wanted = password.encode("utf-8", "replace")
    return lambda _, given: hmac.compare_digest(
        given[:MOST_PASSWORD].encode("utf-8", "replace"), wanted
    )


def signed_in(visitor: HTTPConnection) -> bool:
    """For routes outside gradio: whether the visitor gave the password, or none is needed."""
    app = visitor.scope["app"]
    names = (f"access-token-{app.cookie_id}", f"access-token-unsecure-{app.cookie_id}")
    told = (app.tokens.get(visitor.cookies.get(name)) for name in names)
    return app.auth is None or any(user is not None for user in told)
