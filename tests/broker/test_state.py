"""The state of topics, groups and members: created, published, saved and sent to clients."""

from __future__ import annotations

import threading

import pytest

from mqcommon import fastjson
from mqcommon.names import illegal_topic, is_legal_group
from mqcommon.wire.bodies.groups import GroupConfig
from mqcommon.wire.bodies.heartbeat import ConsumerData, SubscriptionData
from mqcommon.wire.bodies.topics import TopicConfig
from mqserver.broker.state.consumers import Consumers
from mqserver.broker.state.groups import Groups
from mqserver.broker.state.members import Member
from mqserver.broker.state.producers import Producers
from mqserver.broker.state.reading import read_groups, read_topics
from mqserver.broker.state.saving import Saver
from mqserver.broker.state.topics import NewTopic, Topics, built_in, shown
from mqserver.broker.table import CODE_FAMILIES, families_of
from mqserver.config.broker_table import BROKER
from mqserver.config.load import load, pairs
from mqserver.config.settings import broker_settings
from mqserver.runtime.data_plane import Tables


class FakePlane:
    """Records each published table."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[str, object]] = {}
        self.versions: list[tuple[str, int]] = []
        self.forgotten: list[list[str] | str] = []

    def publish(
        self, table: str, version: int, rows: dict[str, object | None], replace: bool = False
    ) -> None:
        if table == "heartbeats":
            self.forgotten.append("all" if replace else [*rows])
            return
        self.versions.append((table, version))
        kept = {} if replace else self.tables.setdefault(table, {})
        for key, row in rows.items():
            if row is None:
                kept.pop(key, None)
            else:
                kept[key] = row
        self.tables[table] = kept


class Room:
    """State tables whose publications and notifications are recorded."""

    def __init__(self, **settings: str) -> None:
        self.plane = FakePlane()
        tables = Tables()
        tables.attach(self.plane)
        self.settings = broker_settings(
            load(BROKER, flags=pairs({"brokerName": "b", **settings}, "t"))
        )
        self.saved: list[str] = []
        self.announced = 0
        self.notified: list[tuple[str, list[int], bool]] = []
        self.topics = Topics(
            built_in(self.settings), tables, lambda: 7, self.saved.append, self._announce
        )
        self.groups = Groups(
            tables,
            lambda: 7,
            self.saved.append,
            lambda: self.settings.auto_create_subscription_group,
        )
        self.consumers = Consumers(tables, lambda *told: self.notified.append(told))
        self.topics.load(None)
        self.groups.load(None)

    def _announce(self) -> None:
        self.announced += 1

    def create(self, topic: str, template: str = "TBW102", queues: int = 4) -> TopicConfig | None:
        auto = self.settings.auto_create_topic_enable
        return self.topics.create_for_send(topic, NewTopic(template, queues, False), auto)


def member(connection: int, client: str = "c") -> Member:
    return Member(f"{client}{connection}", connection, f"127.0.0.1:{connection}", 0, 407, 1.0)


def consuming(*topics: str, version: int = 1, group: str = "g", **data: str) -> ConsumerData:
    subscriptions = [SubscriptionData(topic, sub_version=version) for topic in topics]
    return ConsumerData(group, subscription_data_set=subscriptions, **data)


class TestTopics:
    def test_built_in_topics_are_rocketmqs(self) -> None:
        rows = Room().topics.wrapper().topic_config_table
        shape = {name: (row.read_queue_nums, row.perm) for name, row in rows.items()}
        assert shape == {
            "SELF_TEST_TOPIC": (1, 6),
            "TBW102": (8, 7),
            "BenchmarkTest": (1024, 6),
            "DefaultCluster": (16, 7),
            "b": (1, 7),
            "OFFSET_MOVED_EVENT": (1, 6),
            "SCHEDULE_TOPIC_XXXX": (18, 6),
            "DefaultCluster_REPLY_TOPIC": (1, 6),
        }

    def test_a_send_creates_from_the_template(self) -> None:
        room = Room()
        config = room.create("New", queues=4)
        assert config is not None
        assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (4, 4, 6)
        assert room.saved == ["unasked.json", "topics.json"]
        assert room.announced == 0, "the sender waits for that on no thread of a family"
        assert room.plane.tables["topics"]["New"] == (6, 4, 4, False, False)
        assert room.topics.version.counter == 1

    @pytest.mark.parametrize(("asked", "given"), [(99, 8), (3, 3), (-1, 0)])
    def test_the_client_gets_at_most_the_templates_queues(self, asked: int, given: int) -> None:
        config = Room().create("New", queues=asked)
        assert config is not None
        assert config.write_queue_nums == given

    def test_a_template_must_exist_and_be_inheritable(self) -> None:
        room = Room()
        assert room.create("New", template="Nothing") is None
        room.topics.put(TopicConfig("Plain", read_queue_nums=4, write_queue_nums=4, perm=6))
        assert room.create("New", template="Plain") is None
        assert Room(autoCreateTopicEnable="false").create("New") is None

    def test_state_survives_a_round_trip_in_rocketmqs_json(self) -> None:
        room = Room()
        room.create("New")
        text = room.topics.render()
        assert text.startswith(b'{\n\t"dataVersion":{\n\t\t"counter":1,\n\t\t"timestamp":7\n\t},')
        again = Room()
        again.topics.load(read_topics(text).content)
        assert again.topics.wrapper() == room.topics.wrapper()
        assert "New" in again.plane.tables["topics"]

    def test_only_key_values_order_topics(self) -> None:
        room = Room()
        room.create("A")
        room.topics.set_ordered(["A", "unknown"])
        assert room.topics.get("A").order
        assert room.plane.tables["topics"]["A"] == (6, 4, 4, False, True)
        version = room.topics.version
        room.topics.set_ordered(["A"])
        assert room.topics.version == version
        room.topics.set_ordered([])
        assert not room.topics.get("A").order

    def test_a_topic_is_shown_as_java_shows_it(self) -> None:
        assert shown(TopicConfig("T", read_queue_nums=4, write_queue_nums=5, perm=6)) == (
            "TopicConfig [topicName=T, readQueueNums=4, writeQueueNums=5, perm=RW-, "
            "topicFilterType=SINGLE_TAG, topicSysFlag=0, order=false]"
        )

    @pytest.mark.parametrize(
        ("name", "word"),
        [
            ("", "blank"),
            ("  ", "blank"),
            (None, "blank"),
            ("a b", "illegal"),
            ("ü", "illegal"),
            ("t" * 128, "longer"),
        ],
    )
    def test_illegal_names(self, name: str | None, word: str) -> None:
        assert word in (illegal_topic(name) or "")
        assert illegal_topic("%RETRY%g-1|x_Y") is None
        assert illegal_topic("t" * 127) is None


class TestGroups:
    def test_groups_are_created_when_met_if_allowed(self) -> None:
        room = Room()
        assert room.groups.find("g") == GroupConfig("g")
        assert room.saved == ["unasked.json", "subscriptionGroup.json"]
        assert room.plane.tables["groups"]["g"] == (True, True, 16, 1, 0, 1)
        closed = Room(autoCreateSubscriptionGroup="false")
        assert closed.groups.find("g") is None
        assert closed.groups.find("CID_RMQ_SYS_TRANS") is not None
        assert closed.groups.find("TOOLS_CONSUMER") is not None

    def test_nameless_and_endless_groups_are_not_created(self) -> None:
        room = Room()
        assert room.groups.find("") is None
        assert room.groups.find("g" * 256) is None
        assert is_legal_group("g" * 255)

    def test_state_survives_a_round_trip(self) -> None:
        room = Room()
        room.groups.put(GroupConfig("g", consume_enable=False, retry_max_times=3))
        again = Room()
        again.groups.load(read_groups(room.groups.render()).content)
        assert again.groups.find("g") == room.groups.find("g")
        assert again.groups.version == room.groups.version


class TestConsumers:
    def test_a_new_member_is_published_and_told(self) -> None:
        room = Room()
        assert room.consumers.register(consuming("T"), member(1))
        assert room.notified == [("g", [1], False)]
        row = (False, {"T": ("TAG", "*", 1, [])})
        assert room.plane.tables["subscriptions"] == {"g": row}
        assert room.plane.tables["answers"] == {"38|g": b'{"consumerIdList":["c1"]}'}

    def test_the_same_heartbeat_changes_nothing(self) -> None:
        room = Room()
        room.consumers.register(consuming("T"), member(1))
        published = len(room.plane.versions)
        assert not room.consumers.register(consuming("T"), member(1))
        assert len(room.notified) == 1
        assert len(room.plane.versions) == published

    def test_who_is_asked_again_for_a_heartbeat(self) -> None:
        room = Room()
        asked = room.plane.forgotten
        room.consumers.register(consuming("T"), member(1))
        room.consumers.register(consuming("T"), member(2))
        assert asked == [], "a member more is nothing to the others"
        room.consumers.register(consuming("U"), member(2))
        assert asked == [["1"]], "its next heartbeat subscribes to T again"
        room.consumers.register(consuming("T"), member(1))
        assert asked == [["1"], ["2"]]
        room.groups.put(GroupConfig("g"))
        room.groups.remove("g")
        room.topics.put(TopicConfig("T"))
        room.topics.remove("T")
        assert asked[2:] == ["all"] * 3

    def test_a_newer_subscription_is_published_but_not_told(self) -> None:
        room = Room()
        room.consumers.register(consuming("T"), member(1))
        assert not room.consumers.register(consuming("T", version=2), member(1))
        assert room.plane.tables["subscriptions"]["g"] == (False, {"T": ("TAG", "*", 2, [])})
        assert len(room.notified) == 1

    def test_topics_of_the_latest_heartbeat_are_the_groups(self) -> None:
        room = Room()
        room.consumers.register(consuming("T", "U"), member(1))
        assert room.consumers.register(consuming("T"), member(2))
        group = room.consumers.get("g")
        assert group is not None
        assert set(group.subscriptions) == {"T"}
        assert group.client_ids() == ["c1", "c2"]

    def test_who_leaves_is_told_to_those_who_stay(self) -> None:
        room = Room()
        room.consumers.register(consuming("T"), member(1))
        room.consumers.register(consuming("T"), member(2))
        room.consumers.unregister("g", 1)
        room.consumers.close(2)
        assert room.notified[2:] == [("g", [2], False), ("g", [], True)]
        assert room.consumers.get("g") is None
        assert room.plane.tables["subscriptions"] == {}
        assert room.plane.tables["answers"] == {}

    def test_administration_sees_members_and_subscriptions(self) -> None:
        room = Room()
        room.consumers.register(consuming("T", message_model="BROADCASTING"), member(1))
        connection = room.consumers.connection("g")
        assert connection is not None
        plain = fastjson.loads(connection.to_json())
        assert plain["connectionSet"] == [
            {"clientAddr": "127.0.0.1:1", "clientId": "c1", "language": "JAVA", "version": 407}
        ]
        assert room.plane.tables["subscriptions"]["g"][0] is True
        assert room.consumers.groups_of_topic("T") == ["g"]
        assert room.consumers.silent_since(2.0) == [1]


def test_producers_come_and_go() -> None:
    producers = Producers()
    producers.register("p", member(1))
    producers.register("p", member(2))
    producers.unregister("p", 1)
    assert [m.connection for m in producers.members("p")] == [2]
    producers.close(2)
    assert producers.members("p") == []


def test_versions_rise_and_what_was_published_early_arrives() -> None:
    tables, plane = Tables(), FakePlane()
    tables.publish("t", {"a": 1})
    tables.publish("t", {"b": 2, "a": None})
    tables.attach(plane)
    tables.publish("u", {"c": 3})
    assert plane.tables == {"t": {"b": 2}, "u": {"c": 3}}
    assert plane.versions == [("t", 1), ("t", 2), ("u", 1)]


def test_many_changes_are_saved_once() -> None:
    written: list[tuple[str, bytes]] = []
    saver = Saver(lambda name, text: written.append((name, text)))
    saver.add("a.json", lambda: b"now")
    for _ in range(5):
        saver.mark("a.json")
    saver.start()
    saver.stop()
    assert written == [("a.json", b"now")]
    saver.save_now("a.json")
    assert len(written) == 2


def test_callers_that_wait_at_once_share_one_write() -> None:
    first_writes, may_end = threading.Event(), threading.Event()
    written: list[bytes] = []

    def save(_name: str, text: bytes) -> None:
        first_writes.set()
        assert may_end.wait(60)
        written.append(text)

    state = [0]
    saver = Saver(save)
    saver.add("a.json", lambda: b"%d" % state[0])

    def change_and_save() -> None:
        state[0] += 1
        saver.save_now("a.json")

    threads = [threading.Thread(target=change_and_save) for _ in range(5)]
    threads[0].start()
    assert first_writes.wait(60)
    for thread in threads[1:]:
        thread.start()
    while saver._asked["a.json"] < 5:
        pass
    may_end.set()
    for thread in threads:
        thread.join(60)
    assert written == [b"1", b"5"]


def test_who_waits_for_a_file_is_called_when_it_is_written() -> None:
    events: list[object] = []
    all_called = threading.Event()

    def save(name: str, _text: bytes) -> None:
        events.append(name)
        if name == "bad.json":
            raise OSError("no space")

    def done(error: Exception | None) -> None:
        events.append(str(error))
        if len(events) == 5:
            all_called.set()

    saver = Saver(save)
    for name in ("a.json", "bad.json"):
        saver.add(name, lambda: b"")
        saver.when_saved(name, done)
    saver.when_saved("a.json", done)
    saver.start()
    assert all_called.wait(60)
    assert events == ["a.json", "None", "None", "bad.json", "no space"]
    saver.when_saved("a.json", events.append)
    saver.stop()
    later = events[5:]
    assert [event for event in later if event != "bad.json"] == ["a.json", None]
    assert "bad.json" in later, "what could not be saved is tried again, at the stop at the latest"


def test_the_topics_file_is_what_the_wrapper_would_be() -> None:
    room = Room()
    for change in (
        lambda: room.topics.put(TopicConfig("New", order=True)),
        lambda: room.topics.put(TopicConfig("New", read_queue_nums=1, write_queue_nums=2)),
        lambda: room.topics.remove("New"),
    ):
        change()
        plain = room.topics.wrapper().to_plain()
        assert room.topics.render() == fastjson.dumps(plain, pretty=True).encode()


def test_every_code_has_a_family() -> None:
    families = families_of(Room().settings)
    assert set(CODE_FAMILIES.values()) <= families.keys()
