"""The blocking face of transactional sends."""

import inspect
from types import TracebackType
from typing import TYPE_CHECKING, Self

from mqclient.blocking.derive import BlockingFace, sync
from mqclient.blocking.loop_thread import CallbackThread, LoopThread, result_of
from mqclient.blocking.producer import Producer
from mqclient.engine.middleware import around
from mqclient.engine.serializing import V
from mqclient.producer.results import SendResult
from mqclient.producer.transactions import producer as aio
from mqclient.producer.transactions.state import (
    LocalTransaction,
    TransactionState,
    decided,
)
from mqclient.settings.declare import changed, explained, made_of, takes
from mqclient.settings.producers import TransactionOptions
from mqcommon.message import Message

__all__ = ["Transaction", "TransactionProducer"]


class Transaction(BlockingFace):
    """A half message, from its send to the end of its local transaction.

    Entering the block sends the half message, which no consumer gets. Leaving the block by an
    exception rolls back; leaving it without a decision has the broker ask `check` later. A decision
    is final.
    """

    def __init__(self, client: aio.Transaction, thread: LoopThread) -> None:
        self._async: aio.Transaction = client
        self._thread = thread

    def _where(self) -> LoopThread:
        return self._thread

    def __enter__(self) -> Self:
        transaction, run = self._async, self._thread.run
        transaction._check_new()
        around(
            transaction._middleware,
            transaction._arguments,
            lambda: run(transaction._send_half()),
        )
        run(transaction._check_begun())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._thread.run(self._async.__aexit__(kind, error, trace))

    @property
    def message(self) -> Message:
        """The message; its transaction_id is set when the block begins."""
        return self._async.message

    @property
    def state(self) -> TransactionState:
        """The decision; UNKNOWN until it is made."""
        return self._async.state

    @property
    def result(self) -> SendResult:
        """The stored half message. Raises ClosedError before the block begins."""
        return self._async.result

    commit = sync(aio.Transaction.commit)
    rollback = sync(aio.Transaction.rollback)
    _end = sync(aio.Transaction._end)


@explained
class TransactionProducer(Producer[V]):
    """Sends messages that consumers get only if a local transaction commits.

    A broker asks `check` what became of a transaction: a plain function runs in a thread, an
    `async def` on an event loop of the producer's own.

        with TransactionProducer("orders", "127.0.0.1:9876", check=was_paid) as producer:
            with producer.transaction(Message("Orders", b"order 1", keys="1")) as tx:
                pay(1)
                tx.commit()
    """

    if TYPE_CHECKING:
        _async: aio.TransactionProducer[V]

    @takes(TransactionOptions)
    def __init__(self, options: TransactionOptions[V]) -> None:
        self._async_functions = CallbackThread("mqclient-transactions")
        options = changed(options, check=self._async_functions.wrap(options.check))
        client = made_of(aio.TransactionProducer, options)
        super(Producer, self).__init__(client, self._async_functions)
        self._set_up(options)

    def transaction(self, message: Message, *, timeout: float | None = None) -> Transaction:
        """A transaction for `with`, which sends the half message when the block begins.

        timeout: seconds for that send and its retries; None means the producer's (3 s). Entering
        the block raises as `send` does, and NotDurableError if the half message is stored less
        durably than asked: it is rolled back then. ValueError for a delayed message.
        """
        return Transaction(self._async.transaction(message, timeout=timeout), self._running)

    def send_in_transaction(
        self, message: Message, execute: LocalTransaction, *, timeout: float | None = None
    ) -> Transaction:
        """Send a half message, run its local transaction, and end it by what that returns.

        execute: gets the message, in the caller's thread; it may be `async def`, which runs on
        an event loop of the producer's own. None is UNKNOWN. timeout: as for `transaction`.
        Returns the transaction with its state. Raises as `transaction` does, and what `execute`
        raises: the state is UNKNOWN then, as in RocketMQ, and the broker asks `check`.
        """
        with self.transaction(message, timeout=timeout) as transaction:
            try:
                outcome: object = execute(message)
                if inspect.iscoroutine(outcome):
                    outcome = result_of(self._async_functions.submit(outcome))
                state = decided(outcome, "execute")
            except BaseException as error:
                transaction._end(TransactionState.UNKNOWN, aio.failure(error))
                raise
            transaction._end(state)
        return transaction
