"""The asyncio face of transactional sends."""

import inspect
import logging
from types import TracebackType
from typing import Self

from mqclient.consumer.context import is_async
from mqclient.engine.middleware import Middleware, SendContext, around_await
from mqclient.engine.serializing import V
from mqclient.engine.threads import in_thread
from mqclient.errors import ClosedError, RocketMQError
from mqclient.producer.producer import Producer
from mqclient.producer.results import SendResult
from mqclient.producer.transactions.checks import Checks
from mqclient.producer.transactions.halves import Halves
from mqclient.producer.transactions.state import (
    LocalTransaction,
    TransactionState,
    decided,
)
from mqclient.settings.checks import answer_timeout, seconds
from mqclient.settings.declare import explained, takes
from mqclient.settings.producers import TransactionOptions
from mqcommon.message import Message
from mqcommon.names import AUTO_CREATE_TOPIC

__all__ = ["Transaction", "TransactionProducer"]

log = logging.getLogger("mqclient.transactions")


class Transaction:
    """A half message, from its send to the end of its local transaction.

    Entering the block sends the half message, which no consumer gets. Leaving the block by an
    exception rolls back; leaving it without a decision has the broker ask `check` later. A decision
    is final.
    """

    message: Message
    """The message; its transaction_id is set when the block begins."""
    state: TransactionState
    """The decision; UNKNOWN until it is made."""

    def __init__(
        self, halves: Halves, message: Message, timeout: float, middleware: tuple[Middleware, ...]
    ) -> None:
        self._middleware = middleware
        self.message = message
        self.state = TransactionState.UNKNOWN
        self._halves = halves
        self._timeout = timeout
        self._sent: SendResult | None = None
        self._over = False

    async def __aenter__(self) -> Self:
        self._check_new()
        await around_await(self._middleware, self._arguments, self._send_half)
        await self._check_begun()
        return self

    def _check_new(self) -> None:
        if self._sent is not None:
            raise ClosedError("this transaction was used before; make a new one")

    @property
    def _arguments(self) -> tuple[Message, SendContext]:
        """What the middleware gets."""
        return self.message, SendContext("transaction")

    async def _send_half(self) -> SendResult:
        """Send the half message; without middleware, for the blocking face."""
        self._sent = await self._halves.send(self.message, self._timeout)
        return self._sent

    async def _check_begun(self) -> None:
        """Roll back if the half message is stored less durably than asked."""
        if self._sent is None:
            raise ClosedError("a middleware left the half message out; nothing began")
        if self._sent.lesser:
            await self._end(TransactionState.ROLLBACK)
            self._sent.raise_for_status()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if not self._over:
            failed = error is not None
            await self._end(TransactionState.ROLLBACK if failed else TransactionState.UNKNOWN)

    @property
    def result(self) -> SendResult:
        """The stored half message. Raises ClosedError before the block begins."""
        if self._sent is None:
            raise ClosedError("the transaction has not begun; use `with`")
        return self._sent

    async def commit(self) -> None:
        """Let consumers have the message. Raises ClosedError if the transaction has ended.

        If the broker cannot be reached, it asks `check` later.
        """
        await self._decide(TransactionState.COMMIT)

    async def rollback(self) -> None:
        """Drop the message. Raises like `commit`."""
        await self._decide(TransactionState.ROLLBACK)

    async def _decide(self, state: TransactionState) -> None:
        self._halves.check_running()
        if self._over:
            raise ClosedError(f"transaction {self.message.transaction_id} has ended already")
        await self._end(state)

    async def _end(self, state: TransactionState, remark: str | None = None) -> None:
        """End the transaction once; for the producer's own use."""
        sent = self.result
        self.state, self._over = state, True
        await self._halves.end(self.message, sent, state, remark)


@explained
class TransactionProducer(Producer[V]):
    """Sends messages that consumers get only if a local transaction commits. The asyncio face;
    `mqclient.TransactionProducer` is the same for threads.

    A broker asks `check` what became of a transaction: a plain function runs in a thread, an
    `async def` on the loop.

        async with TransactionProducer("orders", "127.0.0.1:9876", check=was_paid) as producer:
            async with producer.transaction(Message("Orders", b"order 1", keys="1")) as tx:
                await pay(1)
                await tx.commit()
    """

    settings: TransactionOptions[V]

    @takes(TransactionOptions)
    def __init__(self, options: TransactionOptions[V]) -> None:
        self._build(options)
        self._halves = Halves(self._client, self._sender, self._counted)
        if self._trace is not None:
            self._halves.on_ended = self._trace.ended
        self._checks = Checks(self._client, self._halves, options)

    async def start(self) -> None:
        """Start the producer, and tell brokers of it in the background, so that they can check."""
        await super().start()
        self._client.spawn(self._introduce(), "introduction")

    async def close(self, timeout: float = 20.0) -> None:
        """Answer the checks that run, unregister and close the connections.

        timeout: seconds for the checks.
        """
        limit = seconds(timeout)
        if self._client.running:
            await self._checks.stop(limit)
        await super().close(limit)

    def transaction(self, message: Message, *, timeout: float | None = None) -> Transaction:
        """A transaction for `async with`, which sends the half message when the block begins.

        timeout: seconds for that send and its retries; None means the producer's (3 s). Entering
        the block raises as `send` does, and NotDurableError if the half message is stored less
        durably than asked: it is rolled back then. ValueError for a delayed message.
        """
        limit = self.settings.timeout if timeout is None else answer_timeout(timeout)
        return Transaction(self._halves, message, limit, self._middleware)

    async def send_in_transaction(
        self, message: Message, execute: LocalTransaction, *, timeout: float | None = None
    ) -> Transaction:
        """Send a half message, run its local transaction, and end it by what that returns.

        execute: gets the message; a plain function runs in a thread, `async def` on the loop.
        None is UNKNOWN. timeout: as for `transaction`. Returns the transaction with its state.
        Raises as `transaction` does, and what `execute` raises: the state is UNKNOWN then, as in
        RocketMQ, and the broker asks `check`.
        """
        async with self.transaction(message, timeout=timeout) as transaction:
            try:
                if is_async(execute):
                    outcome: object = execute(message)
                else:
                    outcome = await in_thread(execute, message)
                outcome = await outcome if inspect.isawaitable(outcome) else outcome
                state = decided(outcome, "execute")
            except BaseException as error:
                await transaction._end(TransactionState.UNKNOWN, failure(error))
                raise
            await transaction._end(state)
        return transaction

    async def _introduce(self) -> None:
        """Find brokers by the topics, and by the template topic as RocketMQ's producers do."""
        for topic in (AUTO_CREATE_TOPIC, *self.settings.topics):
            try:
                await self._client.routes.refresh(topic)
            except RocketMQError as error:  # route polling continues to try
                log.warning("the brokers of topic %s are not known yet: %s", topic, error)
        await self._client.heartbeat()


def failure(error: BaseException) -> str:
    """The remark of a local transaction that raised, in RocketMQ's words."""
    return f"executeLocalTransactionBranch exception: {type(error).__name__}: {error}"
