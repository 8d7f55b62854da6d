"""The blocking `run`: serves with several clients until a signal, and then closes them in order."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from mqclient.blocking.sync_client import SyncClient
from mqclient.settings.checks import seconds
from mqcommon.signals import catching_signals

__all__ = ["run"]

CHECK_S = 0.5
"""Seconds between checks of the clients."""


def run(*clients: SyncClient, timeout: float = 20.0) -> None:
    """Serve until SIGINT or SIGTERM, or until one of the clients is closed; then close all.

    Clients that do not run are started, consumers last. At the end consumers stop pulling, their
    running handlers end within `timeout` seconds, and they commit; then the other clients send
    what they have accepted. Signals are caught on the main thread only; a second one ends the
    program at once.
    Raises ValueError without a client, what start() raises, and RocketMQError when a client can no
    longer work.
    """
    if not clients:
        raise ValueError("run needs a client; give it consumers, and the producers that they use")

    for client in clients:
        if not isinstance(client, SyncClient):
            raise TypeError(f"run takes clients of mqclient, as Producer(), not {client!r}")
    seconds(timeout)

    def end(_number: int) -> None:
        for client in clients:
            client._over.set()

    try:
        # Catch signals before the start: one during the first message ends run() too.
        with catching_signals(end):
            for client in sorted(clients, key=lambda one: one._is_consumer):
                client._serve()
            while not clients[0]._over.wait(CHECK_S):
                if any(client._over.wait(0) for client in clients):
                    break
                for client in clients:
                    client._check_serving()
    finally:
        _close([client for client in clients if client._is_consumer], timeout)
        _close([client for client in clients if not client._is_consumer], timeout)


def _close(clients: Sequence[SyncClient], timeout: float) -> None:
    """Close clients at the same time."""
    if len(clients) == 1:
        clients[0].close(timeout)
        return
    threads = [
        threading.Thread(target=client.close, args=(timeout,), name="mqclient-close")
        for client in clients
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
