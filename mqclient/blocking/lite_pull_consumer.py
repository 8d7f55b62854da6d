"""The lite pull consumer's blocking face."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Self

from mqclient.blocking.loop_thread import CallbackThread
from mqclient.blocking.sync_client import SyncClient
from mqclient.consumer.context import is_async
from mqclient.consumer.lite.consumer import Committable
from mqclient.consumer.lite.consumer import LitePullConsumer as AsyncLitePullConsumer
from mqclient.consumer.lite.lite_assignment import AssignmentListener
from mqclient.consumer.subscription import SqlFilter
from mqclient.engine.callables import check_takes
from mqclient.engine.threads import in_thread
from mqclient.settings.consumers import LitePullOptions
from mqclient.settings.declare import explained, made_of, takes
from mqcommon.message import MessageQueue, ReceivedMessage

__all__ = ["LitePullConsumer"]


@explained
class LitePullConsumer(SyncClient[AsyncLitePullConsumer]):
    """Reads topics, or queues, when the caller asks; one thread at a time asks.

        with LitePullConsumer("order_readers", "127.0.0.1:9876") as consumer:
            consumer.subscribe("TopicTest", "TagA || TagB")
            for message in consumer:
                print(message.body)

    A queue's position moves past a message when the next one is asked for. A loop that is left by
    an exception or `break` therefore leaves the message in hand uncommitted.
    """

    _unclosed_timeout = 5.0
    _is_consumer = True

    @takes(LitePullOptions)
    def __init__(self, options: LitePullOptions) -> None:
        client = made_of(AsyncLitePullConsumer, options)
        self._async_listeners = CallbackThread("mqclient-listeners")
        super().__init__(client, self._async_listeners)

    # --- what to read

    def subscribe(self, topic: str, expression: str | SqlFilter = "*") -> None:
        """Read this member's share of a topic; before or after the start.

        expression: tags "TagA || TagB", "*" for every message, or a SqlFilter. Every member of
        the group must have the same subscriptions. Raises TypeError, ValueError, also without a
        group and after `assign`. A running consumer lets a broker check a SqlFilter: BrokerError
        if the broker refuses it, UnreachableError or ClientTimeout when none can be asked.
        """
        if self._thread is None:
            self._async.subscribe(topic, expression)
        else:
            self._running.run(self._subscribed(topic, expression))

    async def _subscribed(self, topic: str, expression: str | SqlFilter) -> None:
        await self._async.subscribe(topic, expression)

    def unsubscribe(self, topic: str) -> None:
        """Stop reading a topic; unknown topics are ignored."""
        self._on_loop(self._async.unsubscribe, topic)

    def assign(self, queues: Iterable[MessageQueue], expression: str | SqlFilter = "*") -> None:
        """Read exactly these queues, whatever other members do; replaces an earlier assignment.

        expression: as in `subscribe`, for all their topics. Queues that were assigned before keep
        their position. Raises TypeError, ValueError, also after `subscribe`.
        """
        self._on_loop(self._async.assign, queues, expression)

    def on_assignment(self, listener: AssignmentListener) -> None:
        """Call `listener(gained, lost)` in a thread when queues come or go.

        An `async def` runs on an event loop of the consumer's own, in a thread of its own. The
        positions of lost queues can still be read and committed in it; auto-commit follows it. Its
        exceptions are logged.
        """
        check_takes("listener", listener, "gained", "lost")

        async def elsewhere(gained: list[MessageQueue], lost: list[MessageQueue]) -> None:
            await in_thread(listener, gained, lost)

        there = self._async_listeners.wrap(listener) if is_async(listener) else elsewhere
        self._on_loop(self._async.on_assignment, there)

    def assigned(self) -> list[MessageQueue]:
        """The queues that this consumer reads now."""
        queues: list[MessageQueue] = self._running.call(self._async.assigned)
        return queues

    def wait_assigned(self, timeout: float = 20.0) -> list[MessageQueue]:
        """Wait until the group has shared every subscribed topic once, or the assigned queues are
        read.

        Returns this consumer's queues, which may be none if the group has more members than
        queues. Raises ClientTimeout, BrokerError when a broker refuses a SqlFilter.
        """
        return self._running.run(self._async.wait_assigned(timeout))

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be read. Raises NoRouteError if there is none."""
        return self._running.run(self._async.queues(topic))

    # --- messages

    def __iter__(self) -> Self:
        self._running.check_caller()
        self._async.check_reads()
        return self

    def __next__(self) -> ReceivedMessage:
        """Wait for the next message; the iteration ends when the consumer is closed.

        Raises BrokerError when a broker refuses the pulls, for example for missing permission.
        """
        thread = self._thread or self._running
        if thread.usable:
            message = self._async.take()
            if message is not None:
                return message
        try:
            return thread.run(self._next(), self._async.take_back)
        except StopAsyncIteration:
            raise StopIteration from None

    async def _next(self) -> ReceivedMessage:
        return await anext(self._async)

    def poll(self, max_messages: int = 32, timeout: float = 5.0) -> list[ReceivedMessage]:
        """Wait for messages; returns those at hand, at most `max_messages`, in any queues' order.

        timeout: seconds to wait for the first one; after it the list is empty. Positions move past
        them with the next `poll`. Raises as iterating does, ClosedError after a close.
        """
        thread = self._running
        return thread.run(self._async.poll(max_messages, timeout), self._async.take_back)

    def pause(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Hand out and pull no more messages of these queues, None means all, until `resume`.

        Raises ValueError for a queue that is not assigned.
        """
        self._running.call(self._async.pause, queues)

    def resume(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Continue paused queues, None means all; ValueError for one that is not assigned."""
        self._running.call(self._async.resume, queues)

    # --- positions

    def seek(self, queue: MessageQueue, to: int | datetime) -> None:
        """Read a queue from an offset on, or from the first message stored at or after a time.

        to: an offset between the queue's minimum and maximum, or an aware datetime. Raises
        ValueError for another offset and for a queue that is not assigned, TypeError, BrokerError,
        UnreachableError, ClientTimeout.
        """
        self._running.run(self._async.seek(queue, to))

    def seek_to_begin(self, queue: MessageQueue) -> None:
        """Read a queue from its first message on. Raises as `seek` does."""
        self._running.run(self._async.seek_to_begin(queue))

    def seek_to_end(self, queue: MessageQueue) -> None:
        """Read only messages that come after this call. Raises as `seek` does."""
        self._running.run(self._async.seek_to_end(queue))

    def offset_for_timestamp(self, queue: MessageQueue, when: datetime) -> int:
        """Offset of the first message stored at or after a time, the queue's end if there is none.

        when: an aware datetime. The queue need not be assigned. Raises TypeError, ValueError,
        BrokerError, UnreachableError, ClientTimeout.
        """
        return self._running.run(self._async.offset_for_timestamp(queue, when))

    def position(self, queue: MessageQueue) -> int:
        """Offset of the first message that is not handled: the one in hand, or the next.

        Raises ValueError for a queue that is not assigned, ClientTimeout if its start is unknown.
        """
        return self._running.run(self._async.position(queue))

    def committed(self, queue: MessageQueue) -> int | None:
        """The group's committed offset of a queue, None when there is none.

        The queue need not be assigned. Raises ValueError without a group, BrokerError,
        UnreachableError, ClientTimeout.
        """
        return self._running.run(self._async.committed(queue))

    def commit(self, what: Committable = None) -> None:
        """Write offsets to the brokers, with or without auto_commit, and wait for their answers.

        what: None commits all positions, so not the messages in hand. A message, or several, count
        as handled with all before them; messages of queues that this consumer lost are ignored, and
        so are messages from before a seek. A mapping of queues to offsets is committed as it is.
        Raises ValueError without a group, TypeError, BrokerError,
        UnreachableError, ClientTimeout.
        """
        self._running.run(self._async.commit(what))

    def _on_loop(self, function: Any, *arguments: Any) -> None:
        if self._thread is None:
            function(*arguments)
        else:
            self._running.call(function, *arguments)
