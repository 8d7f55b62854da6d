"""The asyncio clients. The blocking clients of `mqclient` wrap them."""

from mqclient.admin import Admin
from mqclient.config import ClientSettings, ProducerSettings, TransactionSettings
from mqclient.consumer.context import ConsumeContext, ConsumeResult
from mqclient.consumer.lite_pull import LitePullConsumer
from mqclient.consumer.push import PushConsumer
from mqclient.consumer.settings import ConsumerSettings, LitePullSettings
from mqclient.consumer.subscription import SqlFilter
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
from mqclient.producer import Producer
from mqclient.request_reply import reply
from mqclient.results import PartlySent, SendResult, SendStatus
from mqclient.tls import Tls
from mqclient.transactions.producer import Transaction, TransactionProducer
from mqclient.transactions.state import TransactionState
from mqstore.message import Message, MessageQueue, ReceivedMessage

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
