"""The row of a send, as `mqclient send` and mqadmin's commands that send print it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mqclient.producer.results import SendResult

__all__ = ["send_row"]


def send_row(result: SendResult) -> dict[str, object]:
    """The answer to a send, as JSON."""
    queue = result.message_queue
    return {
        "status": str(result.status),
        "msgId": ",".join(result.msg_ids),
        "offsetMsgId": ",".join(result.offset_msg_ids),
        "topic": queue.topic,
        "brokerName": queue.broker_name,
        "queueId": queue.queue_id,
        "queueOffset": result.queue_offset,
    }
