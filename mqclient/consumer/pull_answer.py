"""A broker's answer to a pull, and how the reply is read."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from mqclient.errors import BrokerError, ProtocolError
from mqcommon.message import DamagedRecord, ReceivedMessage, decode_reply
from mqcommon.wire.codes import ResponseCode
from mqcommon.wire.frame import Frame
from mqcommon.wire.headers.base import HeaderError
from mqcommon.wire.headers.pull import PullMessageResponseHeader
from mqcommon.wire.reply_bounds import check_fields

__all__ = ["PullAnswer", "read_pull_answer"]

_ANSWERS = frozenset(
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
_SUCCESS = int(ResponseCode.SUCCESS)
_OFFSET_MOVED = int(ResponseCode.PULL_OFFSET_MOVED)


class PullAnswer(NamedTuple):
    """A broker's answer to a pull. moved: the requested offset does not exist.

    size: bytes of all messages. damaged: records that differ from the sent ones.
    """

    messages: list[ReceivedMessage]
    next_offset: int
    min_offset: int
    max_offset: int
    suggested_broker_id: int
    moved: bool
    size: int
    damaged: Sequence[DamagedRecord] = ()


def read_pull_answer(reply: Any, broker_name: str) -> PullAnswer:
    """Read the reply to a pull: a frame, or the compiled transport's form of it.

    Raises BrokerError when it is an error, ProtocolError when it cannot be read.
    """
    if isinstance(reply, Frame):
        check_fields(reply, f"broker {broker_name}")
        if reply.code not in _ANSWERS:
            raise BrokerError(reply.code, reply.remark, f"broker {broker_name}")
        try:
            header = PullMessageResponseHeader.from_fields(reply.fields)
        except HeaderError as error:
            raise ProtocolError(error, f"broker {broker_name}") from error
        code, body, broker_id = reply.code, reply.body, header.suggest_which_broker_id
        low, high, next_offset = header.min_offset, header.max_offset, header.next_begin_offset
    else:
        code, next_offset, low, high, broker_id, body = reply
    messages, damaged = decode_reply(body, broker_name, low, high) if code == _SUCCESS else ([], [])
    moved, size = code == _OFFSET_MOVED, len(body)
    return PullAnswer(messages, next_offset, low, high, broker_id, moved, size, damaged)
