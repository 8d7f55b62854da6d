"""Errors of the client.

    RocketMQError
    ├── BrokerError            a server answered with an error code
    │   └── NotDurable         stored, but less durably than asked (raise_for_status)
    ├── MalformedReply         a server's answer cannot be read
    ├── NoRouteError           the NameServer knows no queue for the topic
    ├── PartlySent             a large batch was sent in parts, and only the first are stored
    │                          (mqclient.producer.results)
    ├── ClientTimeout          no answer in time              (also a TimeoutError)
    │   └── BackPressureTimeout  too much was in flight, so nothing was sent
    ├── UnreachableError       no connection to a server      (also a ConnectionError)
    └── ClosedError            the client is closed, not started, or belongs to another process

Bad arguments are ValueError or TypeError. Every message names the cause and a next step.
"""

from mqcommon.errors import BrokerError, MalformedReply, RocketMQError

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


class NotDurable(BrokerError):
    """A send was stored, but flush or replication did not finish in time.

    The message may be lost if the broker's machine fails now; sending it again makes a duplicate.
    """


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
