"""How many connections a server may hold open, so that the store keeps its file descriptors."""

from __future__ import annotations

# Python loads a codec at its first use. By then clients may have taken all descriptors.
import encodings.idna
import encodings.latin_1  # noqa: F401
import logging
import resource

from mqserver.config.loaded import SettingsError

log = logging.getLogger(__name__)

STORE_PARTS = 4
"""The store's consume queue files may use one of this many parts of the limit on open files."""
RESERVE = 128
"""File descriptors for the commit log, the index, state files, threads and outgoing connections."""
CONNECTIONS_MIN = 16
"""A server that may hold fewer connections refuses to start, unless `maxConnections` is smaller."""
CONNECTIONS_FEW = 1000
"""A server that may hold fewer connections than it is set to, and than this, warns."""
CONNECTIONS_REFUSED_HELP = "Connections refused because maxConnections connections were open"


def connections_max(wanted: int, servers: int = 1) -> int:
    """`maxConnections`, or fewer if the process may open fewer files.

    wanted: `maxConnections`. servers: listening servers in this process, which share its limit.
    Raises SettingsError if the limit leaves a server fewer than CONNECTIONS_MIN connections.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return wanted
    allowed = (limit - limit // STORE_PARTS - RESERVE) // servers
    least = min(wanted, CONNECTIONS_MIN)
    if allowed < least:
        needed = STORE_PARTS * (least * servers + RESERVE - 1) // (STORE_PARTS - 1) + 1
        raise SettingsError(
            f"the process may open {limit} files (ulimit -n), but needs {needed}: {RESERVE} for "
            f"itself, {least} connections for each server, and a quarter for the store"
        )
    if allowed < wanted:
        log.log(
            logging.WARNING if allowed < CONNECTIONS_FEW else logging.INFO,
            "at most %d connections instead of maxConnections=%d: the process may open %d files "
            "(ulimit -n), and the store and other servers of the process keep the rest",
            allowed,
            wanted,
            limit,
        )
    return min(wanted, allowed)
