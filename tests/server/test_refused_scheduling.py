"""A system that lets no thread be scheduled in another way, as filters of containers do.

Who works for long only gives way to others by it: without, everything is answered as well.
"""

from __future__ import annotations

import errno
import os
import platform
import sys
from pathlib import Path

import pytest

from mqserver.embedded.testing import free_port
from mqserver.runtime.processor_api import Family, Response
from mqstore import decode_messages
from scripts.server_process import ServerProcess
from tests.server.conftest import Servers
from tests.server.native import pull_fields, send_fields
from tests.server.raw import Raw, json_frame
from tests.waiting import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux's threads give way")

LONG_BYTES = 200_000
"""Size of a request that is handed to the family of long requests."""
ASKED = ("getpriority", "setpriority", "sched_getscheduler", "sched_setscheduler")
NUMBERS = {
    "x86_64": {"sched_setscheduler": 144, "setpriority": 141},
    "aarch64": {"sched_setscheduler": 119, "setpriority": 140},
}
"""Numbers of the system calls that change how a thread is scheduled."""
CONFIG, SEND, PULL, MAX_OFFSET = 26, 310, 11, 30
PULLS = 8

FILTERED = """
import ctypes, os, runpy, struct, sys

number, *refused = map(int, sys.argv.pop(1).split(","))
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ERRNO, ALLOW = 0x00050000, 0x7FFF0000
rules = [(LOAD, 0, 0, 0)]  # the call's number
for index, call in enumerate(refused):
    rules.append((JUMP_IF_EQUAL, len(refused) - index, 0, call))
rules += [(RETURN, 0, 0, ALLOW), (RETURN, 0, 0, ERRNO | number)]
code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *rule) for rule in rules))
program = struct.pack("@HP", len(rules), ctypes.addressof(code))
prctl = ctypes.CDLL(None, use_errno=True).prctl
NO_NEW_PRIVILEGES, SECCOMP, FILTER = 38, 22, 2
if prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) or prctl(SECCOMP, FILTER, program, 0, 0):
    sys.exit("no filter")
for change in (
    lambda: os.setpriority(os.PRIO_PROCESS, 0, 1),
    lambda: os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0)),
):
    try:
        change()
    except OSError as error:
        assert error.errno == number
    else:
        sys.exit("the filter lets a change pass")
runpy.run_module("mqserver.cli", run_name="__main__")
"""
"""A server after a filter of system calls that refuses, with an error, the calls named."""


@pytest.mark.parametrize("call", ASKED)
@pytest.mark.parametrize("error", [errno.EPERM, errno.ENOSYS], ids=errno.errorcode.get)
def test_a_family_that_may_not_give_way_serves(
    servers: Servers, monkeypatch: pytest.MonkeyPatch, call: str, error: int
) -> None:
    refused: list[str] = []

    def refuse(*_: object) -> None:
        refused.append(call)
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(os, call, refuse)
    _, port = servers.start({1: lambda _: Response()}, also=[Family("large", 10, 1, rests=True)])
    raw = servers.connect(port)
    for number, size in enumerate((LONG_BYTES, 0)):
        assert raw.ask(json_frame(1, number, body=bytes(size)))[:2] == (0, number)
    assert refused == [call]


@pytest.mark.parametrize("error", [errno.EPERM, errno.ENOSYS], ids=errno.errorcode.get)
def test_a_broker_under_a_filter_of_system_calls_serves(tmp_path: Path, error: int) -> None:
    if platform.machine() not in NUMBERS:
        pytest.skip("the numbers of this machine's system calls are not known here")
    calls = ",".join(map(str, (error, *NUMBERS[platform.machine()].values())))
    port, words = free_port(), ["--data", str(tmp_path), "--set", "fastPortEnable=false"]
    words += ["--set", f"listenPort={port}", "--set-namesrv", f"listenPort={free_port()}"]
    command = [sys.executable, "-c", FILTERED, calls, "standalone", *words]
    process = ServerProcess(command, cwd=tmp_path, ready="boot success")
    try:
        with Raw(port) as raw:
            everything_is_served(raw)
    finally:
        process.kill()


def everything_is_served(raw: Raw) -> None:
    """A long request by Python, sends, and a turn of more answers than a short one has."""
    assert raw.ask(json_frame(CONFIG, 1, body=bytes(LONG_BYTES))).code == 0
    body = os.urandom(100_000)
    sent = raw.ask(json_frame(SEND, 2, send_fields(b="New", e="0"), body))
    assert (sent.code, sent.fields and sent.fields["queueOffset"]) == (0, "0")
    ask_end = json_frame(MAX_OFFSET, 3, {"topic": "New", "queueId": "0"})
    assert until(lambda: raw.ask(ask_end).fields == {"offset": "1"})
    pull = pull_fields(0, topic="New", maxMsgNums="1")
    raw.send(*(json_frame(PULL, opaque, pull) for opaque in range(PULLS)))
    replies = [raw.read() for _ in range(PULLS)]  # the first may be late: it makes the group
    assert {reply[:2] for reply in replies} == {(0, opaque) for opaque in range(PULLS)}
    assert all([one.body for one in decode_messages(reply.body)] == [body] for reply in replies)
