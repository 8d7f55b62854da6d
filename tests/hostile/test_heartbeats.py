"""Wrong heartbeats are answered or refused, and other clients notice nothing."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given

from mqcommon.names import is_legal_group
from mqserver.broker.broker import Broker
from mqserver.broker.state import filters, reading
from mqserver.broker.table import processors_of
from mqserver.config.broker_table import BROKER
from mqserver.config.load import load, pairs
from mqserver.runtime.processor_api import Refused, Response
from tests.examples import examples
from tests.fakes import FakeRequest
from tests.hostile.inputs import bodies

HEART_BEAT = 34


def subscription(topic: str, **more: Any) -> dict[str, Any]:
    return {
        "topic": topic,
        "subString": "TagA || TagB",
        "tagsSet": ["TagA", "TagB"],
        "codeSet": [2598919, 2598920],
        "subVersion": 7,
        "expressionType": "TAG",
        "classFilterMode": False,
        **more,
    }


def body(client: str, group: str, *subscriptions: dict[str, Any]) -> dict[str, Any]:
    consumer = {
        "groupName": group,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "subscriptionDataSet": list(subscriptions),
        "unitMode": False,
    }
    producers = [{"groupName": "producers"}]
    return {"clientID": client, "consumerDataSet": [consumer], "producerDataSet": producers}


SQL = {"expressionType": "SQL92", "subString": "a > 5", "tagsSet": [], "codeSet": []}
HEALTHY = body("healthy", "readers", subscription("T"), subscription("S", **SQL))
HOSTILE = body("hostile", "readers", subscription("T", subVersion=8), subscription("S", **SQL))


class Room:
    """A broker without sockets, which gets heartbeats of one healthy client and of others, one by
    one.
    """

    def __init__(self, root: Path) -> None:
        settings = {"storePathRootDir": str(root), "brokerName": "b", "listenPort": "0"}
        settings |= {"bindAddress": "127.0.0.1", "fastPortEnable": "false"}
        settings |= {"mappedFileSizeCommitLog": str(1 << 20), "enableCalcFilterBitMap": "true"}
        self.broker = Broker(load(BROKER, flags=pairs(settings, "t")))
        self.broker.start()
        self.context = self.broker.context
        self.context.is_open = lambda _connection: True
        self.processors = processors_of(self.context)
        self.connections = itertools.count(100)

    def beat(self, text: bytes, connection: int) -> int:
        """The code of the answer; any other exception fails the test."""
        request = FakeRequest(HEART_BEAT, body=text, connection=connection)
        try:
            reply = self.processors[HEART_BEAT](request)
        except Refused as refused:
            reply = refused.response
        assert isinstance(reply, Response)
        return reply.code

    def healthy(self) -> dict[str, tuple[str, int]]:
        """The subscriptions of the healthy client's group, after its heartbeat."""
        assert self.beat(json.dumps(HEALTHY).encode(), 1) == 0
        group = self.context.consumers.get("readers")
        assert group is not None
        assert 1 in group.members
        return {
            topic: (row.sub_string, row.sub_version) for topic, row in group.subscriptions.items()
        }

    def check_files(self) -> None:
        """Check that the state as saved now can be read completely."""
        context = self.context
        topics = reading.read_topics(context.topics.render())
        groups = reading.read_groups(context.groups.render())
        rows = reading.read_filters(context.filters.render())
        assert not topics.aside
        assert not groups.aside
        assert not rows.aside
        assert all(map(is_legal_group, groups.content.subscription_group_table))


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Room]:
    room = Room(tmp_path_factory.mktemp("store"))
    yield room
    room.broker.stop()


WELL = {"T": ("TagA || TagB", 7), "S": ("a > 5", 7)}


def hostile(**more: Any) -> bytes:
    return json.dumps(body("hostile", "readers", subscription(**{"topic": "T", **more}))).encode()


@given(text=bodies(HOSTILE))
@example(hostile(subVersion=2**63 - 1))
@example(hostile(subVersion=2**63))
@example(hostile(subString="\ud800"))
@example(hostile(tagsSet=["\udfff"], topic="\ud800"))
@example(hostile(codeSet=[2**31]))
@example(json.dumps(body("\ud800", "\ud800", subscription("\ud800"))).encode())
@example(json.dumps(body("c", "../../x", subscription("a/b"))).encode())
@example(b"[" * 5_000)
@examples(200)
def test_a_wrong_heartbeat_is_its_senders_alone(room: Room, text: bytes) -> None:
    assert room.healthy() == WELL
    connection = next(room.connections)
    assert room.beat(text, connection) in (0, 1)
    online = room.context.consumers.get("readers")
    assert online is not None
    assert 1 in online.members, "nobody else ends a membership"
    room.check_files()
    room.context.forget(connection)
    assert room.healthy() == WELL, "with its sender ends what it changed"
    names = list(room.context.groups.all().subscription_group_table)
    assert all(room.context.consumers.get(name) is None for name in names if name != "readers")
    row = room.context.filters._groups["readers"]["S"]
    assert (row.expression, row.dead) == ("a > 5", False)


def test_the_filters_are_in_their_file(room: Room) -> None:
    room.healthy()
    found = reading.read_filters(room.context.filters.render()).content
    assert ("readers", "S") in {(row.consumer_group, row.topic) for row in found}
    assert filters.FILE == "consumerFilter.json"
