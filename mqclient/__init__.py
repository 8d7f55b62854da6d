"""RocketMQ client: producers and consumers for threads; `mqclient.aio` has them for asyncio.

Names are imported when they are first used, so that `import mqclient` stays cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mqclient.blocking.admin import Admin
    from mqclient.blocking.lite_pull_consumer import LitePullConsumer
    from mqclient.blocking.producer import Producer
    from mqclient.blocking.push_consumer import PushConsumer
    from mqclient.blocking.serving import run
    from mqclient.blocking.transactions import Transaction, TransactionProducer
    from mqclient.consumer.context import ConsumeContext, ConsumeResult
    from mqclient.consumer.lag import Lag, OffsetAtTime
    from mqclient.consumer.subscription import SqlFilter
    from mqclient.engine.mock import MockTransport
    from mqclient.engine.tls import TlsConfig
    from mqclient.errors import (
        AddressServerError,
        BackPressureTimeout,
        BrokerError,
        ClientTimeout,
        ClosedError,
        MissingCodecError,
        NoRouteError,
        NotDurableError,
        NotFoundError,
        PartialSendError,
        ProtocolError,
        RocketMQError,
        UnreachableError,
        UnreadableBodyError,
    )
    from mqclient.producer.request_reply import reply
    from mqclient.producer.results import SendResult, SendStatus
    from mqclient.producer.transactions.state import TransactionState
    from mqclient.settings.clients import AdminOptions, ClientOptions
    from mqclient.settings.connection import Connection
    from mqclient.settings.consumers import LitePullOptions, PushOptions
    from mqclient.settings.identity import ClientId, Credentials
    from mqclient.settings.producers import ProducerOptions, TransactionOptions
    from mqclient.settings.values import (
        CheckLimits,
        Compression,
        Limits,
        Linger,
        LitePull,
        LitePullLimits,
        Orderly,
        Pull,
        Retry,
        SendLimits,
        Trace,
    )
    from mqcommon.message import Message, MessageQueue, ReceivedMessage
    from mqcommon.wire.bodies.groups import GroupConfig
    from mqcommon.wire.bodies.topics import TopicConfig
    from mqcommon.wire.codes import ResponseCode

    __version__: str

__all__ = [
    "AddressServerError",
    "Admin",
    "AdminOptions",
    "BackPressureTimeout",
    "BrokerError",
    "CheckLimits",
    "ClientId",
    "ClientOptions",
    "ClientTimeout",
    "ClosedError",
    "Compression",
    "Connection",
    "ConsumeContext",
    "ConsumeResult",
    "Credentials",
    "GroupConfig",
    "Lag",
    "Limits",
    "Linger",
    "LitePull",
    "LitePullConsumer",
    "LitePullLimits",
    "LitePullOptions",
    "Message",
    "MessageQueue",
    "MissingCodecError",
    "MockTransport",
    "NoRouteError",
    "NotDurableError",
    "NotFoundError",
    "OffsetAtTime",
    "Orderly",
    "PartialSendError",
    "Producer",
    "ProducerOptions",
    "ProtocolError",
    "Pull",
    "PushConsumer",
    "PushOptions",
    "ReceivedMessage",
    "ResponseCode",
    "Retry",
    "RocketMQError",
    "SendLimits",
    "SendResult",
    "SendStatus",
    "SqlFilter",
    "TlsConfig",
    "TopicConfig",
    "Trace",
    "Transaction",
    "TransactionOptions",
    "TransactionProducer",
    "TransactionState",
    "UnreachableError",
    "UnreadableBodyError",
    "reply",
    "run",
]

_HOMES = {
    "mqclient.blocking.admin": ("Admin",),
    "mqclient.blocking.lite_pull_consumer": ("LitePullConsumer",),
    "mqclient.blocking.producer": ("Producer",),
    "mqclient.blocking.push_consumer": ("PushConsumer",),
    "mqclient.blocking.serving": ("run",),
    "mqclient.blocking.transactions": ("Transaction", "TransactionProducer"),
    "mqclient.consumer.context": ("ConsumeContext", "ConsumeResult"),
    "mqclient.consumer.lag": ("Lag", "OffsetAtTime"),
    "mqclient.consumer.subscription": ("SqlFilter",),
    "mqclient.engine.mock": ("MockTransport",),
    "mqclient.engine.tls": ("TlsConfig",),
    "mqclient.errors": (
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
    ),
    "mqclient.producer.request_reply": ("reply",),
    "mqclient.producer.results": ("SendResult", "SendStatus"),
    "mqclient.producer.transactions.state": ("TransactionState",),
    "mqclient.settings.clients": ("AdminOptions", "ClientOptions"),
    "mqclient.settings.connection": ("Connection",),
    "mqclient.settings.consumers": ("LitePullOptions", "PushOptions"),
    "mqclient.settings.identity": ("ClientId", "Credentials"),
    "mqclient.settings.producers": ("ProducerOptions", "TransactionOptions"),
    "mqclient.settings.values": (
        "CheckLimits",
        "Compression",
        "Limits",
        "Linger",
        "LitePull",
        "Orderly",
        "Pull",
        "LitePullLimits",
        "Retry",
        "SendLimits",
        "Trace",
    ),
    "mqcommon.message": ("Message", "MessageQueue", "ReceivedMessage"),
    "mqcommon.wire.bodies.groups": ("GroupConfig",),
    "mqcommon.wire.bodies.topics": ("TopicConfig",),
    "mqcommon.wire.codes": ("ResponseCode",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name == "__version__":
        from mqcommon.version import version

        return version()
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'mqclient' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
