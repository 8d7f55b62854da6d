"""The recorded sessions of RocketMQ's admin tool, and the state its servers were in before them.

The recording does not list this state; it follows from the replies. If a reply shows an object
that no recorded request created, it existed before. Each session's first reply about it counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from mqcommon import fastjson
from mqcommon.wire.codes import RequestCode as Code
from mqcommon.wire.frame import Frame, decode
from mqstore import ReceivedMessage, decode_messages
from tests.common.wire.golden import FOLDER, frames

RECORDINGS = ("admin-json", "admin-rocketmq")
GROUPS_OFFSETS = (Code.GET_CONSUME_STATS, Code.GET_BROKER_CONSUME_STATS)
WITH_MESSAGES = (Code.PULL_MESSAGE, Code.QUERY_MESSAGE, Code.VIEW_MESSAGE_BY_ID)


class Queue(NamedTuple):
    topic: str
    queue_id: int


class Offset(NamedTuple):
    """Offsets of one queue and one group, as a reply shows them."""

    group: str
    queue: Queue
    end: int
    committed: int


@dataclass
class Exchange:
    """A request of the tool, the reply, and the server's own requests in between.

    session: name of the command. server: "namesrv" or "broker". reply: None if none came.
    """

    session: str
    server: str
    connection: int
    request: Frame
    reply: Frame | None = None
    told: list[Frame] = field(default_factory=list)

    @property
    def body(self) -> Any:
        """The reply's JSON; {} if it is none."""
        if self.reply is None or not self.reply.body.startswith(b"{"):
            return {}
        return fastjson.loads(self.reply.body)

    @property
    def succeeded(self) -> bool:
        return self.reply is not None and self.reply.code == 0

    def messages(self) -> list[ReceivedMessage]:
        """The messages in the reply's body."""
        if self.reply is None or self.request.code not in WITH_MESSAGES or not self.reply.body:
            return []
        return decode_messages(self.reply.body)

    def offsets(self) -> Iterator[Offset]:
        """Offsets of groups that the reply shows."""
        if self.request.code == Code.GET_CONSUME_STATS:
            yield from _rows(self.request.fields["consumerGroup"], self.body)
        elif self.request.code == Code.GET_BROKER_CONSUME_STATS:
            for groups in self.body["consumeStatsList"]:
                for group, topics in groups.items():
                    for stats in topics:
                        yield from _rows(group, stats)


def _rows(group: str, stats: Any) -> Iterator[Offset]:
    for text, row in stats.get("offsetTable", {}).items():
        queue = json.loads(text)
        yield Offset(
            group,
            Queue(queue["topic"], queue["queueId"]),
            row["brokerOffset"],
            row["consumerOffset"],
        )


def exchanges(recording: str) -> list[Exchange]:
    """All exchanges of a recording, in the order of the requests."""
    found: list[Exchange] = []
    waiting: dict[tuple[str, int, int], Exchange] = {}
    latest: dict[tuple[str, int], Exchange] = {}
    for recorded in frames(FOLDER / f"{recording}.jsonl.gz"):
        line, frame = recorded.line, decode(recorded.data)
        session, connection = line["session"].partition("/")[2], line["conn"]
        if line["from"] == "client":
            assert not frame.is_response
            one = Exchange(session, line["server"], connection, frame)
            waiting[session, connection, frame.opaque] = latest[session, connection] = one
            found.append(one)
        elif frame.is_response:
            waiting.pop((session, connection, frame.opaque)).reply = frame
        else:
            latest[session, connection].told.append(frame)
    return found


@dataclass
class Found:
    """The state a recording began with.

    topics, groups: configurations by name, as in RocketMQ's files. offsets: what groups had
    committed. ends: how many messages queues held, as far as a reply shows it. messages: those
    shown. counted: names and keys of the statistics that RocketMQ had. consumer: the group's
    consumer that is on-line, as code 203 shows it. producers: code 328's table. updates: how
    often the configuration had been changed.
    """

    recording: list[Exchange]
    topics: dict[str, Any] = field(default_factory=dict)
    groups: dict[str, Any] = field(default_factory=dict)
    offsets: dict[tuple[str, Queue], int] = field(default_factory=dict)
    ends: dict[Queue, int] = field(default_factory=dict)
    messages: dict[Queue, dict[int, ReceivedMessage]] = field(default_factory=dict)
    counted: list[tuple[str, str]] = field(default_factory=list)
    consumer: dict[str, Any] = field(default_factory=dict)
    producers: dict[str, Any] = field(default_factory=dict)
    updates: int | None = None

    def __post_init__(self) -> None:
        self._committed: set[tuple[str, str]] = set()
        self._listed: set[tuple[str, str]] = set()
        self._take_configurations()
        for one in self.recording:
            self._take_making(one)
            if one.succeeded:
                self._take_offsets(one)
                self._take_ends(one)
                self._take_clients(one)
        self._take_listed()

    @cached_property
    def topic_names(self) -> list[str]:
        """Topics in the NameServer's first list that no earlier request created."""
        made: set[str] = set()
        for one in self.recording:
            if one.request.code == Code.UPDATE_AND_CREATE_TOPIC:
                made.add(one.request.fields["topic"])
            if one.request.code == Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER:
                return [name for name in one.body["topicList"] if name not in made]
        raise LookupError("the recording has no list of topics")

    def _take_configurations(self) -> None:
        """Configurations are in the JSON recording only; both are of one broker."""
        source = exchanges(RECORDINGS[0])
        topics = next(o for o in source if o.request.code == Code.GET_ALL_TOPIC_CONFIG)
        table = topics.body["topicConfigTable"]
        self.topics = {name: table[name] for name in self.topic_names}
        groups = next(
            o for o in self.recording if o.request.code == Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
        )
        made = {
            fastjson.loads(o.request.body)["groupName"]
            for o in self.recording
            if o.request.code == Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
        }
        self.groups = {
            name: row
            for name, row in groups.body["subscriptionGroupTable"].items()
            if name not in made and self._was_known(name)
        }

    def _was_known(self, group: str) -> bool:
        """Whether the group existed before the recording's heartbeats."""
        return group != "__MONITOR_CONSUMER" or f"%RETRY%{group}" in self.topics

    def _take_making(self, one: Exchange) -> None:
        fields = one.request.fields
        if one.request.code == Code.UPDATE_CONSUMER_OFFSET:
            self._committed.add((fields["consumerGroup"], fields["topic"]))

    def _take_offsets(self, one: Exchange) -> None:
        for row in one.offsets():
            self.ends.setdefault(row.queue, row.end)
            if (row.group, row.queue.topic) not in self._committed:
                self.offsets.setdefault((row.group, row.queue), row.committed)
        if one.request.code == Code.QUERY_TOPIC_CONSUME_BY_WHO:
            topic = one.request.fields["topic"]
            groups = ((group, topic) for group in one.body["groupList"])
            self._listed.update(pair for pair in groups if pair not in self._committed)

    def _take_listed(self) -> None:
        """Take groups that had committed an offset, where no reply shows its value."""
        shown = {(group, queue.topic) for group, queue in self.offsets}
        for group, topic in self._listed - shown:
            self.offsets[group, Queue(topic, 0)] = 0

    def _take_ends(self, one: Exchange) -> None:
        code, fields = one.request.code, one.request.fields
        assert one.reply is not None
        for message in one.messages():
            queue = Queue(message.topic, message.queue_id)
            self.messages.setdefault(queue, {})[message.queue_offset] = message
        if code == Code.SEND_MESSAGE_V2:
            queue = Queue(fields["b"], int(one.reply.fields["queueId"]))
            self.ends.setdefault(queue, int(one.reply.fields["queueOffset"]))
        elif code == Code.PULL_MESSAGE:
            queue = Queue(fields["topic"], int(fields["queueId"]))
            self.ends.setdefault(queue, int(one.reply.fields["maxOffset"]))
        elif code == Code.GET_TOPIC_STATS_INFO:
            for text, row in one.body["offsetTable"].items():
                key = json.loads(text)
                self.ends.setdefault(Queue(key["topic"], key["queueId"]), row["maxOffset"])

    def _take_clients(self, one: Exchange) -> None:
        if one.request.code == Code.VIEW_BROKER_STATS_DATA:
            self.counted.append((one.request.fields["statsName"], one.request.fields["statsKey"]))
        elif one.request.code == Code.GET_CONSUMER_CONNECTION_LIST and not self.consumer:
            self.consumer = {"group": one.request.fields["consumerGroup"], **one.body}
        elif one.request.code == Code.GET_ALL_PRODUCER_INFO:
            self.producers = one.body["data"]
        elif one.request.code == Code.GET_BROKER_CONFIG and self.updates is None:
            assert one.reply is not None
            self.updates = json.loads(one.reply.fields["version"])["counter"]
