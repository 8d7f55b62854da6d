"""How results are written: text, aligned tables, JSON, CSV, and streams piece by piece."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import nullcontext

import pytest

from mqadmin.report import Piece, Report, Stream, write
from mqclient.errors import UnreachableError

ROWS = [
    {"topic": "T", "count": 5, "lastTimestamp": 1795247482637, "groups": ["a", "b"], "up": True},
    {"topic": "Longer", "count": 12345, "lastTimestamp": 0, "groups": [], "up": None},
]
REPORT = Report(ROWS, lambda: "#Topic T", columns=("topic", "count", "lastTimestamp", "groups"))


async def test_a_table_is_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    await write(REPORT, "table")
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "topic    count   lastTimestamp             groups",
        "─" * len("topic    count   lastTimestamp             groups"),
        "T            5   2026-11-21 07:51:22,637   a, b",
        "Longer   12345",
    ]


async def test_a_report_without_columns_shows_its_text_as_a_table(
    capsys: pytest.CaptureFixture[str],
) -> None:
    await write(Report(ROWS, lambda: "done"), "table")
    await write(REPORT, "rocketmq")
    assert capsys.readouterr().out == "done\n#Topic T\n"


@pytest.mark.parametrize("form", ["rocketmq", "table", "json", "jsonl", "csv"])
async def test_a_failure_follows_the_rows(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    """RocketMQ's text has a place for missing figures; a command of our own has no such text."""
    failure = UnreachableError("h:1 is down", "h:1")
    with pytest.raises(UnreachableError):
        await write(Report(ROWS, columns=("topic",), failure=failure), form)
    assert "Longer" in capsys.readouterr().out
    expected = nullcontext() if form == "rocketmq" else pytest.raises(UnreachableError)
    with expected:
        await write(Report(ROWS, lambda: "Longer", columns=("topic",), failure=failure), form)
    assert "Longer" in capsys.readouterr().out


async def test_csv_of_nothing_has_the_columns(capsys: pytest.CaptureFixture[str]) -> None:
    await write(Report([], lambda: "", columns=("a", "b")), "csv")
    assert capsys.readouterr().out == "a,b\n"


async def test_control_characters_do_not_reach_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    await write(Report([{"key": "a\x1b[2J"}], lambda: "", columns=("key",)), "table")
    assert "\x1b" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("form", "first", "all_of_it"),
    [
        ("rocketmq", "head\n", "head\none\ntwo\n"),
        ("table", "head\n", "head\none\ntwo\n"),
        ("jsonl", "", '{"n": 1}\n{"n": 2}\n'),
        ("json", "", '[\n{"n": 1},\n{"n": 2}\n]\n'),
        ("csv", "n\n", "n\n1\n2\n"),
    ],
)
async def test_a_stream_is_written_piece_by_piece(
    form: str, first: str, all_of_it: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before_the_rows: list[str] = []

    async def pieces() -> AsyncIterator[Piece]:
        yield Piece("head")
        before_the_rows.append(capsys.readouterr().out)
        yield Piece("one", {"n": 1})
        yield Piece("two", {"n": 2})

    await write(Stream(pieces(), ("n",)), form)
    assert before_the_rows == [first]
    assert before_the_rows[0] + capsys.readouterr().out == all_of_it
