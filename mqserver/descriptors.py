"""How many connections a server may hold open, so that the store keeps its file descriptors."""

from __future__ import annotations

# Python loads a codec at its first use. By then clients may have taken all descriptors.
import encodings.idna
import encodings.latin_1  # noqa: F401
import logging
import resource

log = logging.getLogger(__name__)

STORE_PARTS = 4
"""The store's consume queue files may use one of this many parts of the limit on open files."""
RESERVE = 128
"""File descriptors for the commit log, the index, state files, threads and outgoing connections."""
CONNECTIONS_REFUSED_HELP = "Connections refused because maxConnections connections were open"


def connections_max(wanted: int, servers: int = 1) -> int:
    """`maxConnections`, or fewer when the process may not open that many files; at least 1.

    wanted: `maxConnections`. servers: listening servers in this process, which share its limit.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return wanted
    allowed = max(1, (limit - limit // STORE_PARTS - RESERVE) // servers)
    if allowed < wanted:
        log.info(
            "at most %d connections instead of maxConnections=%d: the process may open %d files "
            "(ulimit -n), and the store and other servers of the process keep the rest",
            allowed,
            wanted,
            limit,
        )
    return min(wanted, allowed)
