"""The base of every asyncio client: its life, its state and its name."""

from __future__ import annotations

import asyncio
import time
import warnings
from typing import ClassVar, NoReturn, Self

from mqclient.engine.client import Client, State
from mqclient.engine.client_type import ClientType
from mqclient.errors import ClientTimeout, RocketMQError, UnreachableError
from mqclient.settings.checks import seconds
from mqcommon.backoff import Backoff
from mqcommon.names import AUTO_CREATE_TOPIC
from mqcommon.wire.calls import namesrv_calls

__all__ = ["AsyncClient"]

READY_PAUSE_FIRST_S, READY_PAUSE_MAX_S = 0.1, 2.0


class AsyncClient(metaclass=ClientType):
    """Base of Producer, TransactionProducer, PushConsumer, LitePullConsumer and Admin."""

    _client: Client
    _closes_first: ClassVar[bool] = False
    """Whether `run` closes it before others, which its handlers may use."""

    async def start(self) -> None:
        """Start the client; `async with` does this too. Does nothing while the client runs."""
        await self._client.start()

    async def close(self, timeout: float = 20.0) -> None:
        """Close the client. timeout: seconds, at most. May be called twice."""
        await self._client.close(seconds(timeout))

    async def wait_ready(self, timeout: float = 20.0) -> None:
        """Wait until a NameServer answers; of a consumer, until it has its queues.

        timeout: seconds. Raises UnreachableError or ClientTimeout with the last failure.
        """
        deadline = time.monotonic() + seconds(timeout)
        pauses = Backoff(READY_PAUSE_FIRST_S, READY_PAUSE_MAX_S)
        while True:
            left = max(0.001, deadline - time.monotonic())
            try:
                await self._client.invoke_namesrv(namesrv_calls.route(AUTO_CREATE_TOPIC), left)
                return
            except (UnreachableError, ClientTimeout):
                if time.monotonic() + pauses.pause_s >= deadline:
                    raise
            await asyncio.sleep(pauses.pause_s)
            pauses.grow()

    @property
    def state(self) -> State:
        """ "new", "running", "closing" or "closed"."""
        return self._client.state

    @property
    def client_id(self) -> str:
        """The id under which brokers know this client; "(not started)" before its start."""
        return self._client.client_id

    async def _serve(self) -> None:
        """Start, unless it runs; for `run`."""
        if not self._client.running:
            await self.start()

    def _raise_failure(self) -> None:
        """Raise RocketMQError if the client can no longer work."""
        failure = self._client.failure
        if failure is not None:
            text = f"{self!r} can no longer work: {failure!r}; see the log"
            raise RocketMQError(text) from failure

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __enter__(self) -> NoReturn:
        kind = type(self).__name__
        raise TypeError(f"{kind} of mqclient.aio needs `async with`; mqclient.{kind} has `with`")

    def __exit__(self, *_: object) -> None:
        """Never called; `with` looks for it before it calls `__enter__`."""

    def __del__(self) -> None:
        client = getattr(self, "_client", None)
        if client is not None and client.running:
            warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self, stacklevel=2)
