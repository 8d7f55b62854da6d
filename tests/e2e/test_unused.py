"""What clients had made and never used goes; what has data, members or an administrator stays."""

from __future__ import annotations

import json
from pathlib import Path

from mqcommon.wire.frame import Frame
from mqserver.broker.context import BrokerContext
from mqserver.broker.processors.offset import update_offset
from mqserver.broker.unused import HOUR_MS, take_back_unused
from mqserver.embedded.raw_client import Probe, ask
from mqserver.embedded.standalone import Standalone
from mqserver.runtime.processor_api import Refused, Response
from tests.fakes import FakeRequest
from tests.inside import context_of


def heartbeat(group: str) -> Frame:
    consumer = {"groupName": group, "subscriptionDataSet": [{"topic": "T", "subString": "*"}]}
    return Frame(34, {}, json.dumps({"clientID": "c", "consumerDataSet": [consumer]}).encode())


def send(broker: str, topic: str, body: bytes = b"x") -> int:
    letters = {"a": "p", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1"}
    return ask(broker, Frame(310, {**letters, "h": "0", "i": "", "m": "false"}, body)).code


def a_day_later(context: BrokerContext) -> None:
    unasked = context.unasked
    for kind in ("groups", "topics", "offsets"):
        for made in unasked._made[kind].values():
            made.at_ms -= 25 * HOUR_MS
    take_back_unused(context)


def test_what_was_made_unasked_and_never_used_goes_after_a_day(tmp_path: Path) -> None:
    with Standalone(tmp_path / "store") as mq, Probe(mq.broker_address) as member:
        broker, context = mq.broker_address, context_of(mq)
        assert member.call(heartbeat("busy")).code == 0
        assert ask(broker, heartbeat("idle")).code == 0
        assert ask(broker, heartbeat("kept")).code == 0
        assert ask(broker, heartbeat("read")).code == 0
        commit = {"consumerGroup": "read", "topic": "Used", "queueId": "0", "commitOffset": "0"}
        assert send(broker, "Used") == 0
        assert send(broker, "Empty", b"x" * (5 << 20)) == 13, "the topic is there, its message not"
        assert ask(broker, Frame(15, commit)).code == 0
        asked = {"groupName": "kept", "consumeEnable": True, "retryQueueNums": 1}
        assert ask(broker, Frame(200, {}, json.dumps(asked).encode())).code == 0
        take_back_unused(context)
        assert context.groups.get("idle"), "a day has not passed"
        a_day_later(context)
        there = {g for g in ("busy", "idle", "kept", "read") if context.groups.get(g)}
        assert there == {"busy", "kept", "read"}
        assert context.topics.get("%RETRY%idle") is None
        assert context.topics.get("%RETRY%busy")
        assert (context.topics.get("Used") is None, context.topics.get("Empty")) == (False, None)
        assert ask(broker, heartbeat("idle")).code == 0
        assert ask(broker, Frame(25, {}, b"unusedUnaskedHours=0")).code == 0
        a_day_later(context)
        assert context.groups.get("idle"), "0 hours: never"


STRANGER, OTHER = "203.0.113.1:9", "203.0.113.2:9"


def commit(context: BrokerContext, by: str, group: str, topic: str = "T", queue_id: int = 0) -> int:
    """The code that a commit of a client of that address is answered."""
    fields = {"consumerGroup": group, "topic": topic, "queueId": str(queue_id), "commitOffset": "5"}
    try:
        reply = update_offset(context, FakeRequest(15, fields, remote=by))
    except Refused as refused:
        assert "(sourceSharePercent=50)" in (refused.response.remark or "")
        return refused.response.code
    assert isinstance(reply, Response)
    return reply.code


def test_one_address_commits_half_of_the_unknown_offsets(
    tmp_path: Path,
) -> None:
    settings = {"unknownGroupOffsetMax": "8"}
    with Standalone(tmp_path / "store", settings=settings) as mq:
        context, topic = context_of(mq), mq.topic(queues=1)
        assert ask(mq.broker_address, heartbeat("known")).code == 0
        assert commit(context, STRANGER, "known", topic) == 0
        assert commit(context, STRANGER, "known", topic, 7) == 0, "there is no queue 7"
        codes = [commit(context, STRANGER, f"nobody{number}") for number in range(4)]
        assert codes == [0, 0, 0, 26]
        assert commit(context, STRANGER, "nobody2") == 0, "what is there goes on"
        assert commit(context, OTHER, "elsewhere") == 0
        assert commit(context, "127.0.0.1:9", "ours") == 0
        assert ask(mq.broker_address, heartbeat("nobody1")).code == 0
        mq.topic("T", queues=1)
        take_back_unused(context)
        assert commit(context, STRANGER, "nobody3") == 0, "group nobody1 exists now"
        forget = {"groupName": "nobody0", "removeOffset": "true"}
        assert ask(mq.broker_address, Frame(207, forget)).code == 0
        take_back_unused(context)
        assert commit(context, STRANGER, "nobody4") == 0, "an administrator deleted nobody0"
        a_day_later(context)
        rows = context.store.committed_all()
        assert rows == {f"{topic}@known": {0: 5}, "T@nobody1": {0: 5}, "T@ours": {0: 5}}
        assert context.unasked.names("offsets") == []
