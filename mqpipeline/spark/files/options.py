"""Options of format("rocketmq-store"): parses and checks their text."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mqcommon.names import tag_names
from mqpipeline.spark.option import Option, boolean, queue_numbers, read_options

__all__ = ["DECLARED", "StoreOptions"]

TABLES = {
    "messages": (
        *("topic", "queues", "tags", "startingOffset", "endingOffset"),
        *("minPartitions", "failOnDataLoss"),
    ),
    "consumequeue": ("topic", "queues"),
    "index": (),
}
"""The tables that can be read, and the options that apply to each."""

PARTITIONS_MAX = 100_000


def _table(text: str) -> str:
    if text.lower() not in TABLES:
        raise ValueError(f"give one of {', '.join(TABLES)}")
    return text.lower()


def _number(least: int, most: int) -> Callable[[str], int]:
    """A parser for whole numbers in a range."""

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
        "`messages`, or for audits the stored entries of `consumequeue` or `index`",
        "messages",
        "messages",
    ),
    Option("topic", str, "only this topic", shown="all"),
    Option("queues", queue_numbers, "only these queue ids, `0,2`", shown="all"),
    Option("tags", tag_names, "only these tags, `TagA || TagB`", shown="all"),
    Option(
        "startingOffset",
        _physical_offset,
        "the physical offset of the record to start with; for one store only",
        shown="the log's first",
    ),
    Option(
        "endingOffset",
        _physical_offset,
        "the physical offset at which to stop, exclusive; for one store only",
        shown="the log's end",
    ),
    Option(
        "minPartitions",
        _number(1, PARTITIONS_MAX),
        "minimum number of tasks, if the log's files can be split that far",
        1,
        "a task for each 128 MiB of the log",
    ),
    Option(
        "failOnDataLoss",
        boolean,
        "`true`: a damaged log or body is an error. `false`: damage is skipped, and each task logs "
        "one warning with the number of skipped bytes",
        True,
        "true",
    ),
)
"""All options; others are refused."""


@dataclass(frozen=True, slots=True)
class StoreOptions:
    """The values of `.load(...)` and `.option(...)`; DECLARED has the meaning of each option."""

    paths: tuple[str, ...]
    """Roots of stores: `.load("/data/store")`, `.load(["/a/store", "/b/store"])`, or a pattern such
    as `.load("/backup/*/store")`."""
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
        """Parse Spark's option map (keys in any case); a ValueError names the bad option."""
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
    """The absolute paths of the roots; a pattern is replaced by all its matches."""
    several = given.get("paths")
    named = json.loads(several) if several else [given.get("path") or ""]
    if not all(named):
        raise ValueError("the path of the store is missing: .load(path)")
    found: list[str] = []
    for path in (name.removeprefix("file:") for name in named):
        matches = sorted(glob.glob(path)) if glob.has_magic(path) else [path]
        if not matches:
            raise ValueError(f"no directory matches {path!r} on the machine of the driver")
        found += map(os.path.abspath, matches)
    return tuple(dict.fromkeys(found))
