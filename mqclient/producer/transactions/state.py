"""The state of a local transaction, and the callbacks that return it."""

from collections.abc import Awaitable, Callable
from enum import Enum

from mqcommon.message import Message, ReceivedMessage
from mqcommon.wire.codes import MessageSysFlag

__all__ = ["CheckHandler", "LocalTransaction", "TransactionState", "wire_state"]


class TransactionState(Enum):
    """What became of a local transaction (RocketMQ's `LocalTransactionState`)."""

    COMMIT = "COMMIT"
    """It is committed: consumers get the message."""
    ROLLBACK = "ROLLBACK"
    """It is rolled back: consumers never get the message."""
    UNKNOWN = "UNKNOWN"
    """It is not known yet: the broker asks the producer's `check` later."""


Decision = TransactionState | None
CheckHandler = (
    Callable[[ReceivedMessage], Decision] | Callable[[ReceivedMessage], Awaitable[Decision]]
)
"""Returns the state of a message's local transaction; None means UNKNOWN."""
LocalTransaction = Callable[[Message], Decision] | Callable[[Message], Awaitable[Decision]]
"""Runs the local transaction of a message and returns its state; None means UNKNOWN."""

_WIRE = {
    TransactionState.COMMIT: int(MessageSysFlag.TRANSACTION_COMMIT),
    TransactionState.ROLLBACK: int(MessageSysFlag.TRANSACTION_ROLLBACK),
    TransactionState.UNKNOWN: 0,
}


def wire_state(state: TransactionState) -> int:
    """The number of a state in END_TRANSACTION: 8, 12 or 0."""
    return _WIRE[state]


def decided(outcome: object, by: str) -> TransactionState:
    """The state that a callback returned; None is UNKNOWN, as in RocketMQ.

    by: name of the callback. Raises TypeError for anything else.
    """
    if outcome is None:
        return TransactionState.UNKNOWN
    if isinstance(outcome, TransactionState):
        return outcome
    raise TypeError(f"{by} returned {outcome!r}; it must return a TransactionState or None")
