"""Answers brokers' checks of local transactions.

Rules: RocketMQ 4.9 `ClientRemotingProcessor.checkTransactionState` and
`DefaultMQProducerImpl.checkTransactionState`.
"""

import asyncio
import inspect
import logging

from mqclient.consumer.context import is_async
from mqclient.engine.client import Client
from mqclient.engine.threads import in_thread
from mqclient.producer.transactions.halves import Halves
from mqclient.producer.transactions.state import TransactionState, decided
from mqclient.settings.producers import TransactionOptions
from mqcommon.message import ReceivedMessage, decode_reply
from mqcommon.signals import is_real_interrupt
from mqcommon.wire.codes import RequestCode
from mqcommon.wire.frame import Frame
from mqcommon.wire.headers.send import CheckTransactionStateRequestHeader

__all__ = ["Checks"]

log = logging.getLogger("mqclient.transactions")


class Checks:
    """Runs `check` for each question of a broker, a few at once, and sends its answer."""

    def __init__(self, client: Client, halves: Halves, settings: TransactionOptions) -> None:
        self._names = client.namespace
        self._halves = halves
        self._check = settings.check
        self._on_loop = is_async(settings.check)
        self._settings = settings
        self._room = asyncio.Semaphore(settings.check_limits.concurrency)
        self._waiting = 0
        self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._stopping = False
        client.on_request(RequestCode.CHECK_TRANSACTION_STATE, self._asked)

    async def stop(self, timeout: float) -> None:
        """Begin no more checks, and wait until the running ones are answered. timeout: seconds."""
        self._stopping = True
        try:
            async with asyncio.timeout(timeout):
                await self._idle.wait()
        except TimeoutError:
            log.warning("%d checks still run; the broker will ask again", self._running)

    async def _asked(self, address: str, request: Frame) -> None:
        """Check one message. The transport runs this as a task of its own."""
        question = CheckTransactionStateRequestHeader.from_fields(request.fields)
        messages, damaged = decode_reply(request.body, question.broker_name or "")
        if damaged:
            log.error("broker %s asks about a damaged message: %s", address, damaged[0])
            return
        message = messages[0]
        group = message.properties.get("PGROUP")
        if group != self._settings.group:
            log.warning("broker %s asks about a message of producer group %s", address, group)
            return
        if self._waiting >= self._settings.check_limits.queue_max:
            log.warning("%d checks wait; the broker will ask again about %s",
                        self._waiting, message.msg_id)  # fmt: skip
            return
        message.topic = self._names.unwrap(message.topic)
        message.transaction_id = message.properties.get("UNIQ_KEY")
        self._waiting += 1
        try:
            await self._room.acquire()
        finally:
            self._waiting -= 1
        try:
            if not self._stopping:
                await self._answer(address, question, message)
        finally:
            self._room.release()

    async def _answer(
        self, address: str, question: CheckTransactionStateRequestHeader, message: ReceivedMessage
    ) -> None:
        self._running += 1
        self._idle.clear()
        remark = None
        try:
            state = await self._ask(message)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # also sys.exit(), which would end the loop
            if is_real_interrupt(error):
                raise
            log.exception("check of message %s failed; its state is unknown", message.msg_id)
            state, remark = TransactionState.UNKNOWN, f"{type(error).__name__}: {error}"
        try:
            await self._halves.answer(address, question, message, state, remark)
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()

    async def _ask(self, message: ReceivedMessage) -> TransactionState:
        if self._on_loop:
            outcome: object = self._check(message)
        else:
            outcome = await in_thread(self._check, message)
        return decided(await outcome if inspect.isawaitable(outcome) else outcome, "check")
