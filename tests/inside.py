"""Access to the parts of servers that run in this process."""

from __future__ import annotations

from mqserver.broker.broker import Broker
from mqserver.broker.context import BrokerContext
from mqserver.embedded.in_process import InProcessServers
from mqserver.embedded.standalone import Standalone
from mqstore import Store


def broker_of(mq: Standalone) -> Broker:
    """The broker."""
    assert isinstance(mq.servers, InProcessServers)
    assert mq.servers.server is not None
    return mq.servers.server


def context_of(mq: Standalone) -> BrokerContext:
    """The context that the broker's processors share."""
    return broker_of(mq).context


def store_of(mq: Standalone) -> Store:
    """The broker's store."""
    store = context_of(mq).store
    assert isinstance(store, Store)
    return store
