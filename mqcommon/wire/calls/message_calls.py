"""Calls about single messages."""

from __future__ import annotations

from mqcommon.message import MessageQueue
from mqcommon.wire.bodies.running import ConsumeMessageDirectlyResult, QueryConsumeQueueResponseBody
from mqcommon.wire.calls.call import Call, nothing
from mqcommon.wire.codes import PullSysFlag, RequestCode, ResponseCode
from mqcommon.wire.frame import Frame, request_frame
from mqcommon.wire.headers import pull, send
from mqcommon.wire.headers.admin import (
    QueryConsumeQueueRequestHeader,
    ResumeCheckHalfMessageRequestHeader,
)
from mqcommon.wire.headers.clients import ConsumeMessageDirectlyResultRequestHeader

_PULLED = frozenset(
    map(
        int,
        (
            ResponseCode.SUCCESS,
            ResponseCode.PULL_NOT_FOUND,
            ResponseCode.PULL_RETRY_IMMEDIATELY,
            ResponseCode.PULL_OFFSET_MOVED,
        ),
    )
)
"""Answers to a pull: messages, none at the end, none of the wanted, another offset."""


def send_back(header: send.ConsumerSendMsgBackRequestHeader) -> Call[None]:
    """Give a message back to the broker, to be delivered again later."""
    return Call(request_frame(RequestCode.CONSUMER_SEND_MSG_BACK, header), nothing)


def end_transaction(header: send.EndTransactionRequestHeader) -> Call[None]:
    """Commit or roll back a half message; sent one-way."""
    return Call(request_frame(RequestCode.END_TRANSACTION, header), nothing)


def view_message(physical_offset: int) -> Call[bytes]:
    """The record at a physical offset, in stored form."""
    header = pull.ViewMessageRequestHeader(offset=physical_offset)
    return Call(request_frame(RequestCode.VIEW_MESSAGE_BY_ID, header), lambda reply: reply.body)


def query_message(header: pull.QueryMessageRequestHeader) -> Call[bytes]:
    """Records that the index finds, in stored form; empty when there is none."""
    return Call(
        request_frame(RequestCode.QUERY_MESSAGE, header),
        lambda reply: b"" if reply.code else reply.body,
        frozenset((int(ResponseCode.SUCCESS), int(ResponseCode.QUERY_NOT_FOUND))),
    )


def pull_at_once(
    queue: MessageQueue, group: str, offset: int, count: int, tags: str = "*"
) -> Call[Frame]:
    """Messages of a queue from an offset on, as they are now; commits nothing.

    group: any group that may read the topic; its subscription is not touched. tags: "A || B".
    """
    header = pull.PullMessageRequestHeader(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=offset,
        max_msg_nums=count,
        sys_flag=int(PullSysFlag.SUBSCRIPTION),
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription=tags,
        sub_version=0,
        expression_type="TAG",
        broker_name=queue.broker_name,
    )
    request = request_frame(RequestCode.PULL_MESSAGE, header)
    return Call(request, lambda reply: reply, _PULLED)


def consume_directly(
    group: str, client_id: str | None, offset_msg_id: str
) -> Call[ConsumeMessageDirectlyResult]:
    """Let a member of a group consume one message now; the broker relays it."""
    header = ConsumeMessageDirectlyResultRequestHeader(
        consumer_group=group, client_id=client_id, msg_id=offset_msg_id
    )
    request = request_frame(RequestCode.CONSUME_MESSAGE_DIRECTLY, header)
    return Call(request, lambda reply: ConsumeMessageDirectlyResult.from_json(reply.body))


def consume_queue(
    queue: MessageQueue, index: int, count: int, group: str | None
) -> Call[QueryConsumeQueueResponseBody]:
    """Entries of a consume queue from an offset on."""
    header = QueryConsumeQueueRequestHeader(
        topic=queue.topic, queue_id=queue.queue_id, index=index, count=count, consumer_group=group
    )
    request = request_frame(RequestCode.QUERY_CONSUME_QUEUE, header)
    return Call(request, lambda reply: QueryConsumeQueueResponseBody.from_json(reply.body or b"{}"))


def resume_check(offset_msg_id: str) -> Call[None]:
    """Have a broker ask about a half message again, as if it had never asked."""
    header = ResumeCheckHalfMessageRequestHeader(msg_id=offset_msg_id)
    return Call(request_frame(RequestCode.RESUME_CHECK_HALF_MESSAGE, header), lambda reply: None)
