"""Messages of one queue that were pulled and not yet consumed, in offset order."""

from bisect import bisect_right
from collections.abc import Sequence

from mqclient.consumer.statistics import TopicCounts
from mqclient.engine.request_template import FrameTemplate
from mqcommon.message import MessageQueue, ReceivedMessage

__all__ = ["ProcessQueue"]


class _Pull:
    """The messages of one pull, in offset order; some may be consumed."""

    __slots__ = ("_head", "gone", "messages", "size")

    def __init__(self, messages: Sequence[ReceivedMessage], size: int) -> None:
        self.messages = messages
        self.size = size
        self.gone: set[int] = set()
        self._head = 0  # all earlier messages are consumed

    def __len__(self) -> int:
        return len(self.messages) - len(self.gone)

    def is_whole(self, messages: Sequence[ReceivedMessage]) -> bool:
        """Whether messages of the queue, in offset order, are all of the pull."""
        own = self.messages
        return len(messages) == len(own) and messages[0] is own[0] and messages[-1] is own[-1]

    @property
    def first(self) -> ReceivedMessage:
        while self.gone and self.messages[self._head].queue_offset in self.gone:
            self._head += 1
        return self.messages[self._head]

    @property
    def last(self) -> ReceivedMessage:
        if not self.gone:
            return self.messages[-1]
        return next(m for m in reversed(self.messages) if m.queue_offset not in self.gone)


class ProcessQueue:
    """The messages that a consumer holds of one queue.

    Used by the loop's thread only. `dropped` is set when the queue is given up: results of
    running handlers are then ignored, and another member reads those messages again.
    """

    __slots__ = (
        "_count",
        "_pulls",
        "_starts",
        "at_end",
        "broker_id",
        "bytes_held",
        "counts",
        "dropped",
        "fruitless",
        "last_consume_ms",
        "last_lock_ms",
        "last_pull_ms",
        "locked_until",
        "next_offset",
        "parked",
        "paused",
        "pulls_one",
        "queue",
        "returning",
        "shown",
        "template",
    )

    def __init__(self, queue: MessageQueue, next_offset: int) -> None:
        self.queue = queue
        self.shown = queue
        """The queue as handlers see it, without the namespace."""
        self.next_offset = next_offset
        """Offset of the next pull."""
        self.at_end = False
        """Whether the last answer had messages, up to the end of the queue."""
        self.broker_id = 0
        """Broker id that the last answer suggested to pull from."""
        self.bytes_held = 0
        self.dropped = False
        self.paused = False
        self.parked: list[list[ReceivedMessage]] = []
        """Messages that wait for `resume`, as they came."""
        self.pulls_one = False
        """Whether the next pull requests one message, because it was damaged in the last answer."""
        self.fruitless = 0
        """Successive answers that did not move the queue's offset."""
        self.returning: set[int] = set()
        """Offsets of held messages that are being sent back."""
        self.counts: TopicCounts | None = None
        """The counts of the queue's topic; set at the first call of a handler."""
        self.last_pull_ms = 0
        self.last_consume_ms = 0
        self.last_lock_ms = 0
        self.locked_until = 0.0
        """The lock certainly holds until this time.monotonic() value; for orderly consumption."""
        self.template: tuple[tuple[str, int, int], FrameTemplate] | None = None
        """The values from which the template of this queue's pulls was made, and the template."""
        self._pulls: list[_Pull] = []
        self._starts: list[int] = []
        """First offset of each pull, for the search."""
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def span(self) -> int:
        """Distance between the first and the last offset held."""
        if not self._pulls:
            return 0
        return self._pulls[-1].last.queue_offset - self._pulls[0].first.queue_offset

    @property
    def first_offset(self) -> int:
        """The smallest offset held, or the next pull's offset if nothing is held."""
        return self._pulls[0].first.queue_offset if self._pulls else self.next_offset

    @property
    def position(self) -> int:
        """Offset of the first message that is not handled yet."""
        return self.first_offset

    @property
    def first_message(self) -> ReceivedMessage | None:
        """The held message with the smallest offset, which bounds the commit."""
        return self._pulls[0].first if self._pulls else None

    def add(self, messages: Sequence[ReceivedMessage], size: int | None = None) -> None:
        """Hold pulled messages, in offset order, after those held already.

        size: their bytes, as stored; None counts them here.
        """
        if not messages:
            return
        if size is None:
            size = sum(message.store_size for message in messages)
        self._pulls.append(_Pull(messages, size))
        self._starts.append(messages[0].queue_offset)
        self._count += len(messages)
        self.bytes_held += size

    def remove(self, messages: Sequence[ReceivedMessage]) -> None:
        """Remove consumed messages; messages that are not held any more do not count.

        The offset to commit is then `first_offset`.
        """
        if len(messages) > 1 and self._pulls:
            at = self._find(messages[0].queue_offset)
            pull = self._pulls[at]
            if at >= 0 and not pull.gone and pull.is_whole(messages):
                self._drop(at)  # a whole pull at once needs no work per message
                return
        for message in messages:
            self._remove_one(message)

    def holds(self, message: ReceivedMessage) -> bool:
        """Whether a message that was pulled is still held."""
        return self._pull_of(message.queue_offset) >= 0

    def _remove_one(self, message: ReceivedMessage) -> None:
        offset = message.queue_offset
        at = self._pull_of(offset)
        if at < 0:
            return
        pull = self._pulls[at]
        gone = pull.gone
        if len(gone) + 1 == len(pull.messages):
            self._drop(at)
            return
        size = message.store_size
        gone.add(offset)
        pull.size -= size
        self._count -= 1
        self.bytes_held -= size

    def _pull_of(self, offset: int) -> int:
        """Index of the pull that holds an offset; -1 if none does."""
        at = self._find(offset)
        if at < 0:
            return -1
        pull = self._pulls[at]
        return -1 if offset in pull.gone or offset > pull.messages[-1].queue_offset else at

    def _find(self, offset: int) -> int:
        """Index of the pull that would hold an offset; -1 if it lies before all of them."""
        starts = self._starts
        if len(starts) > 1:
            return bisect_right(starts, offset) - 1
        return 0 if starts and starts[0] <= offset else -1

    def _drop(self, at: int) -> None:
        pull = self._pulls[at]
        self._count -= len(pull)
        self.bytes_held -= pull.size
        del self._pulls[at], self._starts[at]
