"""Admin's methods for operators' commands, against a scripted cluster of two brokers."""

from __future__ import annotations

import pytest

from mqclient.admin import Admin
from mqclient.errors import NotFoundError, RocketMQError
from mqcommon.message import MessageQueue
from mqcommon.wire import Frame, RequestCode, ResponseCode
from mqcommon.wire.bodies.common import DataVersion
from mqcommon.wire.bodies.groups import (
    Connection,
    ConsumerConnection,
    ConsumeStats,
    GroupConfig,
    OffsetWrapper,
    SubscriptionGroupWrapper,
)
from mqcommon.wire.bodies.offsets import ResetOffsetBody
from mqcommon.wire.codes import LanguageCode
from tests.admin.test_admin import A0, B0, NAMESRV, A, B, TwoBrokers, per_broker, run

SLAVE = "10.0.0.3:10911"


async def test_slaves_are_cleaned_too() -> None:
    cluster = TwoBrokers(CLEAN_UNUSED_TOPIC=b"")
    assert await run(cluster, lambda admin: admin.brokers.clean_unused_topics()) == [A, B, SLAVE]
    assert cluster.brokers_asked(RequestCode.CLEAN_UNUSED_TOPIC) == [A, B, SLAVE]
    assert await run(TwoBrokers(), lambda admin: admin.brokers.addresses("C")) == [A, B, SLAVE]


async def test_one_broker_is_asked_for_members_if_it_is_named() -> None:
    found = ConsumerConnection([Connection("1@2", "10.0.0.7:5", "JAVA", 407)])
    cluster = TwoBrokers(GET_CONSUMER_CONNECTION_LIST=found.to_json())
    assert await run(cluster, lambda admin: admin.groups.connection("g", B)) == found
    assert cluster.brokers_asked(RequestCode.GET_CONSUMER_CONNECTION_LIST) == [B]


async def test_a_group_is_looked_up_on_all_brokers() -> None:
    config = GroupConfig("g", retry_max_times=3)
    tables = {
        "a": SubscriptionGroupWrapper().to_json(),
        "b": SubscriptionGroupWrapper({"g": config}).to_json(),
    }
    cluster = TwoBrokers(GET_ALL_SUBSCRIPTIONGROUP_CONFIG=per_broker(**tables))
    (found,) = await run(cluster, lambda admin: admin.groups.on_all_brokers("g"))
    assert (found.cluster, found.broker_name, found.config) == ("C", "b", config)
    with pytest.raises(RocketMQError, match=r"no broker .* group 'other'; create it: mqadmin"):
        await run(cluster, lambda admin: admin.groups.on_all_brokers("other"))


async def test_groups_of_rocketmq_itself_are_no_user_s() -> None:
    names = ("g", "__MONITOR_CONSUMER", "DEFAULT_CONSUMER", "TOOLS_CONSUMER", "CID_RMQ_SYS_TRANS")
    table = SubscriptionGroupWrapper({name: GroupConfig(name) for name in names}, DataVersion(5, 7))
    cluster = TwoBrokers(GET_ALL_SUBSCRIPTIONGROUP_CONFIG=table.to_json())
    found = await run(cluster, lambda admin: admin.groups.user_table(A))
    assert list(found.subscription_group_table) == ["g"]
    assert found.data_version == table.data_version


async def test_offsets_of_one_topic_are_copied() -> None:
    other = MessageQueue("Other", "a", 0)
    tables = {
        "a": ConsumeStats({A0: OffsetWrapper(9, 4, 1), other: OffsetWrapper(7, 7, 1)}).to_json(),
        "b": ConsumeStats({B0: OffsetWrapper(9, -1, 1)}).to_json(),
    }
    cluster = TwoBrokers(GET_CONSUME_STATS=per_broker(**tables), UPDATE_CONSUMER_OFFSET=b"")
    assert await run(cluster, lambda admin: admin.resets.copy("g", "h", "T")) == {A0: 4}
    (sent,) = [fields for _, code, fields in cluster.asked if code == 15]
    assert (sent["consumerGroup"], sent["topic"], sent["commitOffset"]) == ("h", "T", "4")


async def test_a_group_without_offsets_has_none_to_copy() -> None:
    cluster = TwoBrokers(GET_CONSUME_STATS=ConsumeStats().to_json())
    with pytest.raises(NotFoundError, match="'g' has no committed offset in topic 'T'"):
        await run(cluster, lambda admin: admin.resets.copy("g", "h", "T"))


@pytest.mark.parametrize("of_cpp", [False, True])
async def test_members_in_cpp_are_said_to_the_broker(of_cpp: bool) -> None:
    languages: list[int | None] = []

    def reset(_address: str, request: Frame) -> Frame:
        languages.append(request.language)
        return request.reply(ResponseCode.SUCCESS, body=ResetOffsetBody({A0: 3}).to_json())

    cluster = TwoBrokers(INVOKE_BROKER_TO_RESET_OFFSET=reset)
    moved = await run(
        cluster, lambda admin: admin.resets.online("T", "g", "earliest", cpp_members=of_cpp)
    )
    assert moved == {A0: 3}
    assert set(languages) == {LanguageCode.CPP if of_cpp else LanguageCode.PYTHON}


async def test_name_servers_have_addresses() -> None:
    assert await run(TwoBrokers(), lambda admin: admin.namesrv.addresses()) == [NAMESRV]
    async with Admin("h1:1;h2:2", transport=TwoBrokers()) as admin:
        assert await admin.namesrv.addresses() == ["h1:1", "h2:2"]
