"""`mqstore dump`: the messages of a store."""

from __future__ import annotations

import base64
import itertools
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import click

from mqstore.cli.output import output_option, write_rows
from mqstore.message import DecodeError, ReceivedMessage
from mqstore.offline import StoreReader
from mqstore.offline import open as open_store

__all__ = ["dump", "message_row"]

COLUMNS = (
    "commitLogOffset", "topic", "queueId", "queueOffset", "storeTime", "tags", "keys", "body",
)  # fmt: skip

BODIES: dict[str, Callable[[bytes], str]] = {
    "text": lambda body: body.decode("utf-8", "replace"),
    "hex": bytes.hex,
    "base64": lambda body: base64.b64encode(body).decode(),
}


@click.command()
@click.argument("directory", type=click.Path())
@click.option("--offset", type=int, help="start at this physical offset (of a record)")
@click.option("--stop", type=int, help="end before this physical offset")
@click.option("--count", type=click.IntRange(0), help="at most so many messages")
@click.option("--topic", help="only this topic")
@click.option("--queue", type=int, help="only this queue id")
@click.option("--tag", help="only messages with this tag")
@click.option("--key", help="only messages with this key (needs --topic; uses the index)")
@click.option(
    "--body",
    type=click.Choice([*BODIES, "none"]),
    default="text",
    show_default=True,
    help="how to write bodies",
)
@output_option
def dump(
    directory: str,
    offset: int | None,
    stop: int | None,
    count: int | None,
    topic: str | None,
    queue: int | None,
    tag: str | None,
    key: str | None,
    body: str,
    output: str | None,
) -> None:
    """Write the messages of the store in DIRECTORY, in the order they were stored."""
    reader = open_store(directory)
    if offset is not None and reader.message_at(offset) is None:
        raise click.ClickException(
            f"no record starts at offset {offset}; mqstore dump {directory} lists them"
        )
    if key is not None:
        messages = _by_key(reader, topic, key, queue)
    else:
        messages = reader.records(offset, stop, topic=topic, queue_id=queue)
    chosen = (m for m in messages if tag is None or m.tags == tag)
    rows = (message_row(m, body) for m in itertools.islice(chosen, count))
    write_rows(rows, COLUMNS, output)


def _by_key(
    reader: StoreReader, topic: str | None, key: str, queue: int | None
) -> Iterator[ReceivedMessage]:
    if topic is None:
        raise click.UsageError("--key needs --topic: keys are indexed by topic")
    found = reader.find(topic, key)
    return (m for m in reversed(found) if queue is None or m.queue_id == queue)


def message_row(message: ReceivedMessage, body: str) -> dict[str, Any]:
    """A message under RocketMQ's names.

    body: text, hex, base64 or none. `bodyError` says that a body is damaged, or does not
    decompress and is None.
    """
    row: dict[str, Any] = {
        "topic": message.topic,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "commitLogOffset": message.commit_log_offset,
        "storeSize": message.store_size,
        "msgId": message.msg_id,
        "offsetMsgId": message.offset_msg_id,
        "tags": message.tags,
        "keys": message.keys,
        "flag": message.flag,
        "sysFlag": message.sys_flag,
        "bornTimestamp": message.born_timestamp_ms,
        "bornHost": message.born_host,
        "storeTimestamp": message.store_timestamp_ms,
        "storeTime": _time_text(message),
        "storeHost": message.store_host,
        "reconsumeTimes": message.reconsume_times,
        "preparedTransactionOffset": message.prepared_transaction_offset,
        "bodyCRC": message.body_crc,
        "properties": message.properties,
    }
    if body != "none":
        try:
            row["body"] = BODIES[body](message.body)
            if zlib.crc32(message.stored_body) & 0x7FFFFFFF != message.body_crc:
                row["bodyError"] = "the body does not match bodyCRC: it is damaged"
        except DecodeError as error:
            row |= {"body": None, "bodyError": str(error)}
    return row


def _time_text(message: ReceivedMessage) -> str | None:
    try:
        return message.store_timestamp.isoformat(timespec="milliseconds")
    except DecodeError:  # damaged; the number itself is in storeTimestamp
        return None
