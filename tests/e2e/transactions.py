"""Half messages and their ends, as frames, for tests of brokers."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mqcommon.wire.frame import Frame
from mqserver.embedded.raw_client import Probe
from mqserver.embedded.standalone import Standalone
from mqstore import ReceivedMessage, decode_messages, parse_offset_msg_id
from tests.waiting import answer_of

GROUP = "order_producers"
COMMIT, ROLLBACK, UNKNOWN = 8, 12, 0
PREPARED = 4
CHECKS = {"transactionCheckInterval": "50", "transactionTimeOut": "100", "transactionCheckMax": "3"}


class Half:
    """A half message as its producer knows it from the reply to the send."""

    def __init__(self, reply: Frame, key: str) -> None:
        assert (reply.code, reply.remark) == (0, None)
        self.queue_id = int(reply.fields["queueId"])
        self.queue_offset = int(reply.fields["queueOffset"])
        self.msg_id = reply.fields["msgId"]
        self.physical_offset = parse_offset_msg_id(self.msg_id).physical_offset
        self.key = key

    def end(self, decision: int, **changes: str) -> Frame:
        fields = {
            "producerGroup": GROUP,
            "tranStateTableOffset": str(self.queue_offset),
            "commitLogOffset": str(self.physical_offset),
            "commitOrRollback": str(decision),
            "fromTransactionCheck": "false",
            "msgId": self.key,
        }
        return Frame(37, {**fields, **changes})


def prepared(topic: str, key: str, more: str = "", born_ms: int | None = None) -> Frame:
    born_ms = int(time.time() * 1000) if born_ms is None else born_ms
    text = f"KEYS\x01{key}\x02TRAN_MSG\x01true\x02UNIQ_KEY\x01{key}\x02WAIT\x01true"
    letters = {"a": GROUP, "b": topic, "c": "TBW102", "d": "4", "e": "2", "g": str(born_ms)}
    properties = f"{text}\x02PGROUP\x01{GROUP}{more}"
    return Frame(
        310,
        {**letters, "f": str(PREPARED), "h": "7", "i": properties, "j": "0", "m": "false"},
        b"paid " + key.encode(),
    )


def view(probe: Probe, offset: int) -> ReceivedMessage:
    reply = probe.call(Frame(33, {"offset": str(offset)}))
    assert reply.code == 0, reply.remark
    return decode_messages(reply.body)[0]


@contextmanager
def checking(
    plane: str, data: Path | None = None, **settings: str
) -> Iterator[tuple[Standalone, Probe]]:
    """A broker that checks at once, and a connected producer of the group."""
    with (
        Standalone(data=data, settings={"dataPlane": plane, **CHECKS, **settings}) as mq,
        Probe(mq.broker_address, timeout=60) as probe,
    ):
        join(probe)
        yield mq, probe


def join(probe: Probe) -> None:
    """Become a producer of the group."""
    producers = [{"groupName": GROUP}]
    heartbeat = {"clientID": "c@1", "producerDataSet": producers, "consumerDataSet": []}
    probe.call(Frame(34, {}, json.dumps(heartbeat).encode()))


def await_messages(mq: Standalone, topic: str) -> list[ReceivedMessage]:
    """The messages of a topic, after the first has arrived; pulls again while the checks run."""
    with Probe(mq.broker_address, timeout=60) as probe:
        fields = {"consumerGroup": "TOOLS_CONSUMER", "topic": topic, "queueId": "0"}
        fields |= {"queueOffset": "0", "maxMsgNums": "32", "sysFlag": "6", "commitOffset": "0"}
        fields |= {"suspendTimeoutMillis": "20000", "subscription": "*", "subVersion": "0"}
        reply = answer_of(lambda: probe.call(Frame(11, fields)), lambda reply: reply.code == 0)
        return decode_messages(reply.body)
