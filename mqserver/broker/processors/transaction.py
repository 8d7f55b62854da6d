"""Codes 37 and 323: ends of transactions (`EndTransactionProcessor`), and resumed checks."""

from __future__ import annotations

import logging

from mqcommon import names
from mqcommon.message import DecodeError, ReceivedMessage, decode_messages, parse_offset_msg_id
from mqcommon.wire.codes import ResponseCode
from mqcommon.wire.headers.admin import ResumeCheckHalfMessageRequestHeader
from mqcommon.wire.headers.send import EndTransactionRequestHeader
from mqserver.broker.context import BrokerContext
from mqserver.broker.remarks import system_error
from mqserver.broker.transactions import known, writing
from mqserver.runtime.processor_api import NO_REPLY, Refused, Reply, Request, Response

log = logging.getLogger("mqserver.broker.transactions")

NO_HALF_MESSAGE = "Find prepared transaction message failed"
_CODES = {"PUT_OK": 0, "MESSAGE_ILLEGAL": 13, "PROPERTIES_SIZE_EXCEEDED": 13}
_CODES["SERVICE_NOT_AVAILABLE"] = ResponseCode.SERVICE_NOT_AVAILABLE
_CODES |= dict.fromkeys(writing.STORED, 0)
_REMARKS = {
    13: "The message is illegal, maybe msg body or properties length not matched. "
    "msg body length limit 128k, msg properties length limit 32k.",
    14: "Service not available now.",
}


def end_transaction(broker: BrokerContext, request: Request) -> Reply:
    """END_TRANSACTION (37): commits or rolls back; an undecided end gets no answer."""
    header = EndTransactionRequestHeader.from_fields(request.fields)
    state = header.commit_or_rollback
    if state not in (writing.COMMIT, writing.ROLLBACK, writing.UNKNOWN):
        raise system_error(f"commitOrRollback={state}: must be 0, 8 or 12")
    if state == writing.UNKNOWN:
        return NO_REPLY
    half = _half(broker, header)
    # RocketMQ overwrites its default remark for a commit only.
    answer = Response(remark=None if state == writing.COMMIT else "not set any response code")
    if not _is_first(broker, half, state):
        return answer
    if state == writing.COMMIT:
        status = writing.put_final(broker, half).status
        code = _CODES.get(status, ResponseCode.SYSTEM_ERROR)
        if code:
            broker.store.reopen_transaction(writing.number_of(half))
            raise Refused(code, _REMARKS.get(code, status))
    done = writing.put_done(broker, half, wait=not request.oneway)
    if done.status not in writing.STORED:
        # The half message will be checked again; ending it twice does no harm.
        log.error(
            "the %s was ended but could not be marked (%s); the broker will ask its producer again",
            writing.described(half),
            done.status,
        )
    return answer


def _is_first(broker: BrokerContext, half: ReceivedMessage, state: int) -> bool:
    """Whether this is the first end of a transaction, which is noted as ended.

    RocketMQ stores a message as many times as it is committed. Raises Refused if the transaction
    was ended in the other way.
    """
    number, commits = writing.number_of(half), state == writing.COMMIT
    ending = broker.store.end_transaction(number, commits)
    if ending == "unknown":
        if known.is_ended(broker, half):
            broker.store.note_ended(number)
        ending = broker.store.end_transaction(number, commits, is_open=True)
    if ending == "contrary":
        was = "rolled back" if commits else "committed"
        raise system_error(f"the transaction was {was} before: the {writing.described(half)}")
    return ending == "first"


def _half(broker: BrokerContext, header: EndTransactionRequestHeader) -> ReceivedMessage:
    """The half message of an end. Raises Refused if it does not exist or does not match."""
    record = broker.store.get_at(header.commit_log_offset)
    if record is None:
        raise system_error(NO_HALF_MESSAGE)
    half = decode_messages(record)[0]
    if half.topic != names.HALF_TOPIC:
        raise system_error(NO_HALF_MESSAGE)
    if half.properties.get("PGROUP") != header.producer_group:
        raise system_error("The producer group wrong")
    if half.queue_offset != header.tran_state_table_offset:
        raise system_error("The transaction state table offset wrong")
    if half.commit_log_offset != header.commit_log_offset:
        raise system_error("The commit log offset wrong")
    if not writing.is_half(half):
        raise system_error(NO_HALF_MESSAGE)
    return half


def resume_check(broker: BrokerContext, request: Request) -> Reply:
    """RESUME_CHECK_HALF_MESSAGE (323): checks a half message again, with a new count of checks."""
    header = ResumeCheckHalfMessageRequestHeader.from_fields(request.fields)
    failed = f"Exception was thrown when putting message back to {names.HALF_TOPIC}."
    try:
        offset = parse_offset_msg_id(header.msg_id or "").physical_offset
        record = broker.store.get_at(offset)
        half = decode_messages(record or b"")[0]
    except (DecodeError, ValueError, IndexError, OverflowError):
        raise system_error(failed) from None
    result = writing.put_back(broker, half, 0, {})
    if result.status not in writing.STORED:
        raise system_error(f"Put message back to {names.HALF_TOPIC} failed.")
    return Response()
