"""Blocking clients that their program did not close."""

import atexit
import concurrent.futures
import logging
import warnings
from concurrent.futures import Future
from typing import Protocol
from weakref import WeakSet

__all__ = ["close_at_exit", "close_unclosed"]

log = logging.getLogger(__name__)
CLOSING_MAX_S = 10.0
"""Seconds that all unclosed clients together may delay the end of the interpreter."""


class Closing(Protocol):
    """The parts of a blocking client that this module uses."""

    @property
    def _is_busy(self) -> bool:
        """Whether the client has unfinished work, or consumes."""

    def _close_soon(self) -> "Future[None] | None":
        """Start to finish the client's work and close it. None if there is nothing to close."""


_clients: "WeakSet[Closing]" = WeakSet()
_closing: set[Future[None]] = set()


def close_at_exit(client: Closing) -> None:
    """When the interpreter exits, let a client end its work, unless it is closed."""
    _clients.add(client)


def close_unclosed(client: Closing) -> None:
    """Close a client that is garbage, and warn; the interpreter waits for it at its exit."""
    if _begin(client):
        warnings.warn(f"unclosed {client!r}", ResourceWarning, source=client, stacklevel=3)


def _begin(client: Closing) -> bool:
    closing = client._close_soon()
    if closing is None:
        return False
    _closing.add(closing)
    closing.add_done_callback(_closing.discard)
    return True


def _at_exit() -> None:
    """Runs at the exit while threads and loops still work; `__del__` would run too late."""
    for client in tuple(_clients):
        if client._is_busy and _begin(client):
            log.warning(
                "%r was not closed; closing it after its accepted messages are sent or its "
                "handled messages are committed",
                client,
            )
    unfinished = concurrent.futures.wait(tuple(_closing), CLOSING_MAX_S).not_done
    if unfinished:
        log.warning(
            "%d unclosed clients did not end within %g s after the program: accepted messages "
            "may be lost, handled ones may come again; close clients, or use `with`",
            len(unfinished),
            CLOSING_MAX_S,
        )


atexit.register(_at_exit)
