"""`mqstore stat`: a summary of a store."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from mqcommon.cli.output import chosen_format, output_option, write_rows
from mqcommon.java_properties import render
from mqstore.cli.options import directory_argument
from mqstore.offline import StoreStat
from mqstore.offline import open as open_store

__all__ = ["stat"]

COLUMNS = (
    "path", "condition", "beginOffset", "endOffset", "firstTime", "lastTime", "topics", "queues",
    "messages", "groups",
)  # fmt: skip
EXPLAINED = {
    "in use": "in use: a broker holds its lock",
    "clean": "clean: the last broker shut down cleanly",
    "crashed": "crashed: the last broker did not shut down cleanly; the next start recovers",
}


@click.command()
@directory_argument
@output_option
def stat(directory: str, output: str | None) -> None:
    """Show a summary of the store in DIRECTORY: condition, sizes, extent, and settings to open
    it."""
    found = open_store(directory).stat()
    if chosen_format(output) != "table":
        write_rows([_row(found)], COLUMNS, output)
        return
    for name, text in _lines(found):
        click.echo(f"{name:<12} {text}")
    click.echo("\nbroker.conf lines that open it:")
    click.echo(render(found.broker_conf), nl=False)


def _row(found: StoreStat) -> dict[str, Any]:
    mark = found.checkpoint
    return {
        "path": str(found.path),
        "condition": found.condition.word,
        "abort": not found.condition.clean,
        "beginOffset": found.begin_physical_offset,
        "endOffset": found.end_physical_offset,
        "queuedOffset": found.queued_physical_offset,
        "firstTime": _time(found.first_store_timestamp_ms),
        "lastTime": _time(found.last_store_timestamp_ms),
        "firstStoreTimestamp": found.first_store_timestamp_ms,
        "lastStoreTimestamp": found.last_store_timestamp_ms,
        "checkpoint": mark
        and {"log": mark.log_ms, "queues": mark.queues_ms, "index": mark.index_ms},
        "topics": len(found.topics),
        "topicNames": list(found.topics),
        "queues": found.queue_count,
        "messages": found.message_count,
        "aboveReadCount": [
            {"topic": one.topic, "queueId": one.queue_id, "messages": one.message_count}
            for one in found.above_read_count
        ],
        "groups": len(found.groups),
        "groupNames": list(found.groups),
        "parts": {
            part.name: {
                "files": part.files,
                "lengthBytes": part.length_bytes,
                "diskBytes": part.disk_bytes,
            }
            for part in found.parts
        },
        "unread": [{"path": path, "what": what} for path, what in found.unread],
        "brokerConf": found.broker_conf,
    }


def _lines(found: StoreStat) -> list[tuple[str, str]]:
    """The lines of the summary, most important first."""
    begin, end = found.begin_physical_offset, found.end_physical_offset
    mark = found.checkpoint
    first, last = _time(found.first_store_timestamp_ms), _time(found.last_store_timestamp_ms)
    lines = [
        ("store", str(found.path)),
        ("condition", EXPLAINED[found.condition.word]),
        ("log", f"offsets {begin} to {end}, {end - begin} bytes of records"),
        ("time", f"{first} to {last}"),
        ("holds", f"{found.message_count} messages in {found.queue_count} queues, "
                  f"{len(found.topics)} topics, {len(found.groups)} groups"),
        ("flushed", f"log {_time(mark.log_ms)}, queues {_time(mark.queues_ms)}, "
                    f"index {_time(mark.index_ms)}" if mark else "there is no checkpoint"),
    ]  # fmt: skip
    if found.queued_physical_offset > end:
        lines.append(("damage", f"queues list records up to {found.queued_physical_offset}: "
                                f"mqstore verify {found.path}"))  # fmt: skip
    elif found.queued_physical_offset < end:
        behind = end - found.queued_physical_offset
        lines.append(("behind", f"the newest {behind} bytes of records are in no queue yet"))
    lines += [
        ("unreadable", f"topic {one.topic}: queue {one.queue_id} is above its number of read "
                       f"queues and holds {one.message_count} messages that consumers do not get")
        for one in found.above_read_count
    ]  # fmt: skip
    lines += [
        (part.name, f"{part.files} files, {part.length_bytes} bytes, {part.disk_bytes} on disk")
        for part in found.parts
    ]
    return lines + [("unread", f"{path}: {what}") for path, what in found.unread]


def _time(timestamp_ms: int | None) -> str:
    if not timestamp_ms:
        return "never"
    try:
        moment = datetime.fromtimestamp(timestamp_ms / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{timestamp_ms} ms"
    return moment.isoformat(timespec="milliseconds")
