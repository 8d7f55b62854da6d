"""A control group with a memory limit, if the test may create one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Self

CGROUPS = Path("/sys/fs/cgroup")


class _Version(NamedTuple):
    """The files of one version of control groups."""

    folder: Path
    limit: str
    peak: str


VERSIONS = (
    _Version(CGROUPS / "memory", "memory.limit_in_bytes", "memory.max_usage_in_bytes"),
    _Version(CGROUPS, "memory.max", "memory.peak"),
)


class ControlGroup:
    """A new group. Processes that start inside `entered` belong to it."""

    def __init__(self, version: _Version, limit_bytes: int) -> None:
        self._version = version
        self._folder = version.folder / f"mqstack-test-{os.getpid()}"
        self._folder.mkdir()
        try:
            (self._folder / version.limit).write_text(str(limit_bytes))
        except OSError:
            self._folder.rmdir()
            raise

    @classmethod
    def made(cls, limit_bytes: int) -> Self | None:
        """A group with that memory limit; None without the right to make one."""
        for version in VERSIONS:
            try:
                return cls(version, limit_bytes)
            except OSError:
                continue
        return None

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Have this process in the group during the `with` block."""
        before = self._own()
        self._enter(self._folder)
        try:
            yield
        finally:
            self._enter(before)

    def peak_mb(self) -> float:
        """The most memory that the group had, with its pages of files."""
        return int((self._folder / self._version.peak).read_text()) / (1 << 20)

    def remove(self) -> None:
        """Remove the group, whose processes have ended."""
        self._folder.rmdir()

    def _own(self) -> Path:
        """The folder of this process's group."""
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers == ("memory" if self._version is VERSIONS[0] else ""):
                return self._version.folder / path.lstrip("/")
        raise OSError("this process is in no control group")

    @staticmethod
    def _enter(folder: Path) -> None:
        (folder / "cgroup.procs").write_text(str(os.getpid()))
