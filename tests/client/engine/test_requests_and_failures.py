"""Requests whose asker is gone, and requests that wait while their broker restarts."""

from __future__ import annotations

import queue

import pytest

from mqclient import BrokerError, ClientTimeout, Message, Producer, PushConsumer, Retry, reply
from mqserver.embedded.standalone import Standalone

RECEIVED_WITHIN_S = 60


def test_a_reply_to_a_vanished_requester_is_a_broker_error() -> None:
    asked: queue.SimpleQueue = queue.SimpleQueue()
    with Standalone() as mq, Producer(mq.namesrv, retry=Retry(max_retries=0)) as replier:
        topic = mq.topic()
        with PushConsumer("gone_askers", mq.namesrv, consume_from="earliest") as consumer:
            consumer.subscribe(topic, "*", lambda messages, _context: asked.put(messages[0]))
            with Producer(mq.namesrv, group="askers") as asker:
                waiting = asker.request_async(Message(topic, b"?"), timeout=RECEIVED_WITHIN_S)
                request = asked.get(timeout=RECEIVED_WITHIN_S)
            assert waiting.exception(RECEIVED_WITHIN_S) is not None
            with pytest.raises(BrokerError) as caught:
                replier.send(reply(request, b"too late"))
    assert request.properties["REPLY_TO_CLIENT"] in str(caught.value)


def test_a_request_outlasts_a_restart_of_its_broker(tmp_path) -> None:
    asked: queue.SimpleQueue = queue.SimpleQueue()
    with Standalone(tmp_path) as mq, Producer(mq.namesrv, group="askers") as asker:
        topic = mq.topic()
        with PushConsumer("slow_repliers", mq.namesrv, consume_from="earliest") as consumer:
            consumer.subscribe(topic, "*", lambda messages, _context: asked.put(messages[0]))
            waiting = asker.request_async(Message(topic, b"?"), timeout=RECEIVED_WITHIN_S)
            request = asked.get(timeout=RECEIVED_WITHIN_S)
            mq.restart()
            assert not waiting.done()
            # The restarted broker learns about the requester from its next send or heartbeat.
            with Producer(mq.namesrv, group="repliers") as replier:
                with pytest.raises(ClientTimeout):
                    asker.request(Message(topic, b"introduces the asker"), timeout=5)
                replier.send(reply(request, b"still in time"))
            assert waiting.result(RECEIVED_WITHIN_S).body == b"still in time"
