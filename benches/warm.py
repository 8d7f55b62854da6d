"""Memory at the speed of memory.

In a virtual machine memory that was free for some seconds goes back to its host, which supplies it
page by page when it is used again: that takes ten times as long as memory that goes round, and says
nothing of a broker. What goes back are free blocks of 2 MiB, so a process that keeps a page here
and there keeps the memory around them for whoever is measured.
"""

from __future__ import annotations

import mmap
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PAGE_BYTES = mmap.PAGESIZE
KEPT_OF = 128
"""One page of so many is kept: four in each such block."""
POPULATE_WRITE = 23
"""MADV_POPULATE_WRITE, which Python does not name."""
MEMORY_SHARE = 0.5
"""Of what is available, at most."""


@contextmanager
def warm_memory(byte_count: int) -> Iterator[None]:
    """Keep so much free memory warm during the `with` block; a process of its own has the pages.

    Does nothing where the kernel has no call for it (before 5.14, and other systems).
    """
    command = [sys.executable, __file__, str(min(byte_count, int(_available() * MEMORY_SHARE)))]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL) as keeper:
        assert keeper.stdin is not None and keeper.stdout is not None
        keeper.stdout.readline()  # ready, or gone
        try:
            yield
        finally:
            keeper.stdin.close()


def _available() -> int:
    """Bytes of memory that may be taken; 0 where the system does not say."""
    path = Path("/proc/meminfo")
    lines = path.read_text().splitlines() if path.exists() else []
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))


def _keep(byte_count: int) -> None:
    """Touch all pages, give most of them back, and wait for the end of the input."""
    # Private: of shared memory nothing goes back.
    memory = mmap.mmap(-1, byte_count, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    memory.madvise(POPULATE_WRITE)
    step = KEPT_OF * PAGE_BYTES
    for begin in range(0, byte_count - step, step):
        memory.madvise(mmap.MADV_DONTNEED, begin + PAGE_BYTES, step - PAGE_BYTES)
    print("ready", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    _keep(int(sys.argv[1]))
