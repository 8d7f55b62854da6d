"""Sends the half messages of a producer group, and ends them.

Rules: RocketMQ 4.9 `DefaultMQProducerImpl.sendMessageInTransaction` and `endTransaction`.
"""

import logging
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from mqclient.engine.client import Client
from mqclient.errors import ClosedError, RocketMQError
from mqclient.producer.results import SendResult
from mqclient.producer.sender import Sender
from mqclient.producer.transactions.state import TransactionState, wire_state
from mqcommon.message import DELIVER_AT, Message, ReceivedMessage, parse_offset_msg_id
from mqcommon.wire.calls import message_calls
from mqcommon.wire.codes import MessageSysFlag
from mqcommon.wire.headers.send import (
    CheckTransactionStateRequestHeader,
    EndTransactionRequestHeader,
)

__all__ = ["Halves"]

log = logging.getLogger("mqclient.transactions")


Counted = Callable[[Message, float], AbstractAsyncContextManager[float]]
OnEnded = Callable[[Message | ReceivedMessage, str, str, str, bool], None]


class Halves:
    """The half messages of one producer group.

    counted: waits for room in flight and holds it; see `Producer._counted`.
    """

    def __init__(self, client: Client, sender: Sender, counted: Counted) -> None:
        self._client = client
        self._sender = sender
        self._settings = sender.settings
        self._counted = counted
        self.on_ended: OnEnded | None = None
        """Called at the end of each transaction; see `SendTrace.ended`."""

    def check_running(self) -> None:
        """Raise ClosedError unless the producer can be used by this process."""
        self._client.check_running()

    async def send(self, message: Message, timeout: float) -> SendResult:
        """Store a message as `_send` does, with the producer's limits."""
        async with self._counted(message, timeout) as left:
            return await self._send(message, left)

    async def _send(self, message: Message, timeout: float) -> SendResult:
        """Store a message that consumers do not get yet, and set its transaction_id.

        timeout: seconds for all tries. Raises as Producer.send does; ValueError for a delayed
        message, whose delay RocketMQ's own client drops silently.
        """
        self._client.check_running()
        if not isinstance(message, Message):
            raise TypeError(f"a transaction has one Message, not {type(message).__name__}")
        if message.delay_level or DELIVER_AT in message.properties:
            raise ValueError(
                "a half message cannot be delayed; leave delay_level and deliver_at out, or send "
                "the delayed message without a transaction"
            )
        more = {"TRAN_MSG": "true", "PGROUP": self._settings.group}
        outgoing = self._sender.prepare_with(message, more)
        outgoing.sys_flag |= int(MessageSysFlag.TRANSACTION_PREPARED)
        deadline = time.monotonic() + timeout
        await self._sender.route(outgoing.topic, timeout)
        # A broker can check only with producers that it knows.
        await self._client.introduce(outgoing.topic, deadline - time.monotonic())
        sent = await self._sender.send_anywhere(outgoing, deadline - time.monotonic())
        message.transaction_id = sent.msg_id
        return sent

    async def end(
        self, message: Message, sent: SendResult, state: TransactionState, remark: str | None = None
    ) -> None:
        """Send the outcome of a transaction to the broker of its half message.

        remark: why the outcome is unknown. A failure is logged: the broker asks again later.
        """
        queue = sent.message_queue
        address = self._client.routes.address(queue, only_this=True)
        if address is None:
            log.warning("broker %s has no master; it checks %s later", queue.broker_name, sent)
            return
        header = EndTransactionRequestHeader(
            producer_group=self._settings.group,
            tran_state_table_offset=sent.queue_offset,
            commit_log_offset=parse_offset_msg_id(sent.offset_msg_id).physical_offset,
            commit_or_rollback=wire_state(state),
            msg_id=sent.msg_id,
            transaction_id=sent.transaction_id,
            broker_name=queue.broker_name,
        )
        await self._tell(address, header, remark)
        if self.on_ended is not None:
            self.on_ended(message, sent.msg_id, address, state.name, False)

    async def answer(
        self,
        address: str,
        question: CheckTransactionStateRequestHeader,
        message: ReceivedMessage,
        state: TransactionState,
        remark: str | None,
    ) -> None:
        """Answer a broker's check of a message. address: of the broker that asked."""
        msg_id = message.msg_id
        header = EndTransactionRequestHeader(
            producer_group=self._settings.group,
            tran_state_table_offset=question.tran_state_table_offset,
            commit_log_offset=question.commit_log_offset,
            commit_or_rollback=wire_state(state),
            from_transaction_check=True,
            msg_id=msg_id,
            transaction_id=question.transaction_id,
            broker_name=question.broker_name,
        )
        await self._tell(address, header, remark)
        if self.on_ended is not None:
            self.on_ended(message, msg_id, address, state.name, True)

    async def _tell(
        self, address: str, header: EndTransactionRequestHeader, remark: str | None
    ) -> None:
        request = message_calls.end_transaction(header).request
        request.remark = remark
        try:
            await self._client.oneway(
                address, request, self._client.settings.connection.request_timeout
            )
        except ClosedError:
            log.info(
                "the producer closed before the transaction of message %s ended", header.msg_id
            )
        except RocketMQError as error:
            log.warning("message %s did not end, the broker checks it: %s", header.msg_id, error)
