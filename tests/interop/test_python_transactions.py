"""Our transaction producer against both brokers, and beside Java's in one group."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from mqclient import Message, TransactionProducer, TransactionState
from mqclient import aio as mqaio
from mqcommon.message import ReceivedMessage
from tests.interop.clusters import OUR_CLIENTS_AT, Cluster
from tests.interop.java_driver import JavaDriver
from tests.interop.test_python_clients import listening

COMMIT, ROLLBACK, UNKNOWN = TransactionState
DYING = """
import os, sys
from mqclient import Message, TransactionProducer

namesrv, group, topic = sys.argv[1:]
with TransactionProducer(group, namesrv, check=lambda message: None) as producer:
    with producer.transaction(Message(topic, b"left behind")):
        os._exit(9)
"""

pytestmark = pytest.mark.parametrize("cluster", OUR_CLIENTS_AT, indirect=True)


class Database:
    """Knows the outcome of transactions; a broker's check sets `checked`."""

    def __init__(self, **states: TransactionState) -> None:
        self.states = states
        self.asked: set[str] = set()
        self.changed = threading.Condition()

    def check(self, message: ReceivedMessage) -> TransactionState:
        body = message.body.decode()
        with self.changed:
            self.asked.add(body)
            self.changed.notify_all()
        return self.states.get(body, UNKNOWN)

    async def check_on_loop(self, message: ReceivedMessage) -> TransactionState:
        return self.check(message)

    def await_questions(self, *bodies: str, timeout: float = 90.0) -> None:
        with self.changed:
            came = self.changed.wait_for(lambda: self.asked >= {*bodies}, timeout)
        assert came, f"asked about {self.asked} only"


def expect(cluster: Cluster, name: str, topic: str, bodies: set[str]) -> None:
    """Consumers get these messages and no others."""
    with listening(cluster, f"{name}_readers_{cluster.broker_port}", topic) as inbox:
        messages = inbox.await_messages(len(bodies))
    assert {message.body.decode() for message in messages} == bodies
    assert {message.properties["REAL_TOPIC"] for message in messages} == {topic}


def test_the_blocking_face(cluster: Cluster, java_driver: JavaDriver) -> None:
    topic = cluster.create_topic(java_driver, f"PyTx_{cluster.broker_port}")
    group = f"py_tx_{cluster.broker_port}"
    database = Database(late=COMMIT, never=ROLLBACK)
    with TransactionProducer(group, cluster.namesrv, check=database.check) as producer:
        with producer.transaction(Message(topic, b"yes" * 2000)) as tx:
            tx.commit()
        with producer.transaction(Message(topic, b"no")) as tx:
            tx.rollback()
        with pytest.raises(RuntimeError), producer.transaction(Message(topic, b"failed")):
            raise RuntimeError
        for body in (b"late", b"never"):
            with producer.transaction(Message(topic, body)):
                pass
        callback = producer.send_in_transaction(Message(topic, b"callback"), lambda _: COMMIT)
        assert callback.state is COMMIT
        database.await_questions("late", "never")
        expect(cluster, "py_tx", topic, {"yes" * 2000, "late", "callback"})
    assert database.asked == {"late", "never"}


async def test_the_asyncio_face(cluster: Cluster, java_driver: JavaDriver) -> None:
    topic = cluster.create_topic(java_driver, f"AioTx_{cluster.broker_port}")
    group = f"aio_tx_{cluster.broker_port}"
    database = Database(late=COMMIT)
    check = database.check_on_loop
    async with mqaio.TransactionProducer(group, cluster.namesrv, check=check) as producer:
        for body, decide in ((b"yes", "commit"), (b"no", "rollback"), (b"late", None)):
            async with producer.transaction(Message(topic, body)) as tx:
                if decide:
                    await getattr(tx, decide)()
        await asyncio.to_thread(expect, cluster, "aio_tx", topic, {"yes", "late"})
    assert database.asked == {"late"}


def test_a_new_member_answers_for_one_that_was_killed(
    cluster: Cluster, java_driver: JavaDriver
) -> None:
    topic = cluster.create_topic(java_driver, f"DyingTx_{cluster.broker_port}")
    group = f"dying_tx_{cluster.broker_port}"
    words = [sys.executable, "-c", DYING, cluster.namesrv, group, topic]
    assert subprocess.run(words, timeout=90, check=False).returncode == 9
    database = Database(**{"left behind": COMMIT})
    with TransactionProducer(group, cluster.namesrv, check=database.check):  # sends nothing
        database.await_questions("left behind")
        expect(cluster, "dying_tx", topic, {"left behind"})


def test_beside_a_java_producer_of_the_group(cluster: Cluster, java_driver: JavaDriver) -> None:
    """Each answers for the other's message; each leaves its own undecided."""
    topic = cluster.create_topic(java_driver, f"MixedTx_{cluster.broker_port}")
    group = f"mixed_tx_{cluster.broker_port}"
    database = Database(**{"transaction 0": COMMIT})
    with TransactionProducer(group, cluster.namesrv, check=database.check) as producer:
        done = java_driver.call(
            "transact",
            namesrv=cluster.namesrv,
            topic=topic,
            group=group,
            decisions=["UNKNOW"],
            checks=["UNKNOW", "COMMIT_MESSAGE"],
        )
        # Brokers ask the two producers in turn: of two messages, each might always be asked about
        # its own.
        for body in (b"ours", b"ours too"):
            with producer.transaction(Message(topic, body, properties={"number": "1"})):
                pass
        expect(cluster, "mixed_tx", topic, {"transaction 0", "ours", "ours too"})
        java_driver.call("stop_transacting", producer=done["id"])
    bodies = {check["body"] for check in java_driver.events(done["id"], "check")}
    assert "ours" in bodies
    assert "transaction 0" in database.asked
