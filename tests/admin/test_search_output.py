"""What a search writes beside its rows: progress, problems, and how to go on after a stop."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from typing import Any

import pytest

from mqadmin.commands.message.messages_find import WIDTHS, _pieces
from mqadmin.message_text import MESSAGE_COLUMNS
from mqadmin.report import Stream, write
from mqadmin.searching import NOTES_MAX
from mqclient.admin.search import QueueRange, Search
from mqclient.errors import RocketMQError
from mqcommon.cli.status_line import StatusLine
from mqcommon.message import MessageQueue
from tests.client.cluster import record

QUEUE = MessageQueue("T", "broker-a", 0)
COMPRESSED = 1


class Reader:
    """Answers searches from a list; after it, a search waits until the reader is closed."""

    def __init__(self, *steps: tuple[Any, ...]) -> None:
        self._steps = list(steps)
        self.waits, self._closed = threading.Event(), threading.Event()

    def search(self, _conditions: object, **_limits: object) -> tuple[Any, ...]:
        if not self._steps:
            self.waits.set()
            self._closed.wait()
            return False, b"", 0, 0, None, [], 0
        return self._steps.pop(0)

    def close(self) -> None:
        self._closed.set()


def search(reader: Reader, end: int = 100) -> Search:
    ranges = [QueueRange(QUEUE, 0, end)]
    return Search(
        ranges, reader, None, count=None, explain=lambda _address, error: error, advertised={}
    )  # type: ignore[arg-type]  # readers and conditions are played


def messages(*bodies: bytes, sys_flag: int = 0) -> bytes:
    return b"".join(
        record(0, at, "T", body, {"KEYS": f"k{at}"}, sys_flag=sys_flag)
        for at, body in enumerate(bodies)
    )


async def write_all(found: Search, form: str = "json") -> None:
    await write(Stream(_pieces(found), MESSAGE_COLUMNS, WIDTHS), form)


async def test_a_stop_ends_the_document_and_says_how_to_go_on(
    capsys: pytest.CaptureFixture[str],
) -> None:
    reader = Reader((False, messages(b"one", b"two"), 2, 40, 40, [], 0))
    task = asyncio.create_task(write_all(search(reader)))
    await asyncio.to_thread(reader.waits.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    out, err = capsys.readouterr()
    assert [row["body"] for row in json.loads(out)] == ["one", "two"]
    assert err == "note: stopped; 2 found in 40 of 100 messages; to go on: --from broker-a:0:40\n"


async def test_a_body_that_does_not_decompress_is_shown_and_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    reader = Reader((True, messages(b"no zlib", sys_flag=COMPRESSED), 1, 1, 1, [], 0))
    with pytest.raises(RocketMQError, match="1 messages cannot be read"):
        await write_all(search(reader, 1), "jsonl")
    out, err = capsys.readouterr()
    row = json.loads(out)
    assert (row["body"], row["bodyHex"]) == (None, b"no zlib".hex())
    assert err.startswith("note: broker-a:0: the body of the message at offset 0: ")
    assert row["bodyError"] in err


async def test_the_notes_about_problems_have_a_limit(capsys: pytest.CaptureFixture[str]) -> None:
    losses = [(at, 2, f"offset {at} is damaged") for at in range(NOTES_MAX + 5)]
    with pytest.raises(RocketMQError, match="50 messages cannot be read"):
        await write_all(search(Reader((True, b"", 0, 100, 100, losses, 0))))
    out, err = capsys.readouterr()
    assert json.loads(out) == []
    assert len(err.splitlines()) == NOTES_MAX


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


async def test_a_terminal_sees_how_much_was_searched(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("mqcommon.cli.status_line._INTERVAL_S", 0)
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    steps = [(False, b"", 0, 60, 60, [], 0), (True, messages(b"x"), 1, 40, 100, [], 0)]
    await write_all(search(Reader(*steps)), "table")
    assert "k0" in capsys.readouterr().out
    erase = "\r\x1b[K"
    assert screen.getvalue() == (
        f"{erase}0 found in 60 of 100 messages{erase}1 found in 100 of 100 messages{erase}"
        "note: 1 found in 100 of 100 messages\n"
    )


def test_a_status_line_is_shown_on_a_terminal_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqcommon.cli.status_line._INTERVAL_S", 0)
    line = StatusLine()
    line.show("far")
    line.clear()
    assert capsys.readouterr().err == ""
