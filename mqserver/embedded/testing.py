"""For tests: a broker in this process, free ports, one raw request.

The pytest plugin has fixtures: `mq_broker` is a started `Standalone`, and `mq_namesrv` the address
of its NameServer.
"""

from __future__ import annotations

import itertools
import os
import random
import socket
import threading
from contextlib import ExitStack

from mqserver.embedded.raw_client import Probe, ask
from mqserver.embedded.standalone import Standalone

__all__ = ["Probe", "Standalone", "ask", "free_port", "free_port_triple"]

_FIRST, _LAST = 20_000, 32_000
"""Below the kernel's ephemeral range, so that no outgoing connection takes one of these ports."""
_STEP = 4
"""A broker's port P, P-2 (the VIP listener) and P+1 (replication) lie in one step."""
_lock = threading.Lock()


def _ports() -> itertools.cycle[int]:
    """All ports of this process; each worker of pytest-xdist has its own part of the range."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw") or 0)
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    part = (_LAST - _FIRST) // workers
    begin = _FIRST + worker % workers * part + 2
    places = list(range(begin, begin + part - _STEP, _STEP))
    start = random.randrange(len(places))  # another test run may use the range at the same time
    return itertools.cycle(places[start:] + places[:start])


_places = _ports()


def free_port(host: str = "127.0.0.1") -> int:
    """A port P such that P, P-2 and P+1, the three ports of a broker, are free.

    A port is returned again only after all others were, also across the workers of pytest-xdist,
    so servers that start at the same time do not collide. Raises RuntimeError when no port is free.
    """
    for _ in range(_LAST - _FIRST):
        with _lock:
            port = next(_places)
        with ExitStack() as held:
            try:
                for candidate in (port, port - 2, port + 1):
                    held.enter_context(socket.socket()).bind((host, candidate))
            except OSError:
                continue
            return port
    raise RuntimeError(f"no three free ports between {_FIRST} and {_LAST}")


free_port_triple = free_port
"""The older name of `free_port`."""
