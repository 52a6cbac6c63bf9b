"""A server's token is compared in constant time, and stands nowhere: no log, trace, sentence,
metric or process list."""

import json
import logging
from pathlib import Path

import psutil
import pytest

from moa_core.__main__ import main
from moa_core.errors import UserError
from moa_core.link import server
from moa_core.link.connection import Address, reach
from moa_core.link.process import ServerProcess
from moa_core.link.wire import VERSION, Hello
from tests.attackers import fire

SECRET = "tok-5f1c9e-SECRET"


def test_a_token_is_compared_in_constant_time() -> None:
    """The comparison is the standard library's own; the server has no other use of its token."""
    source = Path(server.__file__).read_text()
    assert source.count("self._token") == 2  # where it is kept, and where it is compared
    assert "hmac.compare_digest(hello.token.encode(), self._token.encode())" in source


def test_a_wrong_token_and_the_right_one_are_in_no_sentence_and_no_log(
    process: ServerProcess, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "moa_core"), pytest.raises(UserError) as refused:
        reach(Address(process.address().url, SECRET), Hello(VERSION, SECRET))
    said = f"{refused.value}{refused.getrepr()}{caplog.text}{process.last_words}"
    assert "The token is wrong" in said
    assert process.token not in said and SECRET not in str(refused.value)
    assert SECRET not in caplog.text and SECRET not in process.last_words


def test_what_holds_a_token_does_not_show_it() -> None:
    for one in (Address("ws://here:1", SECRET), Hello(VERSION, SECRET, session=SECRET)):
        assert SECRET not in repr(one) and SECRET not in str(one) and SECRET not in f"{[one]}"


def test_an_address_with_a_password_in_it_is_refused_without_being_repeated() -> None:
    with pytest.raises(UserError, match="no name and password") as refused:
        Address(f"ws://me:{SECRET}@here:1")
    assert SECRET not in str(refused.value)


def test_our_own_server_s_token_is_not_among_its_arguments(process: ServerProcess) -> None:
    arguments = psutil.Process(process.pid).cmdline()
    assert "serve" in arguments and process.token not in " ".join(arguments)


def test_health_tells_no_secret(process: ServerProcess) -> None:
    told = fire(process.port, b"GET /health HTTP/1.1\r\nHost: here\r\n\r\n")
    assert told.startswith(b"HTTP/1.1 200") and process.token.encode() not in told


def test_a_trace_over_a_link_has_neither_token(
    process: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("HF_TOKEN", f"hf_{SECRET}")
    monkeypatch.setenv("MOA_CACHE", str(tmp_path / "cache"))
    trace = tmp_path / "trace.json"
    words = ["generate", "--server", process.address().url, "--token", process.token]
    words += ["--prompt", "The fox", "--max-new-tokens", "4", "--json", "--trace", str(trace)]
    assert main(words) == 0
    captured = capsys.readouterr()
    written = trace.read_text() + captured.out + captured.err
    assert json.loads(captured.out)["output_ids"]
    assert process.token not in written and SECRET not in written
    for path in (tmp_path / "cache").rglob("*.json"):
        assert process.token not in path.read_text()


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "192.168.1.5", "example.org", "127.0.0.1.x"])
def test_no_server_elsewhere_without_a_token(
    host: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("MOA_TOKEN", raising=False)
    monkeypatch.setattr("moa_core.commands.serve.target_of", lambda *_: pytest.fail("it loads"))
    assert main(["serve", "--host", host, "--port", "0"]) == 2
    assert "set MOA_TOKEN" in capsys.readouterr().err
