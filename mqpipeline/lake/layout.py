"""Paths and names in a lake.

    LAKE/topic=Orders/day=2026-11-25/hour=07/broker-a.3-0000000000-0000000999.parquet
    LAKE/_mqpipeline/NAME.json, NAME.lock, lake.lock, staging/NAME/RUN/...

Parquet readers skip folders that start with "_". Names are escaped as in URLs; pyarrow and Spark
unescape them. A file's name contains the source of its messages, a queue of a broker or a store,
and the first and the last offset, so no two files of a lake have the same name.
"""

from __future__ import annotations

import re
import zlib
from datetime import UTC, datetime
from pathlib import PurePosixPath
from typing import NamedTuple
from urllib.parse import quote, unquote

__all__ = [
    "CONTROL",
    "STORE_COLUMN",
    "Interval",
    "LakeFile",
    "file_name",
    "folder_name",
    "is_job_name",
    "lock_path",
    "parse_path",
    "queue_source",
    "staging_path",
    "state_path",
    "store_source",
]

CONTROL = "_mqpipeline"
"""Folder of a lake for the state of the jobs."""
STORE_COLUMN = "store"
"""The column of format("rocketmq-store") with the path of a store."""
Interval = str
"""`hour` or `day`: the time range of a folder, in UTC."""

_NAME = re.compile(r"(.+)-(\d{10,})-(\d{10,})\.parquet")
_JOB_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")


class LakeFile(NamedTuple):
    """A file of a lake, as described by its path."""

    path: str
    folder: str
    topic: str
    source: str
    first: int
    last: int


def folder_name(topic: str, start_us: int, by: Interval) -> str:
    """The folder for messages of a topic that were stored in the hour or day of `start_us`."""
    moment = datetime.fromtimestamp(start_us // 1_000_000, UTC)
    day = f"topic={quote(topic, safe='')}/day={moment:%Y-%m-%d}"
    return f"{day}/hour={moment:%H}" if by == "hour" else day


def file_name(source: str, first: int, last: int) -> str:
    """The name of a file. source: see `queue_source` and `store_source`."""
    return f"{source}-{first:010d}-{last:010d}.parquet"


def queue_source(broker: str, queue_id: int) -> str:
    """The source in a file name, for messages of a queue."""
    return f"{_escaped(broker)}.{queue_id}"


def store_source(path: str) -> str:
    """The source in a file name, for messages of a store's files."""
    name = _escaped(PurePosixPath(path).name) or "root"
    return f"store.{name}.{zlib.crc32(path.encode()):08x}"


def _escaped(text: str) -> str:
    """Escape a text, including the dot, which separates the parts of a source."""
    return quote(text, safe="").replace(".", "%2E")


def parse_path(path: str) -> LakeFile | None:
    """Parse the path of a file, relative to its lake; None if mqpipeline did not write the file."""
    folder, _, name = path.rpartition("/")
    found = _NAME.fullmatch(name)
    head = folder.split("/", 1)[0]
    if found is None or not head.startswith("topic="):
        return None
    topic = unquote(head.removeprefix("topic="))
    return LakeFile(path, folder, topic, found[1], int(found[2]), int(found[3]))


def state_path(name: str) -> str:
    """The file with the state of a job."""
    return f"{CONTROL}/{name}.json"


def lock_path(name: str) -> str:
    """The file that a running job keeps locked; the name `lake` is for the lock on the whole
    lake."""
    return f"{CONTROL}/{name}.lock"


def staging_path(name: str) -> str:
    """The staging folder of a job; each run writes its uncommitted files to a subfolder."""
    return f"{CONTROL}/staging/{name}"


def is_job_name(name: str) -> bool:
    """Whether a name is valid for a job."""
    return _JOB_NAME.fullmatch(name) is not None and name != "lake"
