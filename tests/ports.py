"""Ports for servers under test, each given out once: starting takes seconds, and so many start at
the same time that two would pick the same one now and then.
"""

from __future__ import annotations

import itertools
import os
import random
import socket
import threading
from contextlib import ExitStack

FIRST, LAST = 20_000, 32_000
"""Below the kernel's ephemeral range, so that no outgoing connection takes one meanwhile."""
STEP = 4
"""A broker's port P, P-2 (the VIP listener) and P+1 (replication) lie in one step."""
_lock = threading.Lock()


def _triples() -> itertools.cycle[int]:
    """Every triple of this process: each worker of pytest-xdist has its own part of the range."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw") or 0)
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    part = (LAST - FIRST) // workers
    begin = FIRST + worker % workers * part + 2
    places = list(range(begin, begin + part - STEP, STEP))
    start = random.randrange(len(places))  # another run of the tests may be under way
    return itertools.cycle(places[start:] + places[:start])


_places = _triples()


def free_triple() -> int:
    """A port P such that P, P-2 and P+1 are free, and nobody here was given one of them before."""
    for _ in range(1_000):
        with _lock:
            port = next(_places)
        with ExitStack() as held:
            try:
                for candidate in (port, port - 2, port + 1):
                    held.enter_context(socket.socket()).bind(("127.0.0.1", candidate))
            except OSError:
                continue
            return port
    raise RuntimeError(f"no three free ports between {FIRST} and {LAST}")


free_port = free_triple
