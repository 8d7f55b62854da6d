"""For tests: a broker in the process, free ports, one raw request.

The pytest plugin offers the same as fixtures: `mq_broker` is a started `Standalone`, and
`mq_namesrv` the address of its NameServer.
"""

from __future__ import annotations

import socket

from mqserver.probe import Probe, ask
from mqserver.standalone import Standalone

__all__ = ["Probe", "Standalone", "ask", "free_port", "free_port_triple"]


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def free_port_triple(host: str = "127.0.0.1") -> int:
    """A port for a broker: free itself, and so are its VIP (-2) and HA (+1) neighbours."""
    while True:
        port = free_port(host)
        try:
            for other in (port - 2, port, port + 1):
                with socket.socket() as probe:
                    probe.bind((host, other))
        except OSError:
            continue
        return port
