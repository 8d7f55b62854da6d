"""The asyncio clients. The blocking clients of `mqclient` wrap them."""

from mqclient.admin import Admin
from mqclient.consumer.context import ConsumeContext, ConsumeResult
from mqclient.consumer.lag import Lag, OffsetAtTime
from mqclient.consumer.lite.consumer import LitePullConsumer
from mqclient.consumer.push.consumer import PushConsumer
from mqclient.consumer.subscription import SqlFilter
from mqclient.engine.mock import MockTransport
from mqclient.engine.serving import run
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
from mqclient.producer.producer import Producer
from mqclient.producer.request_reply import reply
from mqclient.producer.results import SendResult, SendStatus
from mqclient.producer.transactions.producer import Transaction, TransactionProducer
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
