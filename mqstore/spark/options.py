"""Options of format("rocketmq-store"): text in, a checked value out."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mqstore.spark_options import Option, boolean, queue_numbers, read_options, tag_names

__all__ = ["DECLARED", "StoreOptions"]

TABLES = {
    "messages": (
        *("topic", "queues", "tags", "startingOffset", "endingOffset"),
        *("minPartitions", "failOnDataLoss"),
    ),
    "consumequeue": ("topic", "queues"),
    "index": (),
}
"""What can be read, and the options that apply to it."""

PARTITIONS_MAX = 100_000


def _table(text: str) -> str:
    if text.lower() not in TABLES:
        raise ValueError(f"give one of {', '.join(TABLES)}")
    return text.lower()


def _number(least: int, most: int) -> Callable[[str], int]:
    """A reader of whole numbers of a range."""

    def read(text: str) -> int:
        if not text.isdecimal() or not least <= int(text) <= most:
            raise ValueError(f"give a number from {least} to {most}")
        return int(text)

    return read


_physical_offset = _number(0, 2**63 - 1)

DECLARED = (
    Option(
        "table",
        _table,
        "`messages`; for audits `consumequeue` or `index`, the entries as they lie in these files",
        "messages",
        "messages",
    ),
    Option("topic", str, "only this topic", shown="all"),
    Option("queues", queue_numbers, "only these queue ids, `0,2`", shown="all"),
    Option("tags", tag_names, "only these tags, `TagA || TagB`", shown="all", aliases=("tag",)),
    Option(
        "startingOffset",
        _physical_offset,
        "the physical offset of the record to start with; for one store only",
        shown="the log's first",
    ),
    Option(
        "endingOffset",
        _physical_offset,
        "a physical offset: a record that starts there is not read; for one store only",
        shown="the log's end",
    ),
    Option(
        "minPartitions",
        _number(1, PARTITIONS_MAX),
        "at least this many tasks, if the log's files can be split into so many",
        1,
        "a task for each 128 MiB of the log",
    ),
    Option(
        "failOnDataLoss",
        boolean,
        "`true`: a damaged log or body is an error. `false`: the damage is left out, and each task "
        "says in one warning how much that was",
        True,
        "true",
    ),
)
"""Every option there is; others are refused."""


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """What a user says with `.load(...)` and `.option(...)`; DECLARED says what each means."""

    paths: tuple[str, ...]
    """Roots of stores: `.load("/data/store")`, `.load(["/a/store", "/b/store"])`, or a pattern as
    in `.load("/backup/*/store")`."""
    table: str
    topic: str | None
    queues: frozenset[int] | None
    tags: frozenset[str] | None
    starting: int | None
    ending: int | None
    partitions: int
    fail_on_data_loss: bool

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> StoreOptions:
        """Read Spark's option map (keys in any case); ValueError names a bad option."""
        values = read_options(given, DECLARED)
        _refuse_foreign(given, values["table"])
        options = cls(
            paths=_paths(given),
            table=values["table"],
            topic=values["topic"],
            queues=values["queues"],
            tags=values["tags"],
            starting=values["startingOffset"],
            ending=values["endingOffset"],
            partitions=values["minPartitions"],
            fail_on_data_loss=values["failOnDataLoss"],
        )
        if len(options.paths) > 1 and (options.starting, options.ending) != (None, None):
            raise ValueError(
                "options startingOffset and endingOffset are offsets of one store: load one path"
            )
        return options


def _refuse_foreign(given: Mapping[str, str], table: str) -> None:
    for option in DECLARED:
        for name in option.names:
            if name != "table" and given.get(name) and option.name not in TABLES[table]:
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
