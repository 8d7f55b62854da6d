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
    from mqclient.blocking.transactions import Transaction, TransactionProducer
    from mqclient.consumer.context import ConsumeContext, ConsumeResult
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
    from mqclient.producer.request_reply import reply
    from mqclient.producer.results import PartlySent, SendResult, SendStatus
    from mqclient.producer.transactions.state import TransactionState
    from mqclient.settings.clients import ClientSettings
    from mqclient.settings.consumers import ConsumerSettings, LitePullSettings
    from mqclient.settings.producers import ProducerSettings, TransactionSettings
    from mqcommon.message import Message, MessageQueue, ReceivedMessage

    __version__: str

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

_HOMES = {
    "mqclient.blocking.admin": ("Admin",),
    "mqclient.settings.clients": ("ClientSettings",),
    "mqclient.settings.producers": ("ProducerSettings", "TransactionSettings"),
    "mqclient.settings.consumers": ("ConsumerSettings", "LitePullSettings"),
    "mqclient.consumer.context": ("ConsumeContext", "ConsumeResult"),
    "mqclient.blocking.lite_pull_consumer": ("LitePullConsumer",),
    "mqclient.consumer.subscription": ("SqlFilter",),
    "mqclient.errors": (
        "BackPressureTimeout",
        "BrokerError",
        "ClientTimeout",
        "ClosedError",
        "MalformedReply",
        "NoRouteError",
        "NotDurable",
        "RocketMQError",
        "UnreachableError",
    ),
    "mqclient.producer.request_reply": ("reply",),
    "mqclient.producer.results": ("PartlySent", "SendResult", "SendStatus"),
    "mqclient.blocking.producer": ("Producer",),
    "mqclient.blocking.push_consumer": ("PushConsumer",),
    "mqclient.engine.tls": ("Tls",),
    "mqclient.producer.transactions.state": ("TransactionState",),
    "mqclient.blocking.transactions": ("Transaction", "TransactionProducer"),
    "mqcommon.message": ("Message", "MessageQueue", "ReceivedMessage"),
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
