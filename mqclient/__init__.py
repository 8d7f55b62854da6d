"""RocketMQ client: producers and consumers for threads; `mqclient.aio` has them for asyncio.

Names are imported when they are first used, so that `import mqclient` stays cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mqclient.admin.sync import Admin
    from mqclient.config import ClientSettings, ProducerSettings, TransactionSettings
    from mqclient.consumer.context import ConsumeContext, ConsumeResult
    from mqclient.consumer.lite_pull_sync import LitePullConsumer
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
    from mqclient.request_reply import reply
    from mqclient.results import PartlySent, SendResult, SendStatus
    from mqclient.sync import Producer, PushConsumer
    from mqclient.tls import Tls
    from mqclient.transactions.state import TransactionState
    from mqclient.transactions.sync import Transaction, TransactionProducer
    from mqstore.message import Message, MessageQueue, ReceivedMessage

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
    "mqclient.admin.sync": ("Admin",),
    "mqclient.config": ("ClientSettings", "ProducerSettings", "TransactionSettings"),
    "mqclient.consumer.settings": ("ConsumerSettings", "LitePullSettings"),
    "mqclient.consumer.context": ("ConsumeContext", "ConsumeResult"),
    "mqclient.consumer.lite_pull_sync": ("LitePullConsumer",),
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
    "mqclient.request_reply": ("reply",),
    "mqclient.results": ("PartlySent", "SendResult", "SendStatus"),
    "mqclient.sync": ("Producer", "PushConsumer"),
    "mqclient.tls": ("Tls",),
    "mqclient.transactions.state": ("TransactionState",),
    "mqclient.transactions.sync": ("Transaction", "TransactionProducer"),
    "mqstore.message": ("Message", "MessageQueue", "ReceivedMessage"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name == "__version__":
        from mqstore.version import version

        return version()
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module 'mqclient' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
