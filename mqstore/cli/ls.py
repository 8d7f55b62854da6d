"""`mqstore ls`: the queues of a store."""

from __future__ import annotations

import click

from mqcommon.cli.options import topic_option
from mqcommon.cli.output import chosen_format, output_option, write_rows
from mqstore.cli.options import check_stored_topic
from mqstore.offline import StoreReader
from mqstore.offline import open as open_store

__all__ = ["ls"]

COLUMNS = ("topic", "queueId", "minOffset", "maxOffset", "messages")


@click.command()
@click.argument("directory", type=click.Path())
@topic_option("only this topic")
@output_option
def ls(directory: str, topic: str | None, output: str | None) -> None:
    """List the consume queues of the store in DIRECTORY."""
    reader = open_store(directory)
    check_stored_topic(reader, topic)
    rows = (
        {
            "topic": queue.topic,
            "queueId": queue.queue_id,
            "minOffset": queue.min_offset,
            "maxOffset": queue.max_offset,
            "messages": queue.message_count,
        }
        for queue in reader.queues()
        if topic is None or queue.topic == topic
    )
    write_rows(rows, COLUMNS, output)
    if chosen_format(output) == "table":
        click.echo(_summary(reader))


def _summary(reader: StoreReader) -> str:
    start, end = reader.min_physical_offset, reader.max_physical_offset
    size = reader.layout.commit_log_file_bytes
    return (
        f"commit log: files of {size} bytes, from offset {start} to {end}, where the last one ends"
    )
