"""Budgets of memory that fit into the memory limit of the process's control group."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUPS = Path("/proc/self/cgroup")
REPLY_BYTES = 64 << 20
"""Bytes of unread replies of all clients, above which large replies are refused."""
HANDOFF_BYTES = 128 << 20
"""Bytes of the requests in Python's hands, above which requests are refused."""
PARTS = 8
"""A budget gets at most one of this many parts of the limit."""


def memory_limit(cgroups: Path = CGROUPS, own: Path = OWN_CGROUPS) -> int | None:
    """The smallest memory limit of the process's control groups, in bytes; None without one."""
    found = (_number(path) for path in _limit_files(cgroups, own))
    return min((limit for limit in found if limit is not None), default=None)


def within_memory(wanted: int, limit: int | None) -> int:
    """A budget of `wanted` bytes, or fewer if the limit is low. The data plane raises a budget that
    has no room for one frame."""
    return wanted if limit is None else min(wanted, limit // PARTS)


def _limit_files(cgroups: Path, own: Path) -> Iterator[Path]:
    """The files with limits, of both versions of control groups, up to the root."""
    try:
        lines = own.read_text().splitlines()
    except OSError:  # no Linux
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            folder, name = cgroups, "memory.max"
        elif "memory" in controllers.split(","):
            folder, name = cgroups / "memory", "memory.limit_in_bytes"
        else:
            continue
        inside = PurePosixPath(path.lstrip("/"))
        for group in (inside, *inside.parents):
            yield folder / group / name


def _number(path: Path) -> int | None:
    """The limit in a file; None for "max" and for a file that is not there."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
