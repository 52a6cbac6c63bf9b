"""Client and server as processes of their own, as people run them; and where a token never is."""

import json
import logging
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psutil
import pytest

from moa_core.__main__ import main
from moa_core.commands.serve import _drafters
from moa_core.decoding.verifier import LinkLost
from moa_core.errors import UserError
from moa_core.link.connection import Address, reach
from moa_core.link.process import ServerProcess
from moa_core.link.remote import Remote
from moa_core.link.wire import VERSION, Fetch, Hello
from moa_core.loading.load import load_drafter, load_target
from moa_core.runtime import ROOT
from tests.attackers import fire
from tests.serving import Caller, until

SECRET = "tok-5f1c9e-SECRET"


def test_where_it_cannot_listen_it_says_so_in_one_sentence(models, capfd):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        with pytest.raises(UserError, match="did not start: what it printed above says why"):
            ServerProcess("--port", port)
    assert f"error: Cannot listen on 127.0.0.1:{port}" in capfd.readouterr().err


STARTING = """
import signal, sys
from moa_core.link.process import ServerProcess
sys.executable = sys.argv[1]
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's job may ignore it
print("here", flush=True)
ServerProcess()
"""


def test_ctrl_c_while_a_server_starts_ends_both(tmp_path):
    endless = tmp_path / "endless"
    endless.write_text("#!/bin/sh\nexec sleep 600\n")
    endless.chmod(0o700)
    parent = subprocess.Popen(
        [sys.executable, "-c", STARTING, str(endless)], env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    assert parent.stdout.readline() == "here\n"
    children = psutil.Process(parent.pid).children
    assert until(lambda: [one for one in children() if "sleep" in one.cmdline()])
    [child] = children()
    parent.send_signal(signal.SIGINT)
    parent.communicate(timeout=30)
    assert not child.is_running()


PARENT = """
import time
from moa_core.link.process import ServerProcess
one = ServerProcess()
print(one._process.pid, one.port, one.token, flush=True)
time.sleep(600)
"""


@pytest.mark.slow
def test_a_server_ends_with_its_parent_and_leaves_no_files(models, tmp_path):
    """Even where the parent is killed while a client is here."""
    env = os.environ | {"TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], env=env, stdout=subprocess.PIPE, text=True
    )
    pid, port, token = parent.stdout.readline().split()
    child = psutil.Process(int(pid))
    assert "serve" in child.cmdline() and token not in " ".join(child.cmdline())
    client = Caller(int(port), token)
    assert client.ask(Fetch(1)).data
    parent.kill()
    parent.communicate(timeout=10)
    assert until(lambda: not child.is_running() or child.status() == "zombie", 15)
    assert not list(tmp_path.glob("moa-weights-*"))


def test_a_drafter_served_from_a_folder_goes_by_the_folder_s_name(models, tmp_path):
    folder = Path(shutil.copytree(models / "moa-n1", tmp_path / "my-own"))
    target = load_target()
    load = _drafters([str(folder)], target)
    assert load("my-own") is load("my-own") and load("moa-n1").name == "moa-n1"
    assert load("my-own").name == load_drafter(str(folder), target).name == "my-own"
    with pytest.raises(UserError, match=r"it serves .*my-own"):
        load(str(folder))
    other = str(shutil.copytree(folder, tmp_path / "other" / "my-own"))
    with pytest.raises(UserError, match="Two drafters are called my-own"):
        _drafters([str(folder), other], target)


def test_a_token_is_in_no_sentence_no_log_no_list_of_processes(models, caplog, capfd):
    with (
        caplog.at_level(logging.DEBUG, "moa_core"),
        ServerProcess() as process,
        pytest.raises(UserError) as refused,
    ):
        arguments = psutil.Process(process._process.pid).cmdline()
        told = fire(process.port, b"GET /health HTTP/1.1\r\nHost: here\r\n\r\n")
        reach(Address(process.address().url, SECRET), Hello(VERSION, SECRET))
    assert "serve" in arguments and process.token not in " ".join(arguments)
    assert told.startswith(b"HTTP/1.1 200") and process.token.encode() not in told
    log = caplog.text + capfd.readouterr().err  # the server's, too
    said = f"{refused.value}{refused.getrepr()}{log}"
    assert "The token is wrong" in said
    assert process.token not in said and SECRET not in str(refused.value)
    assert SECRET not in log


def test_what_holds_a_token_does_not_show_it():
    for one in (Address("ws://here:1", SECRET), Hello(VERSION, SECRET, session=SECRET)):
        assert SECRET not in repr(one) and SECRET not in str(one) and SECRET not in f"{[one]}"
    with pytest.raises(UserError, match="cannot contain a password") as refused:
        Address(f"ws://me:{SECRET}@here:1")
    assert SECRET not in str(refused.value)


@pytest.fixture
def generated(process: ServerProcess, cache: Path, capsys) -> Any:
    """What `generate` with these words prints over a link."""

    def words(*more: str) -> Any:
        there = ["--server", process.address().url, "--token", process.token]
        text = ["--prompt", "The fox", "--max-new-tokens", "4"]
        assert main(["generate", *there, *text, *more]) == 0
        return capsys.readouterr()

    return words


def test_a_trace_over_a_link_has_neither_token(generated, process, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", f"hf_{SECRET}")
    captured = generated("--json", "--trace", str(tmp_path / "trace.json"))
    files = [path.read_text() for path in tmp_path.rglob("*.json")]
    assert json.loads(captured.out)["output_ids"] and len(files) > 1
    for written in (captured.out, captured.err, *files):
        assert process.token not in written and SECRET not in written


def test_what_no_target_has_verified_is_told(generated, monkeypatch):
    monkeypatch.setattr(Remote, "verify", Mock(side_effect=LinkLost(0.0)))
    monkeypatch.setattr(Remote, "back", lambda *_: not Remote.verify.called)
    captured = generated("--ignore-eos", "--patience", "0")
    assert "The server is lost. What the drafter can write alone is shown once" in captured.err
    assert re.search(r"The link was lost: the last 3 tokens are the drafter's own", captured.err)
    assert "ended by offline" in captured.out
