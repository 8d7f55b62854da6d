"""The groups of Admin methods against a scripted cluster of two brokers: requests and results."""

from __future__ import annotations

import re
from collections.abc import Callable, Coroutine, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest

from mqclient.admin import Admin
from mqclient.admin.channel import Room
from mqclient.blocking.admin import Admin as BlockingAdmin
from mqclient.blocking.admin_groups import BlockingRoom
from mqclient.engine.mock import MockTransport
from mqclient.errors import BrokerError, ClosedError, NoRouteError, NotFoundError, RocketMQError
from mqcommon import java_properties
from mqcommon.message import MessageQueue
from mqcommon.wire import Frame, RequestCode, ResponseCode
from mqcommon.wire.bodies.common import KVTable
from mqcommon.wire.bodies.groups import (
    Connection,
    ConsumerConnection,
    ConsumeStats,
    GroupConfig,
    OffsetWrapper,
    SubscriptionGroupWrapper,
)
from mqcommon.wire.bodies.route import BrokerData, ClusterInfo, QueueData, TopicRouteData
from mqcommon.wire.bodies.running import ConsumeMessageDirectlyResult, ConsumerRunningInfo
from mqcommon.wire.bodies.topics import (
    TopicConfig,
    TopicConfigSerializeWrapper,
    TopicOffset,
    TopicStatsTable,
)

T = TypeVar("T")
Answer = Callable[[str, Frame], Frame]
NAMESRV = "10.0.0.9:9876"
A, B = "10.0.0.1:10911", "10.0.0.2:10911"
A0, B0 = MessageQueue("T", "a", 0), MessageQueue("T", "b", 0)


class TwoBrokers(MockTransport):
    """Brokers a and b of cluster C have topic T and group g. Records each request."""

    def __init__(self, **answers: bytes | Answer) -> None:
        super().__init__()
        self.asked: list[tuple[str, int, dict[str, str]]] = []
        self.closed = False
        self._answers: Mapping[str, bytes | Answer] = answers

    async def call(self, address: str, request: Frame, timeout: float) -> Frame:
        return self._answer("namesrv" if address == NAMESRV else address, request)

    async def aclose(self) -> None:
        self.closed = True

    def _answer(self, address: str, request: Frame) -> Frame:
        name = RequestCode(request.code).name
        self.asked.append((address, request.code, request.fields))
        if name in self._answers:
            answer = self._answers[name]
            if callable(answer):
                return answer(address, request)
            return request.reply(ResponseCode.SUCCESS, body=answer)
        if request.code == RequestCode.GET_ROUTEINFO_BY_TOPIC:
            if request.fields["topic"] not in ("T", "%RETRY%g"):
                return request.reply(ResponseCode.TOPIC_NOT_EXIST, "No topic route info")
            return request.reply(ResponseCode.SUCCESS, body=ROUTE.to_json())
        assert request.code == RequestCode.GET_BROKER_CLUSTER_INFO, name
        return request.reply(ResponseCode.SUCCESS, body=CLUSTERS.to_json())

    def brokers_asked(self, code: RequestCode) -> list[str]:
        return [address for address, asked, _ in self.asked if asked == code]


BROKERS = [BrokerData("a", "C", {0: A}), BrokerData("b", "C", {1: "10.0.0.3:10911", 0: B})]
ROUTE = TopicRouteData(BROKERS, [QueueData("a", 1, 1), QueueData("b", 1, 1)])
CLUSTERS = ClusterInfo({data.broker_name: data for data in BROKERS}, {"C": ["a", "b"]})


def per_broker(**bodies: bytes) -> Answer:
    """Answers by broker: a and b."""
    return lambda address, request: request.reply(
        ResponseCode.SUCCESS, body=bodies["a" if address == A else "b"]
    )


async def run(cluster: TwoBrokers, work: Callable[[Admin], Coroutine[Any, Any, T]]) -> T:
    try:
        async with Admin(NAMESRV, transport=cluster) as admin:
            return await work(admin)
    finally:
        assert cluster.closed


async def test_a_topic_is_made_on_every_master() -> None:
    cluster = TwoBrokers(UPDATE_AND_CREATE_TOPIC=b"")
    config = TopicConfig("T", read_queue_nums=4, write_queue_nums=4)
    assert await run(cluster, lambda admin: admin.topics.update(config, cluster="C")) == [A, B]
    fields = [fields for _, code, fields in cluster.asked if code == 17]
    assert fields[0] == fields[1]
    assert fields[0]["readQueueNums"] == "4"
    assert fields[0]["defaultTopic"] == "TBW102"


async def test_where_a_topic_should_live_must_be_said_once() -> None:
    config = TopicConfig("T")
    with pytest.raises(ValueError, match="either cluster or broker"):
        await run(TwoBrokers(), lambda admin: admin.topics.update(config, cluster="C", broker=A))


async def test_the_only_cluster_need_not_be_named() -> None:
    cluster = TwoBrokers(UPDATE_AND_CREATE_TOPIC=b"")
    assert await run(cluster, lambda admin: admin.topics.update(TopicConfig("T"))) == [A, B]
    named = TopicConfig("C", read_queue_nums=2, write_queue_nums=2, perm=4)
    await run(cluster, lambda admin: admin.topics.create(["A", "B", named], 3))
    asked = {(address, f["topic"]): f for address, code, f in cluster.asked[-6:] if code == 17}
    assert set(asked) == {(address, topic) for address in (A, B) for topic in "ABC"}
    assert asked[A, "A"]["writeQueueNums"] == "3"
    assert (asked[B, "C"]["perm"], asked[B, "C"]["readQueueNums"]) == ("4", "2")


async def test_one_of_several_clusters_must_be_named() -> None:
    two = ClusterInfo(CLUSTERS.broker_addr_table, {"C": ["a"], "D": ["b"]}).to_json()
    cluster = TwoBrokers(GET_BROKER_CLUSTER_INFO=two, UPDATE_AND_CREATE_TOPIC=b"")
    with pytest.raises(ValueError, match="several clusters, give cluster= one of C, D"):
        await run(cluster, lambda admin: admin.topics.create(["A", "B"]))
    await run(cluster, lambda admin: admin.topics.create(["A", "B"], cluster="D"))
    assert cluster.brokers_asked(17) == [B, B]


async def test_topics_that_cannot_be_created_are_named() -> None:
    def answer(_address: str, request: Frame) -> Frame:
        if request.fields["topic"] == "Good":
            return request.reply(ResponseCode.SUCCESS)
        return request.reply(ResponseCode.SYSTEM_ERROR, f"{request.fields['topic']} is refused")

    cluster = TwoBrokers(UPDATE_AND_CREATE_TOPIC=answer)
    with pytest.raises(BrokerError, match="Bad is refused") as caught:
        await run(cluster, lambda admin: admin.topics.create(["Bad", "Good", "Worse"]))
    assert caught.value.__notes__ == ["not created: Bad, Worse"]
    with pytest.raises(TypeError, match="a topic is a name or a TopicConfig, not int"):
        await run(cluster, lambda admin: admin.topics.create([5]))  # type: ignore[list-item]


async def test_an_unknown_cluster_names_the_known_ones() -> None:
    with pytest.raises(RocketMQError, match=r"'D' does not exist.*clusters: C"):
        await run(TwoBrokers(), lambda admin: admin.brokers.masters("D"))


async def test_an_unknown_topic_says_how_to_list_topics() -> None:
    with pytest.raises(NoRouteError, match=r"mqadmin topicList -n 10\.0\.0\.9:9876"):
        await run(TwoBrokers(), lambda admin: admin.topics.route("Nowhere"))


async def test_order_of_one_broker_keeps_that_of_others() -> None:
    def known(address: str, request: Frame) -> Frame:
        return request.reply(ResponseCode.SUCCESS, fields={"value": "a:4"})

    cluster = TwoBrokers(GET_KV_CONFIG=known, PUT_KV_CONFIG=b"")
    config = TopicConfig("T", read_queue_nums=8, write_queue_nums=8)
    assert await run(cluster, lambda admin: admin.topics.add_to_order(config, "b")) == "b:8"
    assert cluster.asked[-1][2]["value"] == "a:4;b:8"


async def test_statistics_of_a_topic_come_from_all_brokers() -> None:
    tables = {
        "a": TopicStatsTable({A0: TopicOffset(0, 5, 1)}).to_json(),
        "b": TopicStatsTable({B0: TopicOffset(2, 9, 3)}).to_json(),
    }
    cluster = TwoBrokers(GET_TOPIC_STATS_INFO=per_broker(**tables))
    stats = await run(cluster, lambda admin: admin.topics.stats("T"))
    assert stats.offset_table == {A0: TopicOffset(0, 5, 1), B0: TopicOffset(2, 9, 3)}


async def test_progress_of_a_group_adds_its_brokers() -> None:
    tables = {
        "a": ConsumeStats({A0: OffsetWrapper(5, 5, 1)}, 1.5).to_json(),
        "b": ConsumeStats({B0: OffsetWrapper(9, 2, 3)}, 2.0).to_json(),
    }
    cluster = TwoBrokers(GET_CONSUME_STATS=per_broker(**tables))
    stats = await run(cluster, lambda admin: admin.offsets.progress("g"))
    assert stats.consume_tps == 3.5
    assert stats.offset_table[B0].consumer_offset == 2


async def test_a_group_without_offsets_is_an_error() -> None:
    cluster = TwoBrokers(GET_CONSUME_STATS=ConsumeStats().to_json())
    with pytest.raises(NotFoundError, match="never consumed"):
        await run(cluster, lambda admin: admin.offsets.progress("g"))


async def test_members_are_asked_for_until_a_broker_knows_them() -> None:
    found = ConsumerConnection([Connection("1@2", "10.0.0.7:5", "JAVA", 407)])

    def only_b(address: str, request: Frame) -> Frame:
        if address == A:
            return request.reply(ResponseCode.CONSUMER_NOT_ONLINE, "not online here")
        return request.reply(ResponseCode.SUCCESS, body=found.to_json())

    cluster = TwoBrokers(GET_CONSUMER_CONNECTION_LIST=only_b)
    assert await run(cluster, lambda admin: admin.groups.connection("g")) == found
    assert cluster.brokers_asked(RequestCode.GET_CONSUMER_CONNECTION_LIST) == [A, B]


async def test_a_member_says_what_it_does() -> None:
    cluster = TwoBrokers(GET_CONSUMER_RUNNING_INFO=ConsumerRunningInfo().to_json())
    await run(cluster, lambda admin: admin.groups.running_info("g", "1@2"))
    assert cluster.asked[-1][2]["clientId"] == "1@2"


async def test_groups_are_configured_and_read() -> None:
    config = GroupConfig("g", retry_max_times=3)
    table = SubscriptionGroupWrapper({"g": config}).to_json()
    cluster = TwoBrokers(
        UPDATE_AND_CREATE_SUBSCRIPTIONGROUP=b"", GET_ALL_SUBSCRIPTIONGROUP_CONFIG=table
    )
    assert await run(cluster, lambda admin: admin.groups.update(config, broker=A)) == [A]
    assert await run(cluster, lambda admin: admin.groups.configs(A)) == {"g": config}


async def test_topics_are_read_from_a_broker() -> None:
    table = TopicConfigSerializeWrapper(
        {"T": TopicConfig("T", read_queue_nums=1, write_queue_nums=1)}
    ).to_json()
    cluster = TwoBrokers(GET_ALL_TOPIC_CONFIG=table)
    configs = await run(cluster, lambda admin: admin.topics.configs(A))
    assert configs["T"].read_queue_nums == 1


async def test_offsets_are_asked_of_the_master_that_has_the_queue() -> None:
    def five(address: str, request: Frame) -> Frame:
        return request.reply(ResponseCode.SUCCESS, fields={"offset": "5"})

    names = ("GET_MIN_OFFSET", "GET_MAX_OFFSET", "SEARCH_OFFSET_BY_TIMESTAMP")
    cluster = TwoBrokers(**dict.fromkeys(names, five), UPDATE_CONSUMER_OFFSET=b"")

    async def work(admin: Admin) -> list[int]:
        offsets = admin.offsets
        await offsets.commit("g", B0, 7)
        at_time = await offsets.at_time(B0, datetime.now(UTC))
        return [await offsets.minimum(B0), await offsets.maximum(B0), at_time]

    assert await run(cluster, work) == [5, 5, 5]
    assert {address for address, code, _ in cluster.asked if code in (15, 29, 30, 31)} == {B}
    with pytest.raises(RocketMQError, match="no master"):
        await run(cluster, lambda admin: admin.offsets.minimum(MessageQueue("T", "c", 0)))


async def test_configuration_of_a_broker_is_read_and_changed() -> None:
    cluster = TwoBrokers(
        GET_BROKER_CONFIG=b"#comment\nbrokerName=a\nmsgPath = x=y\n", UPDATE_BROKER_CONFIG=b""
    )
    assert await run(cluster, lambda admin: admin.brokers.config(A)) == {
        "brokerName": "a",
        "msgPath": "x=y",
    }
    await run(
        cluster, lambda admin: admin.brokers.update_config(A, {"flushDiskType": "SYNC_FLUSH"})
    )
    assert cluster.brokers_asked(RequestCode.UPDATE_BROKER_CONFIG) == [A]


async def test_a_changed_value_reads_back_as_it_was_given() -> None:
    bodies: list[bytes] = []

    def take(_address: str, request: Frame) -> Frame:
        bodies.append(request.body)
        return request.reply(ResponseCode.SUCCESS, body=b"")

    cluster = TwoBrokers(UPDATE_BROKER_CONFIG=take)
    changes = {"msgPath": " C:\\logs\nlistenPort=1"}
    await run(cluster, lambda admin: admin.brokers.update_config(A, changes))
    assert java_properties.read(bodies[0].decode()) == changes, "and sets no other key"


async def test_brokers_have_names_and_figures() -> None:
    cluster = TwoBrokers(GET_BROKER_RUNTIME_INFO=KVTable({"putTps": "1.0"}).to_json())
    assert await run(cluster, lambda admin: admin.brokers.runtime(A)) == {"putTps": "1.0"}
    assert await run(cluster, lambda admin: admin.brokers.name_of(B)) == "b"
    with pytest.raises(RocketMQError, match="no broker at h:1"):
        await run(cluster, lambda admin: admin.brokers.name_of("h:1"))


async def test_an_id_that_is_none_is_refused_before_anyone_is_asked() -> None:
    cluster = TwoBrokers()
    with pytest.raises(ValueError, match="not 32 or 56 hex digits"):
        await run(cluster, lambda admin: admin.messages.view("1234"))
    assert cluster.asked == []


async def test_nothing_found_at_an_offset_is_an_error() -> None:
    cluster = TwoBrokers(VIEW_MESSAGE_BY_ID=b"")
    with pytest.raises(NotFoundError, match="no message"):
        await run(cluster, lambda admin: admin.messages.view("0A00000100002A9F0000000000000000"))
    assert cluster.asked[-1][0] == A


async def test_a_result_of_direct_consumption() -> None:
    body = ConsumeMessageDirectlyResult(consume_result="CR_SUCCESS").to_json()
    cluster = TwoBrokers(CONSUME_MESSAGE_DIRECTLY=body)

    class Named:
        offset_msg_id = "0A00000100002A9F0000000000000000"

    message: Any = Named()
    result = await run(cluster, lambda admin: admin.messages.consume_directly("g", "1@2", message))
    assert result.consume_result == "CR_SUCCESS"
    assert cluster.asked[-1][2] == {
        "consumerGroup": "g",
        "clientId": "1@2",
        "msgId": Named.offset_msg_id,
    }


def test_the_blocking_face_waits_for_the_same() -> None:
    cluster = TwoBrokers(GET_BROKER_RUNTIME_INFO=KVTable({"putTps": "1.0"}).to_json())
    with BlockingAdmin(NAMESRV, transport=cluster) as admin:
        assert admin.brokers.runtime(A) == {"putTps": "1.0"}
        assert admin.topics.route("T") == ROUTE
        with pytest.raises(NoRouteError):
            admin.topics.route("Nowhere")
        assert "Reads" in (BlockingAdmin.__doc__ or "")
        assert (admin.topics.route.__doc__ or "").startswith("The route of a topic")
    assert cluster.closed


def test_a_blocking_admin_that_is_not_started_says_so() -> None:
    with pytest.raises(ClosedError, match="not started"):
        BlockingAdmin(NAMESRV, transport=TwoBrokers()).topics.names()


def test_the_blocking_rooms_have_every_method() -> None:
    admin = BlockingAdmin(NAMESRV, transport=TwoBrokers())
    rooms = {name: room for name, room in vars(admin).items() if isinstance(room, BlockingRoom)}
    assert rooms.keys() == {n for n, room in vars(admin._async).items() if isinstance(room, Room)}
    for room, blocking in rooms.items():
        names = {name for name in dir(blocking._async) if not name.startswith("_")}
        assert names == {name for name in dir(blocking) if not name.startswith("_")}, (
            f"{room}: run `make pages`, which writes mqclient/blocking/admin_groups.py"
        )


def test_the_page_names_methods_that_exist() -> None:
    page = (Path(__file__).parents[2] / "docs/client/admin.md").read_text()
    table = page.split("`DefaultMQAdminExt` has one here:")[1].split("\n\n")[1]
    named = re.findall(r"`(\w+)\.(\w+)`", table)
    assert len(named) > 50
    admin = BlockingAdmin(NAMESRV, transport=TwoBrokers())
    for room, method in named:
        assert callable(getattr(getattr(admin, room), method)), f"{room}.{method}"


async def test_a_change_goes_to_every_name_server() -> None:
    second = "10.0.0.8:9876"
    failing = TwoBrokers(PUT_KV_CONFIG=b"")
    failing._answers = {
        "PUT_KV_CONFIG": lambda address, request: request.reply(
            ResponseCode.SYSTEM_ERROR if address == "namesrv" else ResponseCode.SUCCESS, "full"
        )
    }
    async with Admin([NAMESRV, second], transport=failing) as admin:
        with pytest.raises(BrokerError, match="full"):
            await admin.namesrv.put_kv("s", "k", "v")
    assert failing.brokers_asked(RequestCode.PUT_KV_CONFIG) == ["namesrv", second]


def test_only_the_name_of_a_topic_or_group_is_given_by_position() -> None:
    with pytest.raises(TypeError, match="positional"):
        TopicConfig("T", 4, 4)  # type: ignore[call-arg, misc]
    with pytest.raises(TypeError, match="positional"):
        GroupConfig("g", True)  # type: ignore[call-arg, misc]
    assert GroupConfig("g").to_plain()["groupName"] == "g"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (1_700_000_000_000, "to must be a datetime, not int"),
        (datetime(2026, 11, 27), "to needs a datetime with a time zone"),
        ("now", "to must be a datetime, 'earliest' or 'latest', not 'now'"),
    ],
)
async def test_a_reset_goes_to_a_datetime_the_start_or_the_end(wrong: Any, words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        await run(TwoBrokers(), lambda admin: admin.resets.reset("T", "g", wrong))


async def test_times_are_aware_datetimes() -> None:
    searched: list[str] = []

    def search(_address: str, request: Frame) -> Frame:
        searched.append(request.fields["timestamp"])
        return request.reply(ResponseCode.SUCCESS, fields={"offset": "5"})

    cluster = TwoBrokers(SEARCH_OFFSET_BY_TIMESTAMP=search)
    when = datetime(2023, 11, 14, 22, 13, 20, 123_999, tzinfo=UTC)
    before_all = datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
    for time in (when, before_all):
        assert await run(cluster, lambda admin, at=time: admin.offsets.at_time(B0, at)) == 5
    assert searched == ["1700000000123", "0"]
    with pytest.raises(TypeError, match="when must be a datetime, not int"):
        await run(cluster, lambda admin: admin.offsets.at_time(B0, 1))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="begin must be a datetime, not int"):
        await run(cluster, lambda admin: admin.messages.query("T", "k", begin=1))  # type: ignore[arg-type]
