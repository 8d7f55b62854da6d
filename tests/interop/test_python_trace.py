"""Our message trace beside Java's: the same records for the same messages."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from mqclient import (
    LitePullConsumer,
    Message,
    Producer,
    PushConsumer,
    Trace,
    TransactionProducer,
    TransactionState,
)
from mqcommon.message import ReceivedMessage
from tests.interop.clusters import Cluster
from tests.interop.java_driver import JavaDriver
from tests.interop.test_python_clients import Inbox

pytestmark = pytest.mark.parametrize("cluster", ["java_cluster", "our_cluster"], indirect=True)

MASKED = {
    "Pub": (1, 5, 8, 10, 12),
    "SubBefore": (1, 4, 5),
    "SubAfter": (1, 2, 3, 7),
    "EndTransaction": (1, 5, 8, 10),
}
"""By the kind of a record: its fields that are times, ids, or the broker's address."""
ID = re.compile(r"[0-9A-F]{32,56}")


def masked(record: str) -> str:
    """A record whose times, ids and addresses are replaced by their form."""
    fields = record.split("\x01")
    for place in MASKED[fields[0]]:
        fields[place] = re.sub(r"\d+", "N", ID.sub("ID", fields[place]))
    return "\x01".join(fields)


def read_records(cluster: Cluster, topic: str, count: int) -> Counter[str]:
    """The masked records of a trace topic, and the keys of its messages."""
    found: Counter[str] = Counter()
    with LitePullConsumer(f"of_{topic}", cluster.namesrv, consume_from="earliest") as reader:
        reader.subscribe(topic)
        while found.total() < count:
            messages = reader.poll(32, timeout=60)
            assert messages, f"{found.total()} of {count} records: {found}"
            for message in messages:
                _check_keys(message)
                texts = message.body.decode().split("\x02")
                assert texts.pop() == ""
                found.update(map(masked, texts))
    return found


def _check_keys(message: ReceivedMessage) -> None:
    """The keys of a trace message are the ids and keys of the messages in its records."""
    for record in message.body.decode().split("\x02")[:-1]:
        fields = record.split("\x01")
        msg_id = fields[2 if fields[0] == "SubAfter" else 5]
        assert {msg_id, "k0"} <= {*message.keys}


def test_records_are_javas(cluster: Cluster, java_driver: JavaDriver) -> None:
    port = cluster.broker_port
    group = f"trace_both_{port}"
    topic = cluster.create_topic(java_driver, f"TraceBoth_{port}", queues=1)
    javas = cluster.create_topic(java_driver, f"TraceJava_{port}", queues=1)
    ours = cluster.create_topic(java_driver, f"TraceOurs_{port}", queues=1)
    java_driver.produce(cluster.namesrv, topic, 1, body="twin ", keys="k", trace=javas)
    body = b"twin 0"
    with Producer(cluster.namesrv, group="interop_sends", trace=Trace(ours)) as producer:
        producer.send(Message(topic, body, tags="TagA", keys="k0"))
    consumer = java_driver.consume(cluster.namesrv, group, topic, trace=javas)
    consumer.await_messages(2)
    java_records = read_records(cluster, javas, 5)
    consumer.stop()
    inbox = Inbox()
    with Producer(cluster.namesrv) as producer:
        producer.send(Message(topic, body, tags="TagA", keys="k0"))
        producer.send(Message(topic, body, tags="TagA", keys="k0"))
    with PushConsumer(group, cluster.namesrv, consume_from="earliest", trace=Trace(ours)) as push:
        push.subscribe(topic, "*", inbox.handle)
        inbox.await_messages(2)
    assert read_records(cluster, ours, 5) == java_records


def test_records_of_transactions_are_javas(cluster: Cluster, java_driver: JavaDriver) -> None:
    port = cluster.broker_port
    group = f"trace_transactions_{port}"
    topic = cluster.create_topic(java_driver, f"TraceTx_{port}", queues=1)
    javas = cluster.create_topic(java_driver, f"TraceTxJava_{port}", queues=1)
    ours = cluster.create_topic(java_driver, f"TraceTxOurs_{port}", queues=1)
    decisions = {
        "COMMIT_MESSAGE": TransactionState.COMMIT,
        "ROLLBACK_MESSAGE": TransactionState.ROLLBACK,
        "UNKNOW": TransactionState.UNKNOWN,
    }
    names = list(decisions)
    options = {"namesrv": cluster.namesrv, "topic": topic, "group": group, "keys": "k0"}
    done = java_driver.call("transact", **options, decisions=names, checks=names, trace=javas)
    with TransactionProducer(
        group, cluster.namesrv, check=lambda _message: None, trace=Trace(ours)
    ) as producer:
        for at, decided in enumerate(decisions.values()):
            message = Message(topic, b"transaction %d" % at, tags="TagTx", keys="k0")
            producer.send_in_transaction(message, lambda _message, decided=decided: decided)
    assert read_records(cluster, ours, 6) == read_records(cluster, javas, 6)
    java_driver.call("stop_transacting", producer=done["id"])
