"""The common part of the blocking consumers."""

import threading

from mqclient.blocking.derive import like_plain, plain, sync
from mqclient.blocking.loop_thread import CallbackThread
from mqclient.blocking.sync_client import SyncClient
from mqclient.consumer.consumer import Consumer
from mqclient.consumer.rebalance_listener import LISTENER_TIMEOUT_S, QueuesFunction
from mqclient.engine.async_client import AsyncClient

__all__ = ["SyncConsumer"]


class SyncConsumer(SyncClient):
    """Base of PushConsumer and LitePullConsumer. callbacks: where `async def` functions run."""

    _unclosed_timeout = 5.0
    _is_consumer = True

    def __init__(self, client: AsyncClient, callbacks: CallbackThread) -> None:
        super().__init__(client, callbacks)
        self._async_functions = callbacks

    def close(self, timeout: float = 20.0) -> None:
        """Stop pulling, let running handlers end, commit, leave the group. May be called twice.

        timeout: seconds for the handlers. Inside a handler or a function of `on_rebalance` it
        returns at once, and the rest happens when that has ended. In a forked child it only
        forgets the client.
        """
        if self._async._in_handler:
            self._over.set()
            closing = threading.Thread(target=super().close, args=(timeout,), name="mqclient-close")
            closing.start()
            return
        super().close(timeout)

    unsubscribe = plain(Consumer.unsubscribe, before_start=True)
    subscription = plain(Consumer.subscription, before_start=True)
    assignment = plain(Consumer.assignment, before_start=True)
    queues = sync(Consumer.queues)
    wait_assigned = sync(Consumer.wait_assigned)
    wait_ready = sync(Consumer.wait_ready)

    @like_plain(Consumer.on_rebalance)
    def on_rebalance(
        self,
        *,
        assigned: QueuesFunction | None = None,
        revoked: QueuesFunction | None = None,
        lost: QueuesFunction | None = None,
        timeout: float = LISTENER_TIMEOUT_S,
    ) -> None:
        """Here `async def` runs on a loop of the consumer's own, in a thread of its own."""
        wrap = self._async_functions.wrap_optional
        self._on_rebalance(
            assigned=wrap(assigned), revoked=wrap(revoked), lost=wrap(lost), timeout=timeout
        )

    _on_rebalance = plain(Consumer.on_rebalance, before_start=True)

    pause = plain(Consumer.pause, before_start=True)
    resume = plain(Consumer.resume, before_start=True)
    paused = plain(Consumer.paused, before_start=True)

    seek = sync(Consumer.seek)
    seek_to_begin = sync(Consumer.seek_to_begin)
    seek_to_end = sync(Consumer.seek_to_end)
    position = sync(Consumer.position)
    committed = sync(Consumer.committed)

    beginning_offsets = sync(Consumer.beginning_offsets)
    end_offsets = sync(Consumer.end_offsets)
    offsets_for_times = sync(Consumer.offsets_for_times)
    offset_for_timestamp = sync(Consumer.offset_for_timestamp)
    lag = sync(Consumer.lag)
