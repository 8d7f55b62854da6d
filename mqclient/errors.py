"""Errors of the client.

    RocketMQError
    ├── BrokerError            a server answered with an error code
    │   └── NotDurable         stored, but less durably than asked (raise_for_status)
    ├── MalformedReply         a server's answer cannot be read
    ├── NoRouteError           the NameServer knows no queue for the topic
    ├── PartlySent             a large batch was sent in parts, and only the first are stored
    │                          (mqclient.results)
    ├── ClientTimeout          no answer in time              (also a TimeoutError)
    │   └── BackPressureTimeout  too much was in flight, so nothing was sent
    ├── UnreachableError       no connection to a server      (also a ConnectionError)
    └── ClosedError            the client is closed, not started, or belongs to another process

Bad arguments are ValueError or TypeError. Every message names the cause and a next step.
"""

from mqclient.wire.codes import ResponseCode, name_of

__all__ = [
    "BackPressureTimeout",
    "BrokerError",
    "ClientTimeout",
    "ClosedError",
    "MalformedReply",
    "NoRouteError",
    "NotDurable",
    "RocketMQError",
    "UnreachableError",
]


class RocketMQError(Exception):
    """Base of all errors of the client except ValueError and TypeError."""


class BrokerError(RocketMQError):
    """A broker or NameServer answered with an error.

    code: response code, see mqclient.wire.ResponseCode. remark: the server's text, may be
    empty. broker: name or address of the server that answered.
    """

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


_HINTS: dict[int, str] = {
    ResponseCode.SYSTEM_BUSY: "the broker is overloaded, send slower or try again",
    ResponseCode.SERVICE_NOT_AVAILABLE: "the broker is stopping, is a slave or has no disk space",
    ResponseCode.NO_PERMISSION: "check the topic's perm and the broker's access control",
    ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST: (
        "the group does not exist and autoCreateSubscriptionGroup is off"
    ),
}


class NotDurable(BrokerError):
    """A send was stored, but flush or replication did not finish in time.

    The message may be lost if the broker's machine fails now; sending it again makes a duplicate.
    """


class MalformedReply(RocketMQError):
    """A server's answer cannot be read: a field or the body is missing or malformed.

    server: name or address of the server. A request that changes something may have done so.
    """

    def __init__(self, what: object, server: str = "") -> None:
        self.server = server
        super().__init__(what, server)

    def __str__(self) -> str:
        who = self.server or "the server"
        return (
            f"{who} sent an answer that cannot be read: {self.args[0]}; check that it is a broker "
            f"or NameServer of RocketMQ, and its log"
        )


class NoRouteError(RocketMQError):
    """The topic has no queue that can be used.

    topic: its name. namesrv: the NameServers that were asked.
    """

    def __init__(self, message: str, topic: str = "", namesrv: str = "") -> None:
        self.topic = topic
        self.namesrv = namesrv
        super().__init__(message)


class ClientTimeout(RocketMQError, TimeoutError):
    """No answer within the timeout. A send may have been stored even so."""


class BackPressureTimeout(ClientTimeout):
    """The limits on messages in flight left no room within the timeout. Nothing was sent."""


class UnreachableError(RocketMQError, ConnectionError):
    """A server could not be connected, or the connection broke before the answer.

    address: "host:port" that was tried.
    """

    def __init__(self, message: str, address: str = "") -> None:
        self.address = address
        super().__init__(message)


class ClosedError(RocketMQError):
    """The client is closed, was never started, or was started in another process (fork)."""
