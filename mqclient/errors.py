"""Errors of the client.

    RocketMQError
    ├── BrokerError            a server answered with an error code
    │   └── NotDurableError    stored, but less durably than asked (raise_for_status)
    ├── ProtocolError          a server's answer cannot be read
    ├── NoRouteError           the NameServer knows no queue for the topic
    ├── NotFoundError          Admin found no such message, member, offset, cluster or broker
    ├── PartialSendError       a large batch was sent in parts, and only the first are stored
    ├── ClientTimeout          no answer in time              (also a TimeoutError)
    │   └── BackPressureTimeout  too much was in flight, so nothing was sent
    ├── UnreachableError       no connection to a server      (also a ConnectionError)
    │   └── AddressServerError  the address server gave no NameServers
    ├── UnreadableBodyError    a serializer cannot read the body of a message
    ├── MissingCodecError      a body is compressed with a codec that is not installed
    └── ClosedError            the client is closed, not started, or belongs to another process

Each has `retryable` and `next_step`. Bad arguments are ValueError or TypeError. Every message names
the cause and a next step.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mqcommon.errors import BrokerError, NotDurableError, ProtocolError, RocketMQError

if TYPE_CHECKING:
    from mqclient.producer.results import SendResult
    from mqcommon.message import ReceivedMessage

__all__ = [
    "AddressServerError",
    "BackPressureTimeout",
    "BrokerError",
    "ClientTimeout",
    "ClosedError",
    "MissingCodecError",
    "NoRouteError",
    "NotDurableError",
    "NotFoundError",
    "PartialSendError",
    "ProtocolError",
    "RocketMQError",
    "UnreachableError",
    "UnreadableBodyError",
]


class NoRouteError(RocketMQError):
    """The topic has no queue that can be used.

    topic: its name. namesrv: the NameServers that were asked.
    """

    _next_step = "create the topic"

    def __init__(self, message: str, topic: str = "", namesrv: str = "") -> None:
        self.topic = topic
        self.namesrv = namesrv
        super().__init__(message)


class NotFoundError(RocketMQError):
    """The servers have no such message, member, offset, cluster or broker."""

    _next_step = "check the name or the id"


class PartialSendError(RocketMQError):
    """A batch over the size limit was sent in parts, and a part failed after others were stored.

    results: of the parts that are stored, in order. The cause is the error of the part that failed;
    the parts after it were not sent.
    """

    def __init__(self, message: str, results: "Sequence[SendResult]" = ()) -> None:
        self.results = tuple(results)
        super().__init__(message, results)

    def __str__(self) -> str:
        return str(self.args[0])


class ClientTimeout(RocketMQError, TimeoutError):
    """No answer within the timeout. A send may have been stored even so."""

    _retryable = True
    _next_step = "call again; a send that is called again may store its message twice"


class BackPressureTimeout(ClientTimeout):
    """The limits on messages in flight left no room within the timeout. Nothing was sent."""

    _next_step = "send slower, or raise limits=SendLimits(...)"


class UnreachableError(RocketMQError, ConnectionError):
    """A server could not be connected, or the connection broke before the answer.

    address: "host:port" that was tried.
    """

    _retryable = True
    _next_step = "check that the server runs and that its address can be reached"

    def __init__(self, message: str, address: str = "") -> None:
        self.address = address
        super().__init__(message)


class AddressServerError(UnreachableError):
    """The address server does not answer, or its answer has no addresses of NameServers."""

    _next_step = "open the URL of the address server in a browser"


class UnreadableBodyError(RocketMQError):
    """A body that the serializer cannot read. message: the message with this body."""

    _next_step = "check that the sender uses the same serializer"

    def __init__(self, text: str, message: "ReceivedMessage") -> None:
        super().__init__(text)
        self.message = message


class MissingCodecError(RocketMQError):
    """A message's body is compressed with a codec that is not installed here."""

    _next_step = "install the extra that the text names"


class ClosedError(RocketMQError):
    """The client is closed, was never started, or was started in another process (fork)."""

    _next_step = "make a new client, and start it"
