"""Options of format("rocketmq-store"): text in, a checked value out."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass

from mqstore.spark_options import queue_ids, refuse_unknown, tag_names

__all__ = ["TABLES", "StoreOptions"]

TABLES = {
    "messages": frozenset({"topic", "queues", "tags", "starting", "ending", "partitions", "loss"}),
    "consumequeue": frozenset({"topic", "queues"}),
    "index": frozenset(),
}
"""What can be read, and the fields below that apply to it."""

_NAMES = {
    "topic": ("topic",),
    "queues": ("queues",),
    "tags": ("tags", "tag"),
    "starting": ("startingOffset",),
    "ending": ("endingOffset",),
    "partitions": ("minPartitions",),
    "loss": ("failOnDataLoss",),
}
PARTITIONS_MAX = 100_000


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """What a user says with `.load(...)` and `.option(...)`."""

    paths: tuple[str, ...]
    """Roots of stores: `.load("/data/store")`, `.load(["/a/store", "/b/store"])`, or a pattern as
    in `.load("/backup/*/store")`."""
    table: str = "messages"
    """messages, or for audits consumequeue or index: the entries as they lie in these files."""
    topic: str | None = None
    """Only this topic."""
    queues: frozenset[int] | None = None
    """Only these queue ids, "0,2"."""
    tags: frozenset[str] | None = None
    """tags: only messages with one of these, "TagA || TagB". Alias: tag."""
    starting: int | None = None
    """startingOffset: physical offset of a record, the first one; for one store only."""
    ending: int | None = None
    """endingOffset: physical offset; a record that starts there is left out; for one store only."""
    partitions: int = 1
    """minPartitions: log files are split until there are about so many tasks; without it tasks
    read about 128 MiB each."""
    fail_on_data_loss: bool = True
    """failOnDataLoss: damage is an error, a body that does not match its checksum included. With
    false, one warning for each task says what was left out."""

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> StoreOptions:
        """Read Spark's option map (keys in any case); ValueError names a bad option."""
        refuse_unknown(given, ("table", *(name for names in _NAMES.values() for name in names)))
        table = (given.get("table") or "messages").lower()
        if table not in TABLES:
            raise ValueError(f"option table = {table!r}: give one of {', '.join(TABLES)}")
        _refuse_foreign(given, table)
        options = cls(
            paths=_paths(given),
            table=table,
            topic=given.get("topic") or None,
            queues=queue_ids(given.get("queues")),
            tags=tag_names(_either(given, "tags", "tag")),
            starting=_number(given, "startingOffset"),
            ending=_number(given, "endingOffset"),
            partitions=_number(given, "minPartitions", 1, PARTITIONS_MAX) or 1,
            fail_on_data_loss=_boolean(given, "failOnDataLoss"),
        )
        if len(options.paths) > 1 and (options.starting, options.ending) != (None, None):
            raise ValueError(
                "options startingOffset and endingOffset are offsets of one store: load one path"
            )
        return options


def _refuse_foreign(given: Mapping[str, str], table: str) -> None:
    for field, names in _NAMES.items():
        for name in names:
            if given.get(name) and field not in TABLES[table]:
                raise ValueError(f"option {name} does not apply to table={table}; leave it out")


def _paths(given: Mapping[str, str]) -> tuple[str, ...]:
    """The roots, absolute; a pattern stands for all that it matches."""
    several = given.get("paths")
    named = json.loads(several) if several else [given.get("path") or ""]
    if not all(named):
        raise ValueError("say where the store is: .load(path)")
    found: list[str] = []
    for path in (name.removeprefix("file:") for name in named):
        matches = sorted(glob.glob(path)) if glob.has_magic(path) else [path]
        if not matches:
            raise ValueError(f"no directory matches {path!r} on the machine of the driver")
        found += map(os.path.abspath, matches)
    return tuple(dict.fromkeys(found))


def _either(given: Mapping[str, str], name: str, alias: str) -> str | None:
    if given.get(name) and given.get(alias):
        raise ValueError(f"options {name} and {alias} are the same: give one of them")
    return given.get(name) or given.get(alias)


def _number(
    given: Mapping[str, str], name: str, least: int = 0, most: int = 2**63 - 1
) -> int | None:
    text = given.get(name)
    if text is None:
        return None
    if not text.isdecimal() or not least <= int(text) <= most:
        raise ValueError(f"option {name} = {text!r}: give a number from {least} to {most}")
    return int(text)


def _boolean(given: Mapping[str, str], name: str) -> bool:
    text = (given.get(name) or "true").lower()
    if text not in ("true", "false"):
        raise ValueError(f"option {name} = {given.get(name)!r}: give true or false")
    return text == "true"
