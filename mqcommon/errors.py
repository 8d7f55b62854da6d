"""Errors that a server's answer raises; `mqclient.errors` has the whole tree."""

from typing import ClassVar

from mqcommon.wire.codes import ResponseCode, name_of

__all__ = ["BrokerError", "NotDurableError", "ProtocolError", "RocketMQError"]


class RocketMQError(Exception):
    """Base of all errors of the client except ValueError and TypeError.

    A text has the form "what happened; what to do".
    """

    __module__ = "mqclient.errors"
    _retryable: ClassVar[bool] = False
    _next_step: ClassVar[str] = "see the log"

    @property
    def retryable(self) -> bool:
        """Whether the same call may succeed later without a change by somebody.

        A send that is called again may store its message twice.
        """
        return self._retryable

    @property
    def next_step(self) -> str:
        """What to do about the error: the end of the text, else the usual step for its kind."""
        _, semicolon, step = str(self).rpartition("; ")
        return step if semicolon else self._next_step


class BrokerError(RocketMQError):
    """A broker or NameServer answered with an error.

    code: response code, see mqclient.ResponseCode. remark: the server's text, may be
    empty. broker: name or address of the server that answered.
    """

    __module__ = "mqclient.errors"
    _next_step = "see the server's log"

    def __init__(self, code: int, remark: str | None = None, broker: str = "") -> None:
        self.code = int(code)
        self.remark = remark or ""
        self.broker = broker
        super().__init__(code, remark, broker)

    def __str__(self) -> str:
        where = f"{self.broker} answered " if self.broker else ""
        words = f": {self.remark}" if self.remark else ""
        says_what_to_do = "; " in self.remark  # our servers' remarks end like this
        hint = "" if says_what_to_do else _HINTS.get(self.code, "")
        return f"{where}{name_of(self.code)}{words}{'; ' + hint if hint else ''}"

    @property
    def retryable(self) -> bool:
        """Whether the code is one of a server that is busy, starts, or has no disk space now."""
        return self.code in _PASSING


_PASSING = frozenset(
    map(
        int,
        (
            ResponseCode.SYSTEM_ERROR,
            ResponseCode.SYSTEM_BUSY,
            ResponseCode.SERVICE_NOT_AVAILABLE,
        ),
    )
)
_HINTS: dict[int, str] = {
    ResponseCode.SYSTEM_BUSY: "the broker is overloaded, send slower or try again",
    ResponseCode.SERVICE_NOT_AVAILABLE: "the broker is stopping, is a slave or has no disk space",
    ResponseCode.NO_PERMISSION: "check the topic's perm and the broker's access control",
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: (
        "the group does not exist and autoCreateSubscriptionGroup is off"
    ),
}


class NotDurableError(BrokerError):
    """A send was stored, but flush or replication did not finish in time.

    The message may be lost if the broker's machine fails now; sending it again makes a duplicate.
    """

    __module__ = "mqclient.errors"
    _next_step = "accept the risk, or send again and get a duplicate"

    @property
    def retryable(self) -> bool:
        """True: another send may be stored as durably as asked, and is a duplicate."""
        return True


class ProtocolError(RocketMQError):
    """A server's answer cannot be read: a field or the body is missing or malformed.

    server: name or address of the server. A request that changes something may have done so.
    """

    __module__ = "mqclient.errors"

    def __init__(self, what: object, server: str = "") -> None:
        self.server = server
        super().__init__(what, server)

    def __str__(self) -> str:
        who = self.server or "the server"
        return (
            f"{who} sent an answer that cannot be read: {self.args[0]}; check that it is a broker "
            f"or NameServer of RocketMQ, and its log"
        )
