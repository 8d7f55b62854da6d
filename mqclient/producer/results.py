"""Results of sends."""

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

from mqcommon.errors import NotDurableError, ProtocolError
from mqcommon.message import MessageQueue
from mqcommon.wire.codes import ResponseCode
from mqcommon.wire.frame import Frame

__all__ = ["SendResult", "SendStatus"]


class SendStatus(StrEnum):
    """How durably a message was stored; every value means that it is stored."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"


STATUS_OF_CODE = {
    int(ResponseCode.SUCCESS): SendStatus.SEND_OK,
    int(ResponseCode.FLUSH_DISK_TIMEOUT): SendStatus.FLUSH_DISK_TIMEOUT,
    int(ResponseCode.FLUSH_SLAVE_TIMEOUT): SendStatus.FLUSH_SLAVE_TIMEOUT,
    int(ResponseCode.SLAVE_NOT_AVAILABLE): SendStatus.SLAVE_NOT_AVAILABLE,
}
_CODE_OF_STATUS = {status: code for code, status in STATUS_OF_CODE.items()}


class Stored(Protocol):
    """The fields of a broker's answer to a send."""

    @property
    def code(self) -> int:
        """Response code, one of STATUS_OF_CODE."""

    @property
    def offset_msg_id(self) -> str:
        """The broker's id of the message."""

    @property
    def queue_id(self) -> int:
        """The queue of the message."""

    @property
    def queue_offset(self) -> int:
        """Offset of the message in that queue."""

    @property
    def transaction_id(self) -> str | None:
        """Id of the transaction, for a half message."""

    @property
    def region_id(self) -> str | None:
        """The broker's region."""

    @property
    def trace_on(self) -> bool:
        """Whether the broker wants the message traced."""


class _StoredFrame(NamedTuple):
    """The same, read from a frame."""

    code: int
    offset_msg_id: str
    queue_id: int
    queue_offset: int
    transaction_id: str | None
    region_id: str | None
    trace_on: bool


class _StoredItem:
    """The same, for one message of a batch, whose messages have consecutive offsets."""

    __slots__ = ("_batch", "_place", "offset_msg_id")

    def __init__(self, batch: Stored, place: int, offset_msg_id: str) -> None:
        self._batch = batch
        self._place = place
        self.offset_msg_id = offset_msg_id

    @property
    def queue_offset(self) -> int:
        return self._batch.queue_offset + self._place

    @property
    def code(self) -> int:
        return self._batch.code

    @property
    def queue_id(self) -> int:
        return self._batch.queue_id

    @property
    def transaction_id(self) -> str | None:
        return self._batch.transaction_id

    @property
    def region_id(self) -> str | None:
        return self._batch.region_id

    @property
    def trace_on(self) -> bool:
        return self._batch.trace_on


class SendResult:
    """A stored message, or the stored messages of a batch.

    Of a batch, `messages` has a result for each message; the ids and the offset of the batch's own
    result are those of its first message.
    """

    __slots__ = ("_ids", "_queue", "_stored")

    def __init__(self, stored: Stored, msg_id: str, queue: MessageQueue) -> None:
        self._stored = stored  # read on access: most senders never need it
        self._queue = queue
        self._ids = msg_id  # of a batch, with commas in between, as RocketMQ has it

    @property
    def msg_id(self) -> str:
        """The client's unique id of the message; see `msg_ids`."""
        return self._ids.partition(",")[0]

    @property
    def msg_ids(self) -> tuple[str, ...]:
        """The client's unique id of each message."""
        return tuple(self._ids.split(","))

    @property
    def status(self) -> SendStatus:
        """How durably the message is stored."""
        return STATUS_OF_CODE[self._stored.code]

    @property
    def lesser(self) -> bool:
        """Whether the message is stored less durably than requested: the status is not SEND_OK."""
        return self._stored.code != 0

    @property
    def offset_msg_id(self) -> str:
        """The broker's id of the message, which has its address and the physical offset."""
        return self._stored.offset_msg_id.partition(",")[0]

    @property
    def offset_msg_ids(self) -> tuple[str, ...]:
        """The broker's id of each message; one id of a broker that names only the batch."""
        return tuple(self._stored.offset_msg_id.split(","))

    @property
    def messages(self) -> "tuple[SendResult, ...]":
        """A result for each message, in the order of the send."""
        return tuple(one for part in self.parts for one in results_of(part, len(part.msg_ids)))

    @property
    def message_queue(self) -> MessageQueue:
        """The queue of the message."""
        queue, queue_id = self._queue, self._stored.queue_id
        if queue_id == queue.queue_id:
            return queue
        return MessageQueue(queue.topic, queue.broker_name, queue_id)

    @property
    def queue_offset(self) -> int:
        """Offset in the queue; for a batch, of its first message."""
        return self._stored.queue_offset

    @property
    def transaction_id(self) -> str | None:
        """The transaction of the message, or None."""
        return self._stored.transaction_id

    @property
    def region_id(self) -> str:
        """The broker's region."""
        return self._stored.region_id or "DefaultRegion"

    @property
    def trace_on(self) -> bool:
        """Whether the broker wants the message traced."""
        return self._stored.trace_on

    @property
    def parts(self) -> "tuple[SendResult, ...]":
        """The results of the parts of a batch that was sent in parts; else this result alone."""
        return (self,)

    def _values(self) -> tuple[object, ...]:
        return tuple(getattr(self, name) for name in _COMPARED)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SendResult):
            return NotImplemented
        return self._values() == other._values()

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[object, ...]:
        stored = _StoredFrame(*(getattr(self._stored, name) for name in _StoredFrame._fields))
        return SendResult, (stored, self._ids, self._queue)

    def __repr__(self) -> str:
        pairs = zip(_COMPARED, self._values(), strict=True)
        return f"SendResult({', '.join(f'{name}={value!r}' for name, value in pairs)})"

    def raise_for_status(self) -> "SendResult":
        """Return this result if the message is as durable as asked, else raise NotDurableError."""
        if self.status is SendStatus.SEND_OK:
            return self
        raise NotDurableError(
            _CODE_OF_STATUS[self.status],
            f"message {self._ids} is stored, but {_MEANING[self.status]}",
            self.message_queue.broker_name,
        )

    def __str__(self) -> str:
        """RocketMQ's own text."""
        return (
            f"SendResult [sendStatus={self.status}, msgId={self._ids}, "
            f"offsetMsgId={self._stored.offset_msg_id}, messageQueue={self.message_queue}, "
            f"queueOffset={self.queue_offset}]"
        )


class PartsResult(SendResult):
    """A batch that was sent in parts, because it was over the size limit.

    Ids are comma lists over all parts. The status is the first that is not SEND_OK. The queue, the
    offset and the other fields come from the first part.
    """

    __slots__ = ("_parts",)

    def __init__(self, parts: Sequence[SendResult]) -> None:
        first = parts[0]
        worst = next((part for part in parts if part.lesser), first)
        stored = _StoredFrame(
            worst._stored.code,
            ",".join(part._stored.offset_msg_id for part in parts),
            *(getattr(first._stored, name) for name in _StoredFrame._fields[2:]),
        )
        super().__init__(stored, ",".join(part._ids for part in parts), first._queue)
        self._parts = tuple(parts)

    @property
    def parts(self) -> tuple[SendResult, ...]:
        """The results of the parts, in order."""
        return self._parts

    def __reduce__(self) -> tuple[object, ...]:
        return PartsResult, (self._parts,)


_COMPARED = (
    "status",
    "msg_ids",
    "offset_msg_ids",
    "message_queue",
    "queue_offset",
    "transaction_id",
    "region_id",
    "trace_on",
)
_MEANING = {
    SendStatus.FLUSH_DISK_TIMEOUT: "its broker's disk did not flush it in time",
    SendStatus.FLUSH_SLAVE_TIMEOUT: "its slave did not copy it in time",
    SendStatus.SLAVE_NOT_AVAILABLE: "its broker has no slave that could copy it",
}


class BatchParts:
    """Makes the result of each message of a batch, whose messages have consecutive offsets."""

    __slots__ = ("_msg_ids", "_offset_ids", "_queue", "_stored")

    def __init__(self, batch: SendResult, count: int) -> None:
        self._stored, self._queue = batch._stored, batch.message_queue
        self._msg_ids = batch.msg_ids
        self._offset_ids = self._stored.offset_msg_id.split(",")
        if len(self._offset_ids) != count:  # a broker that names only the batch
            self._offset_ids = [self._stored.offset_msg_id] * count

    def at(self, place: int) -> SendResult:
        """The result of one of the messages, counted from 0."""
        stored = _StoredItem(self._stored, place, self._offset_ids[place])
        return SendResult(stored, self._msg_ids[place], self._queue)


def results_of(batch: SendResult, count: int) -> list[SendResult]:
    """The result of each of the `count` messages of a batch."""
    if count == 1:
        return [batch]
    parts = BatchParts(batch, count)
    return [parts.at(place) for place in range(count)]


def read_send_reply(reply: Frame, queue: MessageQueue, msg_id: str) -> SendResult:
    """Read the answer to a send whose code is one of STATUS_OF_CODE.

    Raises ProtocolError if a field of SendMessageResponseHeader is missing or malformed.
    """
    fields = reply.fields
    try:
        stored = _StoredFrame(
            reply.code,
            fields["msgId"],
            int(fields["queueId"]),
            int(fields["queueOffset"]),
            fields.get("transactionId"),
            fields.get("MSG_REGION"),
            fields.get("TRACE_ON") != "false",
        )
    except (KeyError, ValueError) as error:
        broker = f"broker {queue.broker_name}"
        raise ProtocolError(f"the answer to a send has no valid field {error}", broker) from error
    return SendResult(stored, msg_id, queue)
