"""Bodies about offsets and queue locks."""

from msgspec import field

from mqcommon.message import MessageQueue
from mqcommon.wire.bodies.base import Body
from mqcommon.wire.headers.base import Int32, Name


class ConsumerOffsetSerializeWrapper(Body):
    """All committed offsets of a broker: "topic@group" to queue id to offset."""

    offset_table: dict[str, dict[Int32, int]] = field(default_factory=dict)


class DelayOffsetSerializeWrapper(Body):
    """Delivery progress of each delay level."""

    offset_table: dict[Int32, int] = field(default_factory=dict)


class OffsetSerializeWrapper(Body):
    """Offsets that a broadcasting client keeps in its own file."""

    offset_table: dict[MessageQueue, int] = field(default_factory=dict)


class ResetOffsetBody(Body):
    """New offset of each queue: the answer to 222 and the body of 220."""

    offset_table: dict[MessageQueue, int] = field(default_factory=dict)


class QueueOffset(Body):
    """One row of the list that C++ clients read instead of a map."""

    topic: Name
    broker_name: Name
    queue_id: Int32
    offset: int


class ResetOffsetBodyForC(Body):
    """ResetOffsetBody as a list, for C++ clients."""

    offset_table: list[QueueOffset] = field(default_factory=list)


class GetConsumerStatusBody(Body):
    """Offsets in a client's memory: the answer to 221 (own) and 223 (by client id)."""

    message_queue_table: dict[MessageQueue, int] = field(default_factory=dict)
    consumer_table: dict[Name, dict[MessageQueue, int]] = field(default_factory=dict)


class QueryCorrectionOffsetBody(Body):
    """Queue id to the smallest offset of the compared groups: the answer to 308."""

    correction_offsets: dict[Int32, int] = field(default_factory=dict)


class LockBatchRequestBody(Body):
    """Body of LOCK_BATCH_MQ (41) and UNLOCK_BATCH_MQ (42)."""

    consumer_group: Name
    client_id: Name
    mq_set: list[MessageQueue] = field(default_factory=list)


class LockBatchResponseBody(Body):
    """The queues that are locked now: the answer to 41."""

    wire_names = {"lock_ok_mq_set": "lockOKMQSet"}
    lock_ok_mq_set: list[MessageQueue] = field(default_factory=list)
