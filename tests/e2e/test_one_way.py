"""Consumers can read a one-way message, although no request waits for its flush."""

from __future__ import annotations

import pytest

from mqclient import Message, Producer
from mqcommon.wire.codes import RequestCode
from mqcommon.wire.frame import Frame
from mqserver.embedded.raw_client import Probe
from mqserver.embedded.standalone import Standalone
from mqstore import decode_messages


@pytest.mark.parametrize("plane", ["native", "python"])
@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_a_one_way_message_reaches_a_waiting_reader(plane: str, flush: str) -> None:
    with Standalone(settings={"flushDiskType": flush, "dataPlane": plane}) as mq:
        topic = mq.topic(queues=1)
        fields = {"consumerGroup": "waits", "topic": topic, "queueId": "0", "queueOffset": "0"}
        # 2: it may be held, 4: the subscription comes with it.
        fields |= {"sysFlag": "6", "suspendTimeoutMillis": "50000", "maxMsgNums": "32"}
        fields |= {"commitOffset": "0", "subVersion": "0", "subscription": "*"}
        with Probe(mq.broker_address, timeout=60) as probe, Producer(mq.namesrv) as producer:
            producer.send_oneway(Message(topic, b"nobody waits"))
            found = probe.call(Frame(RequestCode.PULL_MESSAGE, fields))
            assert [message.body for message in decode_messages(found.body)] == [b"nobody waits"]
