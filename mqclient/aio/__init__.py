"""The asyncio clients. The blocking clients of `mqclient` wrap them."""

from mqclient.admin import Admin
from mqclient.consumer.context import ConsumeContext, ConsumeResult
from mqclient.consumer.lite.consumer import LitePullConsumer
from mqclient.consumer.push.consumer import PushConsumer
from mqclient.consumer.subscription import SqlFilter
from mqclient.engine.tls import Tls
from mqclient.errors import (
    BackPressureTimeout,
    BrokerError,
    ClientTimeout,
    ClosedError,
    MalformedReply,
    NoRouteError,
    NotDurable,
    RocketMQError,
    UnreachableError,
)
from mqclient.producer.producer import Producer
from mqclient.producer.request_reply import reply
from mqclient.producer.results import PartlySent, SendResult, SendStatus
from mqclient.producer.transactions.producer import Transaction, TransactionProducer
from mqclient.producer.transactions.state import TransactionState
from mqclient.settings.clients import ClientSettings
from mqclient.settings.consumers import ConsumerSettings, LitePullSettings
from mqclient.settings.producers import ProducerSettings, TransactionSettings
from mqcommon.message import Message, MessageQueue, ReceivedMessage

__all__ = [
    "Admin",
    "BackPressureTimeout",
    "BrokerError",
    "ClientSettings",
    "ClientTimeout",
    "ClosedError",
    "ConsumeContext",
    "ConsumeResult",
    "ConsumerSettings",
    "LitePullConsumer",
    "LitePullSettings",
    "MalformedReply",
    "Message",
    "MessageQueue",
    "NoRouteError",
    "NotDurable",
    "PartlySent",
    "Producer",
    "ProducerSettings",
    "PushConsumer",
    "ReceivedMessage",
    "RocketMQError",
    "SendResult",
    "SendStatus",
    "SqlFilter",
    "Tls",
    "Transaction",
    "TransactionProducer",
    "TransactionSettings",
    "TransactionState",
    "UnreachableError",
    "reply",
]
