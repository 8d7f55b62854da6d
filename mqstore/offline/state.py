"""Reads the tables that a broker keeps in config/*.json.

The files are read as they are; a missing file is an empty table.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

__all__ = ["committed_offsets", "delay_offsets", "group_names", "load_table", "topic_names"]

Table = dict[str, Any]
BYTES_MAX = 1 << 30
"""A larger state file is not read."""
TABLES = {
    "topics.json": ("topicConfigTable",),
    "subscriptionGroup.json": ("subscriptionGroupTable",),
    "consumerOffset.json": ("offsetTable", "lmqOffsetTable"),
    "lmqConsumerOffset.json": ("offsetTable", "lmqOffsetTable"),
    "delayOffset.json": ("offsetTable",),
}
"""The tables of each file. An object without them is the content of another file."""


def load_table(root: Path, name: str) -> Table:
    """`config/{name}`; its .bak if it is missing, empty, damaged or the content of another file;
    {} if there is no .bak."""
    from mqcommon.fastjson import loads
    from mqcommon.files import read_own

    for file in (root / "config" / name, root / "config" / f"{name}.bak"):
        try:
            text = read_own(file, BYTES_MAX)
            table = loads(text) if text else None
        except (OSError, ValueError):
            continue
        if isinstance(table, dict) and (not table or any(key in table for key in TABLES[name])):
            return table
    return {}


def committed_offsets(root: Path) -> dict[str, dict[int, int]]:
    """Committed offsets as last persisted: "topic@group" to queue to offset."""
    rows: dict[str, dict[int, int]] = {}
    for name in ("consumerOffset.json", "lmqConsumerOffset.json"):
        table = load_table(root, name)
        rows |= {key: _numbers(row) for key, row in _part(table, "offsetTable").items()}
        light = _part(table, "lmqOffsetTable").items()
        rows |= {key: _numbers({"0": offset}) for key, offset in light}
    return rows


def delay_offsets(root: Path) -> dict[int, int]:
    """Delay level to the queue offset of the next message to deliver."""
    return _numbers(_part(load_table(root, "delayOffset.json"), "offsetTable"))


def _part(table: Table, name: str) -> Table:
    """A nested table; {} if it has another type."""
    part = table.get(name)
    return part if isinstance(part, dict) else {}


def _numbers(row: object) -> dict[int, int]:
    """The numeric pairs of a row; others are dropped, because a damaged file may still be JSON."""
    found = {}
    for key, value in row.items() if isinstance(row, dict) else ():
        if isinstance(value, int) and key.lstrip("-").isdecimal():
            found[int(key)] = value
    return found


def topic_names(root: Path) -> list[str]:
    """Topics of the broker, sorted."""
    return sorted(_part(load_table(root, "topics.json"), "topicConfigTable"))


def read_queue_counts(root: Path) -> dict[str, int]:
    """The number of read queues of each topic whose settings name one."""
    rows = _part(load_table(root, "topics.json"), "topicConfigTable").items()
    counts = {topic: row.get("readQueueNums") for topic, row in rows if isinstance(row, dict)}
    return {topic: count for topic, count in counts.items() if isinstance(count, int)}


def group_names(root: Path) -> list[str]:
    """Consumer groups with settings or with a committed offset, sorted."""
    known = set(_part(load_table(root, "subscriptionGroup.json"), "subscriptionGroupTable"))
    committed = {key.partition("@")[2] for key in committed_offsets(root)}
    return sorted((known | committed) - {""})
