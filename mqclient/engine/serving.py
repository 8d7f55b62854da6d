"""Serves with several clients until a signal, and then closes them in order."""

from __future__ import annotations

import asyncio

from mqclient.engine.async_client import AsyncClient
from mqclient.engine.signals import until_signal
from mqclient.settings.checks import seconds

__all__ = ["run"]


async def run(*clients: AsyncClient, timeout: float = 20.0) -> None:
    """Serve until SIGINT or SIGTERM, or until one of the clients is closed; then close all.

    Clients that do not run are started, consumers last. At the end consumers stop pulling, their
    running handlers end within `timeout` seconds, and they commit; then the other clients send
    what they have accepted. Signals are caught on the main thread only. Where a server of your own
    catches them, such as uvicorn, use `async with` instead.
    Raises ValueError without a client, what start() raises, and RocketMQError when a client can no
    longer work.
    """
    if not clients:
        raise ValueError("run needs a client; give it consumers, and the producers that they use")

    for client in clients:
        if not isinstance(client, AsyncClient):
            raise TypeError(f"run takes clients of mqclient.aio, as Producer(), not {client!r}")
    seconds(timeout)

    async def begin() -> None:
        for client in sorted(clients, key=lambda one: one._closes_first):
            await client._serve()

    try:
        await until_signal([client._client.ending for client in clients], begin)
    finally:
        for first in (True, False):
            group = [client for client in clients if client._closes_first is first]
            await asyncio.gather(*(client.close(timeout) for client in group))
    for client in clients:
        client._raise_failure()
