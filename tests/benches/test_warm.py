"""Memory that is kept warm is there for others."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benches.warm import KEPT_OF, PAGE_BYTES, warm_memory

WARM_BYTES = 256 << 20

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def held_bytes() -> int:
    """Of memory with no file behind it, the keeper's that this process started."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = path.read_bytes().split(b"\0")
            status = (path.parent / "status").read_text()
        except OSError:  # it ended
            continue
        if b"warm.py" in b"".join(arguments) and str(WARM_BYTES).encode() in arguments:
            return sum(
                int(line.split()[1]) * 1024
                for line in status.splitlines()
                if line.startswith(("RssAnon:", "RssShmem:"))
            )
    return 0


def test_the_keeper_has_a_page_of_many_and_gives_them_back() -> None:
    with warm_memory(WARM_BYTES):
        pages = held_bytes() // PAGE_BYTES
    kept = WARM_BYTES // PAGE_BYTES // KEPT_OF
    assert kept <= pages < 4 * kept + 4_096, "and what Python itself takes"
    assert held_bytes() == 0
