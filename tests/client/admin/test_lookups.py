"""Lookups of messages and topics in unusual places."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mqclient import (
    Admin,
    ClientId,
    Connection,
    LitePullConsumer,
    Message,
    NoRouteError,
    Producer,
    PushConsumer,
    ReceivedMessage,
    aio,
)
from mqcommon.wire.bodies.topics import TopicConfig
from mqserver.embedded.standalone import Standalone
from tests.waiting import until


def ignore(messages: list[ReceivedMessage], context: object) -> None:
    pass


def test_a_message_is_found_after_its_broker_moved(tmp_path: Path) -> None:
    with Standalone(tmp_path) as mq, Producer(mq.namesrv) as producer:
        topic = mq.topic("Moved", queues=1)
        result = producer.send(Message(topic, b"x"))
    with Standalone(tmp_path) as mq, Admin(mq.namesrv) as admin:
        assert mq.messages(topic)[0].store_host not in mq.servers.broker
        message = admin.messages.view(result.offset_msg_id)
        assert (message.body, message.broker_name) == (b"x", "broker-a")
        consumer = PushConsumer("moved_group", mq.namesrv, consume_from="earliest")
        consumer.subscribe(topic, "*", ignore)
        with consumer:
            mq.wait_consumed("moved_group", topic)
            until(lambda: admin.messages.track(message)[0].track_type == "CONSUMED")


def test_a_topic_that_may_not_be_read_says_so(mq: Standalone) -> None:
    topic = mq.topic("WriteOnly", queues=1)
    with Admin(mq.namesrv) as admin, LitePullConsumer(None, mq.namesrv) as consumer:
        admin.topics.update(
            TopicConfig(topic, read_queue_nums=1, write_queue_nums=1, perm=2),
            cluster="DefaultCluster",
        )
        until(lambda: not admin.topics.route(topic).queue_datas[0].perm & 4)
        with pytest.raises(NoRouteError, match="no broker lets its queues be read"):
            consumer.queues(topic)


def test_admin_takes_the_options_of_every_client(mq: Standalone) -> None:
    options = {
        "client_id": ClientId(instance="mine", unit="u"),
        "connection": Connection(request_timeout=1.0),
    }
    with Admin(mq.namesrv, **options) as admin:
        assert "@mine@u" in admin.client_id
        assert admin.topics.names()
    with pytest.raises(TypeError, match="did you mean client_id"):
        Admin(mq.namesrv, client_ids="mine")  # type: ignore[call-arg]


GROUP_QUESTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "progress": lambda admin, _: admin.offsets.progress("nobody"),
    "of_group": lambda admin, _: admin.offsets.of_group("nobody"),
    "lag": lambda admin, _: admin.lags.of("nobody"),
    "connection": lambda admin, _: admin.groups.connection("nobody"),
    "running_info": lambda admin, _: admin.groups.running_info("nobody", "c@1"),
    "consume": lambda admin, message: admin.messages.consume_directly("nobody", "c@1", message),
    "dead_letters": lambda admin, _: admin.dead_letters.topic("nobody"),
    "dead_letter": lambda admin, _: admin.dead_letters.redrive_some("nobody", ["x"]),
}


@pytest.mark.parametrize("question", GROUP_QUESTIONS)
async def test_an_unknown_group_is_named_and_not_its_topic(mq: Standalone, question: str) -> None:
    topic = mq.topic("UnknownGroup", queues=1)
    with Producer(mq.namesrv) as producer:
        producer.send(Message(topic, b"x"))
    message, ask = mq.messages(topic)[0], GROUP_QUESTIONS[question]
    async with aio.Admin(mq.namesrv) as admin:
        with pytest.raises(
            NoRouteError, match=r"^group 'nobody' (?!.*%RETRY%).*; list the "
        ) as found:
            await ask(admin, message)
        assert found.value.next_step.startswith("list the ")
    with Admin(mq.namesrv) as admin, pytest.raises(NoRouteError, match=r"^group 'nobody' "):
        await asyncio.to_thread(ask, admin, message)
