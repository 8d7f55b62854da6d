"""Messages of one queue that were pulled and are not consumed yet, in offset order."""

from collections import OrderedDict
from collections.abc import Iterable

from mqstore.message import MessageQueue, ReceivedMessage

__all__ = ["ProcessQueue"]


class ProcessQueue:
    """What a consumer holds of one queue.

    Used by the loop's thread only. `dropped` is set when the queue is given up: results of
    handlers that still run are then ignored, another member reads those messages again.
    """

    __slots__ = (
        "_messages",
        "broker_id",
        "bytes_held",
        "dropped",
        "last_consume_ms",
        "last_pull_ms",
        "next_offset",
        "queue",
    )

    def __init__(self, queue: MessageQueue, next_offset: int) -> None:
        self.queue = queue
        self.next_offset = next_offset
        """Offset of the next pull."""
        self.broker_id = 0
        """Broker id that the last answer suggested to pull from."""
        self.bytes_held = 0
        self.dropped = False
        self.last_pull_ms = 0
        self.last_consume_ms = 0
        self._messages: OrderedDict[int, ReceivedMessage] = OrderedDict()

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def span(self) -> int:
        """Distance between the first and the last offset held."""
        if not self._messages:
            return 0
        return next(reversed(self._messages)) - next(iter(self._messages))

    @property
    def first_offset(self) -> int:
        """The smallest offset held; the next pull's when nothing is."""
        return next(iter(self._messages), self.next_offset)

    @property
    def first_message(self) -> ReceivedMessage | None:
        """The held message with the smallest offset: the one that keeps back the commit."""
        return next(iter(self._messages.values()), None)

    def add(self, messages: Iterable[ReceivedMessage]) -> None:
        """Hold pulled messages, which come in offset order."""
        held = self._messages
        for message in messages:
            held[message.queue_offset] = message
            self.bytes_held += message.store_size

    def remove(self, messages: Iterable[ReceivedMessage]) -> int:
        """Let go of consumed messages.

        Returns the offset to commit: the first one still held, else the one after the last pulled.
        """
        held = self._messages
        for message in messages:
            if held.pop(message.queue_offset, None) is not None:
                self.bytes_held -= message.store_size
        return next(iter(held), self.next_offset)
