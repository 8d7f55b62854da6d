"""What `mqclient.Admin` does to a cluster: each scenario holds at our servers and at Java's."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import pytest

from mqclient import (
    Admin,
    BrokerError,
    Connection,
    Message,
    MessageQueue,
    NoRouteError,
    NotFoundError,
    Producer,
    PushConsumer,
    RocketMQError,
)
from mqclient.admin import RollbackStats
from mqcommon.wire.bodies.groups import GroupConfig
from mqcommon.wire.bodies.topics import TopicConfig
from tests.waiting import until

CLUSTER, NAME = "DefaultCluster", "broker-a"


class Place(NamedTuple):
    """A running cluster of one broker, and an Admin of it. broker: "host:port".

    moves_alone: the broker itself moves a group that has no members, as RocketMQ 5's.
    """

    admin: Admin
    namesrv: str
    broker: str
    moves_alone: bool = False

    def topic(self, name: str, queues: int = 1) -> str:
        """Create a topic; returns its name once it has a route."""
        self.admin.topics.update(
            TopicConfig(name, read_queue_nums=queues, write_queue_nums=queues), broker=self.broker
        )
        assert until(lambda: name in self.admin.topics.names())
        return name

    def fill(self, topic: str, count: int, keys: str = "") -> list[Message]:
        """Send messages to a topic of one queue; returns when they can be read."""
        sent = [
            Message(topic, b"%d" % i, keys=f"{keys}{i}" if keys else None) for i in range(count)
        ]
        queue = MessageQueue(topic, NAME, 0)
        before = self.admin.offsets.maximum(queue)
        with Producer(self.namesrv, timeout=30) as producer:
            for message in sent:
                producer.send(message)
        assert until(lambda: self.admin.offsets.maximum(queue) == before + count)
        return sent


def key_values(place: Place) -> None:
    names = place.admin.namesrv
    assert names.kv("py_space", "k") is None
    assert names.kv_list("py_space") == {}
    names.put_kv("py_space", "k", "v")
    names.put_kv("py_space", "l", "w")
    assert names.kv("py_space", "k") == "v"
    assert names.kv_list("py_space") == {"k": "v", "l": "w"}
    names.delete_kv("py_space", "k")
    names.delete_kv("py_space", "k")  # it need not exist
    assert names.kv_list("py_space") == {"l": "w"}


def order_of_a_topic(place: Place) -> None:
    topics, name = place.admin.topics, place.topic("PyOrder")
    config = TopicConfig(name, read_queue_nums=3, write_queue_nums=3, order=True)
    assert topics.update_order(config, ["a", "b"]) == "a:3;b:3"
    assert (
        topics.add_to_order(TopicConfig(name, read_queue_nums=5, write_queue_nums=5), "b") == "b:5"
    )
    assert place.admin.namesrv.kv("ORDER_TOPIC_CONFIG", name) == "a:3;b:5"


def configuration_of_name_servers(place: Place) -> None:
    names, topic = place.admin.namesrv, place.topic("PyOrdered")
    (address,) = names.config()
    assert address == place.namesrv
    names.update_config({"orderMessageEnable": "true"})
    assert names.config()[address]["orderMessageEnable"] == "true"
    place.admin.topics.update_order(
        TopicConfig(topic, read_queue_nums=2, write_queue_nums=2), [NAME]
    )
    assert place.admin.topics.route(topic).order_topic_conf == f"{NAME}:2"
    names.update_config({"orderMessageEnable": "false"})
    assert names.config()[address]["orderMessageEnable"] == "false"


def write_permissions(place: Place) -> None:
    admin, topic = place.admin, place.topic("PyWritten")
    before = admin.topics.route(topic).queue_datas[0].perm
    wiped = admin.namesrv.wipe_write_perm(NAME)
    try:
        assert wiped[place.namesrv] >= 1
        assert admin.topics.route(topic).queue_datas[0].perm == before & ~2
    finally:
        added = admin.namesrv.add_write_perm(NAME)
    assert added[place.namesrv] >= 1
    assert admin.topics.route(topic).queue_datas[0].perm == before
    assert admin.namesrv.wipe_write_perm("no-such-broker") == {place.namesrv: 0}


def topics_come_and_go(place: Place) -> None:
    topics = place.admin.topics
    topics.create("PyCreated", 3)
    assert until(lambda: "PyCreated" in topics.names())
    made = topics.config(place.broker, "PyCreated")
    assert made is not None
    assert (made.read_queue_nums, made.write_queue_nums) == (3, 3)
    with pytest.raises(NoRouteError):
        topics.create("PyOther", 3, key="PyNoSuchTopic")
    assert topics.config(place.broker, "PyOther") is None
    topics.create(["PyMany1", TopicConfig("PyMany2", read_queue_nums=2, write_queue_nums=2)], 1)
    many = [topics.config(place.broker, name) for name in ("PyMany1", "PyMany2")]
    assert [made and made.write_queue_nums for made in many] == [1, 2]
    assert topics.clusters_of("PyCreated") == [CLUSTER]
    assert topics.cluster_of("PyCreated") == CLUSTER
    assert "PyCreated" in topics.names(CLUSTER)
    users = topics.user_configs(place.broker)
    assert "PyCreated" in users
    assert "TBW102" not in users
    assert not [name for name in users if name.startswith("%RETRY%")]
    assert topics.delete("PyCreated", CLUSTER) == [place.broker]
    assert topics.config(place.broker, "PyCreated") is None
    with pytest.raises(NoRouteError, match="PyCreated"):
        topics.route("PyCreated")


def groups_come_and_go(place: Place) -> None:
    groups = place.admin.groups
    config = GroupConfig("py_group", retry_max_times=3)
    assert groups.update(config, broker=place.broker) == [place.broker]
    assert groups.config(place.broker, "py_group") == config
    assert groups.config(place.broker, "py_no_group") is None
    users = groups.user_configs(place.broker)
    assert users["py_group"] == config
    assert "TOOLS_CONSUMER" not in users
    assert groups.delete("py_group", cluster=CLUSTER, remove_offset=True) == [place.broker]
    assert groups.config(place.broker, "py_group") is None
    assert groups.delete("py_group") == [place.broker], "the only cluster"


def producers_are_shown(place: Place) -> None:
    producers, topic = place.admin.producers, place.topic("PyProduced")
    with pytest.raises(BrokerError, match="not exist"):
        producers.connection("py_producers", topic)
    beats = Connection(heartbeat_interval=0.2)
    with Producer(place.namesrv, group="py_producers", connection=beats) as producer:
        producer.send(Message(topic, b"x"), timeout=30)
        assert until(lambda: "py_producers" in producers.all(place.broker))
        (member,) = producers.all(place.broker)["py_producers"]
        assert member.client_id == producer.client_id
        (connection,) = producers.connection("py_producers", topic).connection_set
        assert connection.client_id == producer.client_id
        assert connection.language == member.language


def offsets_and_times(place: Place) -> None:
    offsets, topic = place.admin.offsets, place.topic("PyTimes")
    queue = MessageQueue(topic, NAME, 0)
    assert offsets.earliest_time(queue) is None
    before = datetime.now(UTC)
    place.fill(topic, 3)
    earliest = offsets.earliest_time(queue)
    assert earliest is not None
    assert before - timedelta(seconds=1) <= earliest <= before + timedelta(seconds=60)
    assert (offsets.minimum(queue), offsets.maximum(queue)) == (0, 3)
    assert offsets.at_time(queue, before - timedelta(minutes=1)) == 0


def groups_without_members_are_moved(place: Place) -> None:
    resets, topic = place.admin.resets, place.topic("PyMoved")
    queue = MessageQueue(topic, NAME, 0)
    place.fill(topic, 4)
    group = "py_moved"
    place.admin.groups.update(GroupConfig(group), broker=place.broker)
    place.admin.offsets.commit(group, queue, 4)
    if not place.moves_alone:
        with pytest.raises(BrokerError) as caught:
            resets.online(topic, group, "earliest")
        assert caught.value.code == 206
    hour_ago = datetime.now(UTC) - timedelta(hours=1)
    (moved,) = resets.offline(topic, group, hour_ago)
    assert moved == RollbackStats(queue, 4, 4, 0, 0)
    (kept,) = resets.offline(topic, group, "latest", force=False)
    assert kept == RollbackStats(queue, 4, 0, 4, 0), "not forward without force"
    assert resets.reset(topic, group, "latest") == {queue: 4}
    place.admin.groups.update(GroupConfig("py_clone"), broker=place.broker)
    resets.clone(group, "py_clone", topic, offline=True)
    (again,) = resets.offline(topic, "py_clone", hour_ago)
    assert again.consumer_offset == 4, "it was cloned"


def groups_with_members_are_moved(place: Place) -> None:
    admin, topic, group = place.admin, place.topic("PyTold"), "py_told"
    queue = MessageQueue(topic, NAME, 0)
    place.fill(topic, 4)
    seen: list[bytes] = []
    with PushConsumer(group, place.namesrv, consume_from="earliest", commit_interval=0.1) as told:
        told.subscribe(topic, "*", lambda messages, _context: seen.extend(m.body for m in messages))
        told.wait_assigned(60)
        assert until(lambda: len(seen) == 4)
        assert until(lambda: _committed(place, group, queue) == 4)
        (status,) = admin.offsets.of_members(topic, group, told.client_id).values()
        assert status == {queue: 4}
        assert admin.offsets.of_members(topic, group, "nobody@1") == {}
        assert admin.resets.reset(topic, group, datetime.now(UTC) - timedelta(hours=1)) == {
            queue: 0
        }
        assert until(lambda: len(seen) == 8), "everything comes again"
    (span,) = admin.topics.consume_time_span(topic, group)
    assert span.message_queue == queue
    assert 0 < span.min_time_stamp <= span.max_time_stamp
    with pytest.raises(RocketMQError):
        admin.offsets.of_members(topic, "py_nobody")


def _committed(place: Place, group: str, queue: MessageQueue) -> int:
    try:
        return place.admin.offsets.progress(group).offset_table[queue].consumer_offset
    except (BrokerError, NoRouteError, NotFoundError, KeyError):
        return -1


def messages_are_found_by_key(place: Place) -> None:
    messages, topic = place.admin.messages, place.topic("PyKeys")
    place.fill(topic, 5, keys="py-key-")
    assert until(lambda: _bodies(place, topic, "py-key-3") == [b"3"])
    with pytest.raises(NotFoundError, match="no message with the key"):
        messages.query(topic, "py-key-9")
    (found,) = messages.query(topic, "py-key-2")
    stored = datetime.fromtimestamp(found.store_timestamp_ms / 1000, UTC)
    some = timedelta(seconds=5)
    assert messages.query(topic, "py-key-2", begin=stored - some, end=stored + some)
    with pytest.raises(NotFoundError, match="no message"):
        messages.query(topic, "py-key-2", end=stored - timedelta(minutes=1))


def _bodies(place: Place, topic: str, key: str) -> list[bytes]:
    try:
        return [message.body for message in place.admin.messages.query(topic, key)]
    except (BrokerError, NotFoundError):
        return []


def entries_of_a_queue(place: Place) -> None:
    brokers, topic = place.admin.brokers, place.topic("PyEntries")
    queue = MessageQueue(topic, NAME, 0)
    with pytest.raises(BrokerError, match="is not exist"):
        brokers.consume_queue(place.broker, MessageQueue(topic, NAME, 7), 0)
    place.fill(topic, 6)
    found = brokers.consume_queue(place.broker, queue, 2, 3)
    assert (found.min_queue_index, found.max_queue_index) == (0, 6)
    assert len(found.queue_data) == 3
    assert all(entry.physic_size > 90 for entry in found.queue_data)
    offline = brokers.consume_queue(place.broker, queue, 0, 1, group="py_nobody")
    assert "not online" in (offline.filter_data or "")


def files_are_cleaned(place: Place) -> None:
    brokers = place.admin.brokers
    assert brokers.clean_expired_queues() == [place.broker]
    assert brokers.clean_unused_topics(cluster=CLUSTER) == [place.broker]
    assert brokers.delete_expired_logs(broker=place.broker) == [place.broker]
    with pytest.raises(RocketMQError, match=r"'Other' does not exist.*clusters: DefaultCluster"):
        brokers.clean_unused_topics(cluster="Other")


def half_messages_are_asked_about_again(place: Place) -> None:
    messages = place.admin.messages
    with pytest.raises(ValueError, match="not 32 or 56 hex digits"):
        messages.resume_check("half")
    topic = place.topic("PyHalf")
    place.fill(topic, 1, keys="py-half-")
    assert until(lambda: _bodies(place, topic, "py-half-0") == [b"0"])
    (message,) = messages.query(topic, "py-half-0")
    messages.resume_check(message.offset_msg_id)
    missing = message.offset_msg_id[:16] + "7FFFFFFFFFFFFFFF"
    with pytest.raises(BrokerError):
        messages.resume_check(missing)


SCENARIOS: list[Callable[[Place], None]] = [
    key_values,
    order_of_a_topic,
    configuration_of_name_servers,
    write_permissions,
    topics_come_and_go,
    groups_come_and_go,
    producers_are_shown,
    offsets_and_times,
    groups_without_members_are_moved,
    groups_with_members_are_moved,
    messages_are_found_by_key,
    entries_of_a_queue,
    files_are_cleaned,
    half_messages_are_asked_about_again,
]
