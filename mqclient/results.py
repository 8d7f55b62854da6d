"""What a send returns."""

from dataclasses import dataclass
from enum import StrEnum

from mqclient.errors import NotDurable
from mqclient.wire.codes import ResponseCode
from mqclient.wire.frame import Frame
from mqclient.wire.headers.base import HeaderError
from mqstore.message import MessageQueue

__all__ = ["SendResult", "SendStatus"]


class SendStatus(StrEnum):
    """How durably a message was stored; every one of them means: stored."""

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


@dataclass(slots=True)
class SendResult:
    """A stored message.

    status: how durably. msg_id: the client's unique id, a comma list for a batch. offset_msg_id:
    the broker's id, which holds its address and the physical offset; a comma list for a batch.
    queue_offset: position in the queue, of a batch's first message.
    """

    status: SendStatus
    msg_id: str
    offset_msg_id: str
    message_queue: MessageQueue
    queue_offset: int
    transaction_id: str | None = None
    region_id: str = "DefaultRegion"
    trace_on: bool = True

    def raise_for_status(self) -> "SendResult":
        """Return this result if the message is as durable as asked, else raise NotDurable."""
        if self.status is SendStatus.SEND_OK:
            return self
        raise NotDurable(
            _CODE_OF_STATUS[self.status],
            f"message {self.msg_id} is stored, but {_MEANING[self.status]}",
            self.message_queue.broker_name,
        )

    def __str__(self) -> str:
        """RocketMQ's own text."""
        return (
            f"SendResult [sendStatus={self.status}, msgId={self.msg_id}, "
            f"offsetMsgId={self.offset_msg_id}, messageQueue={self.message_queue}, "
            f"queueOffset={self.queue_offset}]"
        )


_MEANING = {
    SendStatus.FLUSH_DISK_TIMEOUT: "its broker's disk did not flush it in time",
    SendStatus.FLUSH_SLAVE_TIMEOUT: "its slave did not copy it in time",
    SendStatus.SLAVE_NOT_AVAILABLE: "its broker has no slave that could copy it",
}


def read_send_reply(reply: Frame, queue: MessageQueue, msg_id: str) -> SendResult:
    """Read the answer to a send whose code is one of STATUS_OF_CODE.

    Reads the fields of SendMessageResponseHeader by hand: this runs once per message.
    Raises HeaderError for an answer that lacks them.
    """
    fields = reply.fields
    try:
        queue_id = int(fields["queueId"])
        if queue_id != queue.queue_id:
            queue = MessageQueue(queue.topic, queue.broker_name, queue_id)
        return SendResult(
            STATUS_OF_CODE[reply.code],
            msg_id,
            fields["msgId"],
            queue,
            int(fields["queueOffset"]),
            fields.get("transactionId"),
            fields.get("MSG_REGION") or "DefaultRegion",
            fields.get("TRACE_ON") != "false",
        )
    except (KeyError, ValueError) as error:
        raise HeaderError(f"the answer to a send lacks or garbles {error}") from error
