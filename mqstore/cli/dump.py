"""`mqstore dump`: the messages of a store."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import click

from mqcommon.cli.exit_codes import DAMAGED
from mqcommon.cli.output import (
    RowStream,
    chosen_format,
    output_option,
    write_bytes,
    write_lines,
    write_rows,
)
from mqcommon.message import ReceivedMessage, decode_messages
from mqcommon.message_row import BODIES, message_row
from mqstore.cli.options import (
    check_start,
    check_stored_topic,
    directory_argument,
    filter_options,
    wanted_of,
)
from mqstore.offline import Gap, StoreReader, Wanted, json_lines
from mqstore.offline import open as open_store

__all__ = ["dump"]

COLUMNS = (
    "commitLogOffset", "topic", "queueId", "queueOffset", "storeTime", "tags", "keys", "body",
)  # fmt: skip
WIDTHS = {"topic": 20, "storeTime": 29, "tags": 12, "keys": 16}
"""Column widths of a table whose rows are not known yet."""
INDEX_ENTRIES_MAX = 1_000_000
"""Most messages to look up for one key."""
LIVE_BYTES = 64 << 10
"""A smaller chunk is printed at once, because the next one may take a while."""


@click.command()
@directory_argument
@filter_options
@click.option("--key", help="only messages with this key (needs --topic; uses the index)")
@click.option("--msg-id", help="only messages with this unique id or offset message id")
@click.option(
    "--body",
    type=click.Choice([*BODIES, "none"]),
    default="text",
    show_default=True,
    help="how to write bodies",
)
@click.option("--follow", is_flag=True, help="wait for new messages; starts at the end")
@output_option
@click.pass_context
def dump(
    context: click.Context,
    /,
    directory: str,
    key: str | None,
    msg_id: str | None,
    body: str,
    follow: bool,
    output: str | None,
    **chosen: Any,
) -> None:
    """Print the messages of the store in DIRECTORY, in the order of the log.

    Skips unreadable ranges with a message on standard error, and then exits with 5.
    """
    _check_usage(key, msg_id, follow, chosen["topic"], output)
    reader = open_store(directory)
    start = check_start(reader, chosen)
    if not follow:  # with --follow the topic may be created later
        check_stored_topic(reader, chosen["topic"])
    wanted = wanted_of(chosen)
    if key is not None or msg_id is not None:
        rows = _indexed(reader, key, msg_id, wanted, start)
        write_rows((message_row(m, body) for m in islice(rows, chosen["count"])), COLUMNS, output)
        return
    gaps = _Gaps(directory)
    if chosen["count"] is None and not follow and chosen_format(output) == "jsonl":
        write_lines(reader.lines(body, start, wanted, gaps.say))
        context.exit(DAMAGED if gaps.found else 0)
    if follow:
        stretches = reader.follow(_follow_start(reader, chosen), wanted, gaps.say)
    else:
        stretches = iter(reader.walk(start, wanted, gaps.say))
    _write(_first(stretches, chosen["count"]), body, output, live=follow)
    context.exit(DAMAGED if gaps.found else 0)


class _Gaps:
    """Reports unreadable ranges on standard error, and counts them."""

    def __init__(self, directory: str) -> None:
        self._directory = directory
        self.found = False

    def say(self, gap: Gap) -> None:
        """Report one range."""
        self.found = True
        click.echo(
            f"mqstore: skipped {gap.end - gap.start} unreadable bytes of the log at offset "
            f"{gap.start}; for details: mqstore verify {self._directory}",
            err=True,
        )


def _check_usage(
    key: str | None, msg_id: str | None, follow: bool, topic: str | None, output: str | None
) -> None:
    if key is not None and topic is None:
        raise click.UsageError("--key needs --topic: keys are indexed by topic")
    if key is not None and msg_id is not None:
        raise click.UsageError("give --key or --msg-id, not both")
    if follow and (key is not None or msg_id is not None):
        raise click.UsageError("--follow cannot be used with --key or --msg-id")
    if follow and chosen_format(output) not in ("table", "jsonl"):
        raise click.UsageError("--follow needs --output table or jsonl")


def _follow_start(reader: StoreReader, chosen: dict[str, Any]) -> int | None:
    """The start of --follow: --offset, or else --from, or else the end of the log."""
    if chosen["offset"] is not None or chosen["begin"] is not None:
        return chosen["offset"]  # type: ignore[no-any-return]
    last = reader.last_message()
    return None if last is None else last.commit_log_offset + last.store_size


def _indexed(
    reader: StoreReader, key: str | None, msg_id: str | None, wanted: Wanted, start: int | None
) -> list[ReceivedMessage]:
    """The messages that the index finds and the filter accepts, oldest first."""
    if key is not None:
        found = reader.find(wanted.topic or "", key, max_count=INDEX_ENTRIES_MAX)
    else:
        found = reader.find_id(msg_id or "")
    first = reader.min_physical_offset if start is None else start
    return [m for m in reversed(found) if m.commit_log_offset >= first and wanted.passes(m)]


def _write(stretches: Iterable[bytes], body: str, output: str | None, live: bool = False) -> None:
    """Write JSON lines as rendered by native code, and other formats message by message."""
    if chosen_format(output) == "jsonl":
        _write_lines(stretches, body)
    elif live:
        _write_live(stretches, body)
    else:
        messages = (m for stretch in stretches for m in decode_messages(stretch))
        shown = _shown if chosen_format(output) == "table" else message_row
        write_rows((shown(m, body) for m in messages), COLUMNS, output)


def _shown(message: ReceivedMessage, body: str) -> dict[str, Any]:
    """A row of a table; a damaged body is marked."""
    row = message_row(message, body)
    if "bodyError" in row:
        row["body"] = f"[damaged] {row['body'] or ''}"
    return row


def _write_live(stretches: Iterable[bytes], body: str) -> None:
    """Write a table whose later rows are not known yet."""
    rows = RowStream(COLUMNS, "table", WIDTHS)
    for stretch in stretches:
        for message in decode_messages(stretch):
            rows.write(_shown(message, body))
        sys.stdout.flush()


def _first(stretches: Iterable[bytes], count: int | None) -> Iterator[bytes]:
    """The first `count` records; None for all."""
    if count is None:
        yield from stretches
        return
    for stretch in stretches if count else ():
        sizes = [m.store_size for m in decode_messages(stretch)[:count]]
        yield stretch[: sum(sizes)]
        count -= len(sizes)
        if count == 0:
            return


def _write_lines(stretches: Iterable[bytes], body: str) -> None:
    for stretch in stretches:
        write_bytes(json_lines(stretch, body) if stretch else b"")
        if len(stretch) < LIVE_BYTES:
            sys.stdout.flush()
