"""What a broker keeps beside its log: who has the store, how it ended, config/*.json.

Everything is read as it lies there; a missing file is an empty table.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

__all__ = [
    "Checkpoint",
    "Condition",
    "committed_offsets",
    "delay_offsets",
    "find_condition",
    "group_names",
    "read_checkpoint",
    "topic_names",
]

Table = dict[str, Any]
_FLOCK = struct.Struct("@hhqqi4x")  # struct flock of 64-bit Linux: type, whence, start, length, pid
_F_WRLCK, _F_UNLCK = 1, 2
_CHECKPOINT = struct.Struct(">qqq")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Store times up to which the files were flushed, milliseconds since the epoch, 0: never."""

    log_ms: int
    """The commit log."""
    queues_ms: int
    """The consume queues."""
    index_ms: int
    """The index."""


@dataclass(frozen=True, slots=True)
class Condition:
    """How a store stands: in use, cleanly stopped, or left behind by a crash."""

    in_use: bool | None
    """Whether a broker holds the lock; None where that cannot be found out."""
    has_abort: bool
    """Whether the file `abort` is there: a broker runs, or it did not stop cleanly."""

    @property
    def clean(self) -> bool:
        """Whether the next broker opens it without an abnormal recovery."""
        return not self.has_abort

    @property
    def word(self) -> str:
        """One of "in use", "clean", "crashed"."""
        if self.in_use:
            return "in use"
        return "crashed" if self.has_abort else "clean"


def find_condition(root: Path) -> Condition:
    """Look at `abort` and `lock` without taking the lock or changing anything."""
    return Condition(_is_locked(root / "lock"), (root / "abort").exists())


def _is_locked(path: Path) -> bool | None:
    """Whether any process holds a lock on the first byte, ours (OFD) or Java's (POSIX)."""
    try:
        import fcntl
    except ImportError:
        return None
    command = getattr(fcntl, "F_OFD_GETLK", None)
    if command is None:
        return None
    try:
        with path.open("rb") as file:
            asked = _FLOCK.pack(_F_WRLCK, 0, 0, 1, 0)
            answer = fcntl.fcntl(file, command, asked)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    return bool(_FLOCK.unpack(answer)[0] != _F_UNLCK)


def read_checkpoint(root: Path) -> Checkpoint | None:
    """The checkpoint, None when there is none."""
    try:
        head = (root / "checkpoint").read_bytes()[: _CHECKPOINT.size]
    except OSError:
        return None
    return Checkpoint(*_CHECKPOINT.unpack(head)) if len(head) == _CHECKPOINT.size else None


def load_table(root: Path, name: str) -> Table:
    """`config/{name}`, or its .bak when it is missing, empty or damaged; {} when neither is."""
    from mqstore.fastjson import loads

    for file in (root / "config" / name, root / "config" / f"{name}.bak"):
        try:
            text = file.read_bytes()
            table = loads(text) if text else None
        except (OSError, ValueError):
            continue
        if isinstance(table, dict):
            return table
    return {}


def committed_offsets(root: Path) -> dict[str, dict[int, int]]:
    """Committed offsets as last persisted: "topic@group" to queue to offset."""
    rows: dict[str, dict[int, int]] = {}
    for name in ("consumerOffset.json", "lmqConsumerOffset.json"):
        table = load_table(root, name)
        rows |= {key: _numbers(row) for key, row in table.get("offsetTable", {}).items()}
        rows |= {key: {0: int(at)} for key, at in table.get("lmqOffsetTable", {}).items()}
    return rows


def delay_offsets(root: Path) -> dict[int, int]:
    """Delay level to the queue offset of the next message to deliver."""
    return _numbers(load_table(root, "delayOffset.json").get("offsetTable", {}))


def _numbers(row: object) -> dict[int, int]:
    if not isinstance(row, dict):
        return {}
    return {int(key): int(cast(int, value)) for key, value in row.items()}


def topic_names(root: Path) -> list[str]:
    """Topics that the broker knew, sorted."""
    return sorted(load_table(root, "topics.json").get("topicConfigTable", {}))


def group_names(root: Path) -> list[str]:
    """Consumer groups: those with settings and those that committed an offset, sorted."""
    known = set(load_table(root, "subscriptionGroup.json").get("subscriptionGroupTable", {}))
    committed = {key.partition("@")[2] for key in committed_offsets(root)}
    return sorted((known | committed) - {""})
