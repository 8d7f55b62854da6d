"""For tests: a broker in this process, free ports, one raw request.

The pytest plugin has fixtures: `mq_broker` is a started `Standalone`, `mq_namesrv` the address of
its NameServer, and `mq_replicated` a started `Standalone` whose master has a slave.
"""

from __future__ import annotations

import itertools
import os
import random
import socket
import threading
from contextlib import ExitStack
from functools import cache

from mqserver.embedded.raw_client import Probe, ask
from mqserver.embedded.standalone import Standalone

__all__ = ["Probe", "Standalone", "ask", "free_port"]

_FIRST, _LAST = 20_000, 32_000
"""Below the kernel's ephemeral range, so that no outgoing connection takes one of these ports."""
_STEP = 4
"""A broker's port P, P-2 (the VIP listener) and P+1 (replication) lie in one step."""


class FreePorts:
    """Gives each of its ports once before it gives one again.

    worker, workers: the part of the range for this worker of pytest-xdist. start: a number that
    chooses the first port of the part.
    """

    def __init__(self, worker: int, workers: int, start: int) -> None:
        part = (_LAST - _FIRST) // workers
        begin = _FIRST + worker % workers * part + 2
        ports = range(begin, begin + part - _STEP, _STEP)
        start %= len(ports)
        self._ports: itertools.cycle[int] = itertools.cycle([*ports[start:], *ports[:start]])
        self._count = len(ports)
        self._lock = threading.Lock()

    def take(self, host: str) -> int:
        """The next port P such that P, P-2 and P+1 are free. Raises RuntimeError."""
        for _ in range(self._count):
            with self._lock:
                port = next(self._ports)
            with ExitStack() as held:
                try:
                    for candidate in (port, port - 2, port + 1):
                        held.enter_context(socket.socket()).bind((host, candidate))
                except OSError:
                    continue
                return port
        raise RuntimeError(f"no three free ports between {_FIRST} and {_LAST}")


@cache
def _ports_of_this_process() -> FreePorts:
    """One for the process: two servers that start at the same time must not get one port."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw") or 0)
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    # Another test run may use the range at the same time.
    return FreePorts(worker, workers, start=random.randrange(_LAST - _FIRST))


def free_port(host: str = "127.0.0.1") -> int:
    """A port P such that P, P-2 and P+1, the three ports of a broker, are free.

    A port is returned again only after all others were, also across the workers of pytest-xdist,
    so servers that start at the same time do not collide. Raises RuntimeError when no port is free.
    """
    return _ports_of_this_process().take(host)
